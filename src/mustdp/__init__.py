"""Certified privacy of results computed on random subsamples."""

from mustdp.accounting.account import Account, account
from mustdp.accounting.bounds import Bounds, Curve
from mustdp.accounting.ledger import Ledger
from mustdp.accounting.plan import Plan, repeat, sequence, subsample
from mustdp.amplification.one_step import OneStep, one_step
from mustdp.amplification.section4 import (
    Amplification,
    AmplificationRow,
    amplified_epsilon,
    amplify,
    base_epsilon,
)
from mustdp.calibration.compare import Comparison, compare
from mustdp.calibration.noise import Calibration, calibrate
from mustdp.calibration.sizes import largest_batch, most_steps, smallest_first_stage
from mustdp.errors import InvalidParameter, MustdpError, NotCovered, NumericalFailure
from mustdp.mechanisms.custom import Custom, custom
from mustdp.mechanisms.gaussian_sigma import analytic_sigma, classical_sigma
from mustdp.mechanisms.mechanism import Gaussian, Laplace, Mechanism, gaussian, laplace
from mustdp.sampling.batch import Batch
from mustdp.sampling.nested import NestedDesign
from mustdp.sampling.scheme import (
    Multistage,
    Poisson,
    Scheme,
    multistage,
    must_oo,
    must_ow,
    must_wo,
    must_ww,
    poisson,
    wor,
    wr,
)
from mustdp.sampling.streams import BatchStream
from mustdp.version import __version__

__all__ = [
    "Account",
    "Amplification",
    "AmplificationRow",
    "Batch",
    "BatchStream",
    "Bounds",
    "Calibration",
    "Comparison",
    "Curve",
    "Custom",
    "Gaussian",
    "InvalidParameter",
    "Laplace",
    "Ledger",
    "Mechanism",
    "Multistage",
    "MustdpError",
    "NestedDesign",
    "NotCovered",
    "NumericalFailure",
    "OneStep",
    "Plan",
    "Poisson",
    "Scheme",
    "__version__",
    "account",
    "amplified_epsilon",
    "amplify",
    "analytic_sigma",
    "base_epsilon",
    "calibrate",
    "classical_sigma",
    "compare",
    "custom",
    "gaussian",
    "laplace",
    "largest_batch",
    "most_steps",
    "multistage",
    "must_oo",
    "must_ow",
    "must_wo",
    "must_ww",
    "one_step",
    "poisson",
    "repeat",
    "sequence",
    "smallest_first_stage",
    "subsample",
    "wor",
    "wr",
]

"""Certified privacy of results computed on random subsamples."""

from mustdp.amplification.one_step import OneStep, one_step
from mustdp.amplification.section4 import (
    Amplification,
    AmplificationRow,
    amplified_epsilon,
    amplify,
    base_epsilon,
)
from mustdp.errors import InvalidParameter, MustdpError, NotCovered, NumericalFailure
from mustdp.mechanisms.custom import Custom, custom
from mustdp.mechanisms.gaussian_sigma import analytic_sigma, classical_sigma
from mustdp.mechanisms.mechanism import Gaussian, Laplace, Mechanism, gaussian, laplace
from mustdp.sampling.batch import Batch
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
from mustdp.version import __version__

__all__ = [
    "Amplification",
    "AmplificationRow",
    "Batch",
    "Custom",
    "Gaussian",
    "InvalidParameter",
    "Laplace",
    "Mechanism",
    "Multistage",
    "MustdpError",
    "NotCovered",
    "NumericalFailure",
    "OneStep",
    "Poisson",
    "Scheme",
    "__version__",
    "amplified_epsilon",
    "amplify",
    "analytic_sigma",
    "base_epsilon",
    "classical_sigma",
    "custom",
    "gaussian",
    "laplace",
    "multistage",
    "must_oo",
    "must_ow",
    "must_wo",
    "must_ww",
    "one_step",
    "poisson",
    "wor",
    "wr",
]

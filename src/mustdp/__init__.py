"""Certified privacy of results computed on random subsamples.

Everything people call is a name of this package (``import mustdp as md``); the rooms behind it are
loaded when a name is first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mustdp.version import __version__

if TYPE_CHECKING:
    from mustdp import plots as plot
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
    from mustdp.calibration.noise import Calibration, calibrate, calibrate_plan
    from mustdp.calibration.sizes import largest_batch, most_steps, smallest_first_stage
    from mustdp.errors import InvalidParameter, MustdpError, NotCovered, NumericalFailure
    from mustdp.mechanisms.custom import Custom, custom
    from mustdp.mechanisms.gaussian_sigma import analytic_sigma, classical_sigma
    from mustdp.mechanisms.mechanism import Gaussian, Laplace, Mechanism, gaussian, laplace
    from mustdp.randomness.seeds import SeededRelease
    from mustdp.resampling.bootstrap import private_bootstrap
    from mustdp.resampling.designs import Design, bag_of_little_bootstraps, double_bootstrap
    from mustdp.resampling.execution.partitioned import DaskSource, open_partitioned
    from mustdp.resampling.result import BootstrapResult, InferenceNote
    from mustdp.resampling.statistics.covariance import Correlation, Covariance
    from mustdp.resampling.statistics.mean import Mean
    from mustdp.resampling.statistics.proportion import Proportion
    from mustdp.resampling.statistics.quantile import Median, Quantile
    from mustdp.resampling.statistics.regression import LinearRegression
    from mustdp.resampling.statistics.user import UserStatistic
    from mustdp.resampling.statistics.variance import StandardDeviation, Variance
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
    from mustdp.training.budget import Budget, Spent, settle
    from mustdp.training.linear.models import DPLinearRegression, DPLogisticRegression
    from mustdp.training.networks.trainer import PrivateTrainer

#: Where each public name lives.
_HOMES = {
    "mustdp.accounting.account": (
        "Account",
        "account",
    ),
    "mustdp.accounting.bounds": (
        "Bounds",
        "Curve",
    ),
    "mustdp.accounting.ledger": ("Ledger",),
    "mustdp.accounting.plan": (
        "Plan",
        "repeat",
        "sequence",
        "subsample",
    ),
    "mustdp.amplification.one_step": (
        "OneStep",
        "one_step",
    ),
    "mustdp.amplification.section4": (
        "Amplification",
        "AmplificationRow",
        "amplified_epsilon",
        "amplify",
        "base_epsilon",
    ),
    "mustdp.calibration.compare": (
        "Comparison",
        "compare",
    ),
    "mustdp.calibration.noise": (
        "Calibration",
        "calibrate",
        "calibrate_plan",
    ),
    "mustdp.calibration.sizes": (
        "largest_batch",
        "most_steps",
        "smallest_first_stage",
    ),
    "mustdp.errors": (
        "InvalidParameter",
        "MustdpError",
        "NotCovered",
        "NumericalFailure",
    ),
    "mustdp.mechanisms.custom": (
        "Custom",
        "custom",
    ),
    "mustdp.mechanisms.gaussian_sigma": (
        "analytic_sigma",
        "classical_sigma",
    ),
    "mustdp.mechanisms.mechanism": (
        "Gaussian",
        "Laplace",
        "Mechanism",
        "gaussian",
        "laplace",
    ),
    "mustdp.resampling.bootstrap": ("private_bootstrap",),
    "mustdp.resampling.designs": (
        "Design",
        "bag_of_little_bootstraps",
        "double_bootstrap",
    ),
    "mustdp.resampling.execution.partitioned": (
        "DaskSource",
        "open_partitioned",
    ),
    "mustdp.resampling.result": (
        "BootstrapResult",
        "InferenceNote",
    ),
    "mustdp.resampling.statistics.covariance": (
        "Correlation",
        "Covariance",
    ),
    "mustdp.resampling.statistics.mean": ("Mean",),
    "mustdp.resampling.statistics.proportion": ("Proportion",),
    "mustdp.resampling.statistics.quantile": (
        "Median",
        "Quantile",
    ),
    "mustdp.resampling.statistics.regression": ("LinearRegression",),
    "mustdp.resampling.statistics.user": ("UserStatistic",),
    "mustdp.resampling.statistics.variance": (
        "StandardDeviation",
        "Variance",
    ),
    "mustdp.sampling.batch": ("Batch",),
    "mustdp.sampling.nested": ("NestedDesign",),
    "mustdp.sampling.scheme": (
        "Multistage",
        "Poisson",
        "Scheme",
        "multistage",
        "must_oo",
        "must_ow",
        "must_wo",
        "must_ww",
        "poisson",
        "wor",
        "wr",
    ),
    "mustdp.sampling.streams": ("BatchStream",),
    "mustdp.training.linear.models": (
        "DPLinearRegression",
        "DPLogisticRegression",
    ),
    "mustdp.training.budget": (
        "Budget",
        "Spent",
        "settle",
    ),
    "mustdp.randomness.seeds": ("SeededRelease",),
    "mustdp.training.networks.trainer": ("PrivateTrainer",),
}
_ROOM_OF = {name: room for room, names in _HOMES.items() for name in names}

__all__ = [
    "Account",
    "Amplification",
    "AmplificationRow",
    "Batch",
    "BatchStream",
    "BootstrapResult",
    "Bounds",
    "Budget",
    "Calibration",
    "Comparison",
    "Correlation",
    "Covariance",
    "Curve",
    "Custom",
    "DPLinearRegression",
    "DPLogisticRegression",
    "DaskSource",
    "Design",
    "Gaussian",
    "InferenceNote",
    "InvalidParameter",
    "Laplace",
    "Ledger",
    "LinearRegression",
    "Mean",
    "Mechanism",
    "Median",
    "Multistage",
    "MustdpError",
    "NestedDesign",
    "NotCovered",
    "NumericalFailure",
    "OneStep",
    "Plan",
    "Poisson",
    "PrivateTrainer",
    "Proportion",
    "Quantile",
    "Scheme",
    "SeededRelease",
    "Spent",
    "StandardDeviation",
    "UserStatistic",
    "Variance",
    "__version__",
    "account",
    "amplified_epsilon",
    "amplify",
    "analytic_sigma",
    "bag_of_little_bootstraps",
    "base_epsilon",
    "calibrate",
    "calibrate_plan",
    "classical_sigma",
    "compare",
    "custom",
    "double_bootstrap",
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
    "open_partitioned",
    "plot",
    "poisson",
    "private_bootstrap",
    "repeat",
    "sequence",
    "settle",
    "smallest_first_stage",
    "subsample",
    "wor",
    "wr",
]


def __getattr__(name: str) -> Any:
    if name == "plot":  # a whole room
        return import_module("mustdp.plots")
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'mustdp' has no attribute {name!r}")
    value = getattr(import_module(_ROOM_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

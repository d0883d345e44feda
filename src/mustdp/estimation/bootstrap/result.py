"""What a private bootstrap gives: estimates, intervals, what they cost, and a picture of them."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from mustdp.calibration.budget import PrivacySpent
from mustdp.estimation.bootstrap.designs import Design
from mustdp.estimation.bootstrap.inference import Estimate, Kind
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.checks import immutable
from mustdp.numerics.formatting import aligned, as_stated, estimate_in_words, noise_used, readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_TOP = ("estimate", "standard_error", "interval")


class InferenceNote(UserWarning):
    """Something about an estimate or its interval that its reader has to know.

    Examples
    --------
    >>> import mustdp as md
    >>> issubclass(md.types.InferenceNote, Warning)
    True
    """


class _Estimated(Protocol):
    @property
    def label(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def standard_error(self) -> float: ...
    @property
    def interval(self) -> tuple[float, float]: ...
    @property
    def noise_share(self) -> float: ...


def _numbers(one: _Estimated) -> tuple[str, str, str, str]:
    return estimate_in_words(one.value, one.standard_error, one.interval)


E = TypeVar("E", bound=_Estimated)


class Estimates(Generic[E]):
    """What the results of all releases have in common: estimates by label, and a table of them."""

    estimates: tuple[E, ...]
    privacy: PrivacySpent
    level: float
    notes: tuple[str, ...]

    @property
    def estimate(self) -> float:
        """The first estimate."""
        return self.estimates[0].value

    @property
    def standard_error(self) -> float:
        """Standard error of the first estimate."""
        return self.estimates[0].standard_error

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of the first estimate."""
        return self.estimates[0].interval

    def __getitem__(self, label: str) -> E:
        for estimate in self.estimates:
            if estimate.label == label:
                return estimate
        known = ", ".join(estimate.label for estimate in self.estimates)
        raise KeyError(f"no estimate {label!r}: there is {known}")

    def __str__(self) -> str:
        columns = (
            "estimate of",
            "value",
            "standard error",
            f"{as_stated(self.level)} interval",
            "noise",
        )
        rows = [
            (
                self._called(estimate),
                value,
                error,
                f"[{low}, {high}]",
                f"{100 * estimate.noise_share:.0f} %",
            )
            for estimate in self.estimates
            for value, error, low, high in [_numbers(estimate)]
        ]
        lines = aligned([columns, *rows])
        cost = cost_in_words(self.privacy)
        first = [cost, *lines] if self.privacy.seeded else [*lines, cost]
        return "\n".join([*first, *self.notes])

    def _called(self, estimate: E) -> str:
        """What the table calls an estimate."""
        return estimate.label


@dataclass(frozen=True, eq=False)
class BootstrapResult(Estimates[Estimate]):
    """Estimates with intervals from noisy replicates, and the certified cost of releasing them.

    ``estimate``, ``standard_error`` and ``interval`` are those of the first; ``result[label]`` is
    the estimate of that label. All of it may be published: it was made from what was released with
    noise.

    Attributes
    ----------
    estimates : tuple of Estimate
        All estimates, each with label, value, standard_error, interval and noise_share.
    privacy : PrivacySpent
        What the release cost.
    design : Design
        What was drawn.
    level : float
        Confidence of the intervals.
    kind : str
        Kind of the intervals.
    replicates : ndarray
        The noisy replicates, one row for each release and one column for each estimate.
    notes : tuple of str
        What a reader has to know.
    simultaneous : bool
        Whether the intervals hold together.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> ages = np.random.default_rng(0).uniform(20, 80, 1000)
    >>> design = md.wor(1000, 100)
    >>> result = md.private_bootstrap(
    ...     ages, "mean", lower=0, upper=100, design=design, replicates=20, noise_multiplier=9.0,
    ...     delta=1e-6,
    ... )
    >>> result.replicates.shape, result.level
    ((20, 1), 0.95)
    """

    estimates: tuple[Estimate, ...]
    privacy: PrivacySpent
    design: Design
    level: float
    kind: Kind
    replicates: FloatArray
    notes: tuple[str, ...] = ()
    simultaneous: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "replicates", immutable(self.replicates))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays come out of a pickle writeable, depending on its protocol.
        self.__dict__.update(state, replicates=immutable(state["replicates"]))

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON: the first estimate on top, all of them in ``estimates``.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        rows = [
            {
                "label": estimate.label,
                "estimate": estimate.value if math.isfinite(estimate.value) else None,
                "standard_error": (
                    estimate.standard_error if math.isfinite(estimate.standard_error) else None
                ),
                "interval": [end if math.isfinite(end) else None for end in estimate.interval],
                "noise_share": estimate.noise_share,
                "description": estimate.description,
            }
            for estimate in self.estimates
        ]
        top = {key: value for key, value in rows[0].items() if key in _TOP}
        return {
            **top,
            "level": self.level,
            "kind": self.kind,
            "simultaneous": self.simultaneous,
            "estimates": rows,
            "privacy": self.privacy.as_dict(),
            "design": self.design.describe(),
            "notes": list(self.notes),
        }

    def _called(self, estimate: Estimate) -> str:
        return estimate.description or estimate.label

    def plot(self, label: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the replicates of one estimate, its interval and the noise's share.

        Parameters
        ----------
        label : str, default=None
            Which estimate; None means the first.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes that were drawn on; nothing is shown or saved.
        """
        drawing: Any = importlib.import_module("mustdp.reporting.plots.results")
        axes: Axes = drawing.bootstrap_replicates(self, label, ax=ax)
        return axes


def cost_in_words(privacy: PrivacySpent) -> str:
    """What the release costs, in one sentence."""
    bounds, neighbours = privacy.epsilon, privacy.relation.option
    if privacy.seeded:
        return f"no privacy: made with a seed, an experiment and no release ({privacy.source})"
    if privacy.plan is None:
        return f"no guarantee: {privacy.source}"
    if not privacy.certified:
        return f"no finite epsilon could be certified ({privacy.source})"
    return (
        f"({readable(bounds.upper, 'up', 5)}, {as_stated(privacy.delta)})-differentially private "
        f"under {neighbours}, certified; noise multiplier {noise_used(privacy.noise_multiplier)} "
        f"({privacy.source}{', one number a subset' if privacy.dimension == 1 else ''})"
    )

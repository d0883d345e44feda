"""What a calibration returns: the same five facts always, and beside them what was looked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from mustdp.accounting.account import in_words
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Plan
from mustdp.calibration.search import SMALLEST
from mustdp.errors import NotCovered
from mustdp.mechanisms.contract import Mechanism
from mustdp.mechanisms.registry import registered
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.formatting import as_stated, readable
from mustdp.sampling.epochs import Sampling
from mustdp.sampling.schemes import Scheme


class FoundNoise:
    """Noise whose size was looked for: a noise multiplier, or whatever its kind has instead."""

    mechanism: Mechanism

    @property
    def parameter(self) -> str:
        """The argument of the mechanism that was looked for."""
        return str(registered(self.mechanism).searched)

    @property
    def size(self) -> float:
        """The value of that argument."""
        return float(self.mechanism.describe()[self.parameter])

    @property
    def noise_multiplier(self) -> float:
        """The noise multiplier found, where noise has one."""
        if self.parameter != "noise_multiplier":
            raise NotCovered(
                f"{self.mechanism.name} noise has no noise multiplier; its {self.parameter} is the "
                "size that was found"
            )
        return self.size

    @property
    def noise_found(self) -> str:
        """The size in words, rounded up: more noise is never less private."""
        return f"{self.parameter.replace('_', ' ')} {readable(self.size, 'up', 4)}"


def noise_limit(size: float, words: str = "noise multiplier") -> str | None:
    """What to say of a noise at the end of the range that is searched."""
    if size > SMALLEST:
        return None
    what = words.removeprefix("noise ")
    return f"the target needs hardly any noise: a {what} below {SMALLEST:g} is not looked at"


@dataclass(frozen=True)
class Calibrated:
    """A plan that meets a target: ``epsilon.upper`` at ``delta`` is at most what was asked.

    Attributes
    ----------
    plan : Plan
        What meets the target.
    mechanism : Mechanism
        The noise.
    relation : Relation
        Which data sets are neighbours.
    epsilon : Bounds
        Bounds of epsilon at ``delta``; the upper one is certified and within the target.
    delta : float
        The delta at which epsilon is stated.
    limit : str or None
        What ended the search where the target did not, in words; else None.

    Examples
    --------
    >>> import mustdp as md
    >>> noise = md.laplace(shift=0.5)
    >>> scheme, target = md.poisson(1000, 1.0), {"epsilon": 2, "delta": 1e-5}
    >>> found = md.calibration.most_steps(scheme, mechanism=noise, **target)
    >>> found.epsilon.upper <= 2.0, found.delta
    (True, 1e-05)
    """

    plan: Plan
    mechanism: Mechanism
    relation: Relation
    epsilon: Bounds
    delta: float
    limit: str | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        """What was found, what it is certified for, and the plan, one line each."""
        cost = f"epsilon at delta {as_stated(self.delta)}: {self.epsilon}"
        noted = () if self.limit is None else (self.limit,)
        return "\n".join((self._found, cost, in_words(self.plan), *noted))

    @property
    def _found(self) -> str:
        return in_words(self.mechanism)


@dataclass(frozen=True)
class PlanCalibration(FoundNoise, Calibrated):
    """Noise for a whole plan that meets a target; its attributes are those of :class:`Calibrated`.

    Examples
    --------
    >>> import mustdp as md
    >>> def plan(noise):
    ...     return md.repeat(3, noise)
    >>> found = md.calibration.calibrate_plan(plan, epsilon=1.0, delta=1e-5)
    >>> found.epsilon.upper <= 1.0, found.noise_multiplier > 5.0
    (True, True)
    """

    @property
    def _found(self) -> str:
        return self.noise_found


@dataclass(frozen=True)
class Calibration(PlanCalibration):
    """Noise that meets a target for repeated draws of one scheme, or of a number of batches of
    epochs.

    The other attributes are those of :class:`Calibrated`.

    Attributes
    ----------
    scheme : Scheme or Epoch
        How batches are drawn.
    steps : int
        Number of steps.

    Examples
    --------
    >>> import mustdp as md
    >>> found = md.calibrate(md.poisson(1000, 0.01), epsilon=1.0, delta=1e-5, steps=100)
    >>> found.epsilon.upper <= 1.0, found.steps, found.scheme.name
    (True, 100, 'poisson')
    >>> print(found)
    noise multiplier 0.9023
    epsilon at delta 1e-05: 0.999 attained, 1.00 certified (add-remove)
    100 x (poisson, n 1000, rate 0.01; gaussian, noise multiplier 0.902210)
    """

    scheme: Sampling
    steps: int


@dataclass(frozen=True)
class Solution(Calibrated):
    """Steps or a size that meet a target for a given noise.

    The other attributes are those of :class:`Calibrated`.

    Attributes
    ----------
    scheme : Scheme
        How batches are drawn.
    steps : int
        Number of steps.
    value : int
        The one that was looked for: steps, m or b.

    Examples
    --------
    >>> import mustdp as md
    >>> noise = md.laplace(shift=0.5)
    >>> scheme, target = md.poisson(1000, 1.0), {"epsilon": 2, "delta": 1e-5}
    >>> found = md.calibration.most_steps(scheme, mechanism=noise, **target)
    >>> found.value == found.steps
    True
    """

    scheme: Scheme
    steps: int
    value: int

    @property
    def _found(self) -> str:
        return f"found: {self.value}"

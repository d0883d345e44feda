"""The smallest noise that meets a target, on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Plan, repeat, subsample
from mustdp.errors import NumericalFailure
from mustdp.limits import LARGEST_EPSILON, MOST_STEPS, SMALLEST_DELTA
from mustdp.mechanisms.mechanism import AdditiveNoise, gaussian, laplace
from mustdp.mechanisms.relation import Relation, resolve_relation
from mustdp.numerics import checks
from mustdp.sampling.scheme import Scheme

_MECHANISMS: dict[str, Callable[..., AdditiveNoise]] = {"gaussian": gaussian, "laplace": laplace}
#: The epsilon reached lies between this fraction of the target and the target.
_CLOSE = 1.0 - 1e-3
#: Accuracy of the account while bracketing, and while closing in.
_COARSE, _FINE = 0.02, 1e-3
_SMALLEST, _LARGEST = 1e-4, 1e8


@dataclass(frozen=True)
class PlanCalibration:
    """Noise for a whole plan that meets a target: ``epsilon.upper`` is at most what was asked."""

    plan: Plan
    mechanism: AdditiveNoise
    relation: Relation
    epsilon: Bounds
    delta: float

    @property
    def noise_multiplier(self) -> float:
        """The noise multiplier found."""
        return float(self.mechanism.noise_multiplier or math.nan)


@dataclass(frozen=True)
class Calibration(PlanCalibration):
    """Noise that meets a target for repeated draws of one scheme."""

    scheme: Scheme
    steps: int


def calibrate(
    scheme: Scheme,
    *,
    epsilon: float,
    delta: float,
    steps: int,
    mechanism: str = "gaussian",
    relation: str | None = None,
) -> Calibration:
    """Find the noise multiplier for ``steps`` draws of ``scheme`` to be (epsilon, delta)-DP.

    The certified epsilon of the result is at most ``epsilon`` and within 0.1 % of it.
    """
    steps = checks.integer("steps", steps, 1, MOST_STEPS)
    used = resolve_relation(scheme, relation)
    found = calibrate_plan(
        lambda noise: repeat(steps, subsample(scheme, noise)),
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        relation=used,
    )
    return Calibration(found.plan, found.mechanism, used, found.epsilon, found.delta, scheme, steps)


def calibrate_plan(
    build: Callable[[AdditiveNoise], Plan],
    *,
    epsilon: float,
    delta: float,
    mechanism: str = "gaussian",
    relation: str | None = None,
) -> PlanCalibration:
    """Find the noise for a plan that is built from its mechanism, nested plans included.

    ``build`` is called with mechanisms of different noise multipliers and must only place them.
    """
    epsilon = checks.real("epsilon", epsilon, above=0, at_most=LARGEST_EPSILON)
    delta = checks.real("delta", delta, at_least=SMALLEST_DELTA, below=1)
    make = _MECHANISMS[checks.choice("mechanism", mechanism, tuple(_MECHANISMS))]

    def spent(z: float, accuracy: float) -> float:
        plan = build(make(noise_multiplier=z))
        try:
            return account(plan, relation=relation).certified_epsilon(delta, accuracy)
        except NumericalFailure:
            return math.inf  # not certified: counts as too little noise

    noise = make(noise_multiplier=smallest_noise(spent, epsilon))
    settled = account(build(noise), relation=relation)
    bounds = settled.epsilon(delta)
    if bounds.upper > epsilon:  # the search may have used a finer grid; either bound is certified
        bounds = replace(bounds, upper=settled.certified_epsilon(delta, _FINE))
    if not bounds.upper <= epsilon:
        raise NumericalFailure(
            f"noise multiplier {noise.noise_multiplier!r} was found for epsilon={epsilon!r}, but "
            f"its account says {bounds.upper!r}"
        )
    return PlanCalibration(settled.plan, noise, settled.relation, bounds, delta)


def smallest_noise(spent: Callable[[float, float], float], target: float) -> float:
    """Bracket and close in on the noise whose certified epsilon just meets ``target``.

    ``spent(z, accuracy)`` must not increase with the noise z. It is asked coarsely while the
    bracket is wide; only a value that met the target at full accuracy is returned.
    """
    low, high = math.nan, math.nan  # too little noise, enough noise
    low_value, high_value = math.inf, 0.0
    z = 1.0
    while math.isnan(low) or math.isnan(high):
        value = spent(z, _COARSE)
        if value <= target:
            high, high_value = z, value
            if z <= _SMALLEST:
                return high
            z = max(z / 2.0, _SMALLEST)
        else:
            low, low_value = z, value
            if z >= _LARGEST:
                raise NumericalFailure(
                    f"no noise multiplier up to {_LARGEST:g} reaches epsilon={target!r}"
                )
            z = min(z * 2.0, _LARGEST)
    met = math.nan
    for step in range(80):
        if high / low - 1.0 < 1e-9:
            break
        z = _between(low, high, low_value, high_value, target, step)
        value = spent(z, _FINE)
        if value <= target:
            high, high_value, met = z, value, z
            if value >= _CLOSE * target:
                return z
        else:
            low, low_value = z, value
    return met if not math.isnan(met) else high


def _between(
    low: float, high: float, low_value: float, high_value: float, target: float, step: int
) -> float:
    """Interpolate log epsilon in log noise, aiming a hair under the target; sometimes bisect."""
    middle = math.sqrt(low * high)
    if step % 3 == 2 or not (0 < high_value < low_value < math.inf):
        return middle
    aim = math.log(target * (1.0 - 4e-4))
    share = (math.log(low_value) - aim) / (math.log(low_value) - math.log(high_value))
    z = low * (high / low) ** share
    return z if low < z < high else middle

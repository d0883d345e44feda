"""The smallest noise that meets a target, on the safe side."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import overload

from mustdp.accounting.plan import Plan, steps_of
from mustdp.calibration.guess import rough_epsilon
from mustdp.calibration.noise_search import smallest_noise
from mustdp.calibration.results import Calibration, PlanCalibration
from mustdp.calibration.risk_noise import RiskCalibration, RiskTarget, calibrate_risk
from mustdp.calibration.search import Target, meet
from mustdp.errors import InvalidParameter
from mustdp.limits import MOST_STEPS
from mustdp.mechanisms.mechanism import AdditiveNoise, Gaussian, Laplace, Mechanism
from mustdp.numerics import checks
from mustdp.sampling.epochs import Epoch, Sampling

_KINDS: dict[str, type[AdditiveNoise]] = {"gaussian": Gaussian, "laplace": Laplace}


@overload
def calibrate(
    scheme: Sampling,
    *,
    epsilon: float,
    delta: float,
    steps: int | None = None,
    epochs: int | None = None,
    mechanism: str | Mechanism = "gaussian",
    relation: str | None = None,
    group: int = 1,
    composition: str = "auto",
) -> Calibration: ...
@overload
def calibrate(
    scheme: Sampling,
    *,
    steps: int | None = None,
    epochs: int | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    advantage: float | None = None,
    mechanism: str | Mechanism = "gaussian",
    relation: str | None = None,
    group: int = 1,
) -> RiskCalibration: ...
def calibrate(
    scheme: Sampling,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    advantage: float | None = None,
    mechanism: str | Mechanism = "gaussian",
    relation: str | None = None,
    group: int = 1,
    composition: str = "auto",
) -> Calibration | RiskCalibration:
    """Find the noise multiplier for ``steps`` draws of ``scheme`` to be (epsilon, delta)-DP.

    Where ``scheme`` is an epoch, give ``epochs`` instead, or the number of batches as ``steps``.
    The certified epsilon of the result is at most ``epsilon`` and mostly within 0.2 % of it. Only
    the kind of ``mechanism`` matters: its name will do, and the size of a noise is not used.
    ``group`` is how many records of one person the guarantee covers, as in :func:`account`,
    and so is ``composition``.
    Instead of ``epsilon`` and ``delta``, what an attacker can achieve may be the target: ``tpr``,
    the largest true-positive rate at the false-positive rate ``fpr``, or ``advantage``, the largest
    difference of the two.

    >>> import mustdp as md
    >>> found = md.calibrate(md.wor(1000, 10), tpr=0.05, fpr=0.01, steps=100)
    >>> print(f"{found.risk.tpr[1].upper:.3f}")
    0.050
    """
    count = _count(scheme, steps, epochs)
    if not (tpr is None and fpr is None and advantage is None):
        if not (epsilon is None and delta is None):
            raise InvalidParameter("epsilon and delta must be left out where a risk is the target")
        return calibrate_risk(
            scheme,
            RiskTarget(tpr, fpr, advantage),
            steps=count,
            make=noise_of_kind(mechanism),
            relation=relation,
            group=group,
        )
    if epsilon is None or delta is None:
        raise InvalidParameter("epsilon and delta must be given, or tpr and fpr, or advantage")
    found = calibrate_plan(
        lambda noise: steps_of(scheme, count, noise),
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        relation=relation,
        group=group,
        composition=composition,
    )
    return Calibration(
        found.plan, found.mechanism, found.relation, found.epsilon, found.delta, scheme, count
    )


def _count(scheme: Sampling, steps: int | None, epochs: int | None) -> int:
    """The number of batches."""
    checks.exactly_one(steps=steps, epochs=epochs)
    if epochs is None:
        return checks.integer("steps", steps, 1, MOST_STEPS)
    if not isinstance(scheme, Epoch):
        allowed = "must be left out for a scheme that draws batch by batch"
        raise InvalidParameter.refusing("epochs", allowed, epochs)
    return checks.integer("epochs", epochs, 1, MOST_STEPS // scheme.bins) * scheme.bins


def calibrate_plan(
    build: Callable[[AdditiveNoise], Plan],
    *,
    epsilon: float,
    delta: float,
    mechanism: str | Mechanism = "gaussian",
    relation: str | None = None,
    group: int = 1,
    composition: str = "auto",
    dimension: int | None = None,
) -> PlanCalibration:
    """Find the noise for a plan that is built from its mechanism, nested plans included.

    ``build`` is called with mechanisms of different noise multipliers and must only place them.
    ``mechanism`` is as in :func:`calibrate`, ``dimension`` as in :func:`account`.

    >>> import mustdp as md
    >>> count = md.laplace(shift=0.1)
    >>> found = md.calibrate_plan(lambda noise: md.sequence(noise, count), epsilon=1, delta=1e-5)
    >>> found.epsilon.upper <= 1
    True
    """
    target = Target(epsilon, delta, relation, group, composition, dimension)
    make = noise_of_kind(mechanism)

    def guess(z: float) -> float | None:
        return rough_epsilon(build(make(z)), target.delta, target.relation, target.group)

    rule = partial(smallest_noise, guess=guess)
    met = meet(target, lambda z: build(make(z)), rule, "noise multiplier", in_full=True)
    return PlanCalibration(met.plan, make(met.value), met.relation, met.epsilon, target.delta)


def noise_of_kind(mechanism: str | Mechanism) -> Callable[[float], AdditiveNoise]:
    """What makes noise of this kind from a noise multiplier; the kind by name or by an example."""
    if isinstance(mechanism, AdditiveNoise):
        kind = type(mechanism)
    elif isinstance(mechanism, Mechanism):
        raise InvalidParameter(
            f"mechanism must be gaussian or laplace noise, got {mechanism.name!r}: only noise that "
            "is added has a multiplier"
        )
    else:
        kind = _KINDS[checks.choice("mechanism", mechanism, tuple(_KINDS))]
    return lambda z: kind(noise_multiplier=z)

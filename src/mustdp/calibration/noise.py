"""The smallest noise that meets a target, on the safe side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

from mustdp.accounting.plan import Plan, steps_of
from mustdp.calibration.results import Calibration, PlanCalibration, noise_limit
from mustdp.calibration.risk_noise import RiskCalibration, RiskTarget, calibrate_risk
from mustdp.calibration.search import (
    EpsilonTarget,
    guess_is_close,
    is_shuffled,
    meet,
    rough_epsilon,
    smallest_noise,
)
from mustdp.errors import InvalidParameter, NotCovered, NumericalFailure
from mustdp.limits import MOST_STEPS
from mustdp.mechanisms.contract import Mechanism
from mustdp.mechanisms.registry import BY_NAME, NAMES, RegisteredMechanism, registered
from mustdp.numerics import checks
from mustdp.sampling.epochs import Epoch, Sampling

#: One pair per step that covers both orders lies further above what is attained with more noise:
#: how fast, on logarithmic scales.
_DRIFT = 0.1


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
    """Find the smallest noise for ``steps`` draws of ``scheme`` to meet a target.

    The target is ``epsilon`` at ``delta``; or ``tpr`` at ``fpr``; or ``advantage``. The certified
    epsilon of the result is at most ``epsilon`` and mostly within 0.2 % of it (1 % where batches
    are shuffled).

    Parameters
    ----------
    scheme : Scheme or Epoch
        How batches are drawn.
    epsilon : float, default=None
        What the certified epsilon must not exceed, above 0 and at most 500.
    delta : float, default=None
        The delta at which epsilon is stated, from 1e-25 to below 1; well below 1/n.
    steps : int, default=None
        Number of steps, each on a batch of its own, from 1 to 1e9.
    epochs : int, default=None
        Number of whole epochs, in place of ``steps`` where ``scheme`` is an epoch.
    tpr : float, default=None
        The largest true-positive rate that an attacker may have at ``fpr``.
    fpr : float, default=None
        The false-positive rate of that attacker, from 0 to below 1.
    advantage : float, default=None
        The largest difference of the two rates that an attacker may have, at any.
    mechanism : str or Mechanism, default="gaussian"
        The kind of noise by name, or a noise of that kind, whose own size is not used.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
    group : int, default=1
        How many records of one person the guarantee covers: neighbours differ in up to this many.
    composition : {"auto", "quick", "pair", "family"}, default="auto"
        How steps are composed, as in :func:`account`. It is "auto" where the target is a risk.

    Returns
    -------
    Calibration or RiskCalibration
        The noise, and what it is certified for; a RiskCalibration where the target is a risk.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NumericalFailure
        No number that can be trusted was found.

    Examples
    --------
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
        found.plan,
        found.mechanism,
        found.relation,
        found.epsilon,
        found.delta,
        scheme,
        count,
        limit=found.limit,
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
    build: Callable[[Mechanism], Plan],
    *,
    epsilon: float,
    delta: float,
    mechanism: str | Mechanism = "gaussian",
    relation: str | None = None,
    group: int = 1,
    composition: str = "auto",
    dimension: int | None = None,
) -> PlanCalibration:
    """Find the smallest noise for a plan that is built from its mechanism, nested plans included.

    Parameters
    ----------
    build : callable
        From a mechanism to the plan; it is called with different noise multipliers and must only
        place them.
    epsilon : float
        What the certified epsilon must not exceed, above 0 and at most 500.
    delta : float
        The delta at which epsilon is stated, from 1e-25 to below 1; well below 1/n.
    mechanism : str or Mechanism, default="gaussian"
        The kind of noise by name, or a noise of that kind, whose own size is not used.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
    group : int, default=1
        How many records of one person the guarantee covers: neighbours differ in up to this many.
    composition : {"auto", "quick", "pair", "family"}, default="auto"
        How steps are composed, as in :func:`account`.
    dimension : int, default=None
        Of every release: 1 says that each is a single number, which is a little less to hide. None
        where nothing is known.

    Returns
    -------
    PlanCalibration
        The noise, and what it is certified for.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NumericalFailure
        No number that can be trusted was found.

    Examples
    --------
    >>> import mustdp as md
    >>> count = md.laplace(shift=0.1)
    >>> def plan(noise):
    ...     return md.sequence(noise, count)
    >>> found = md.calibration.calibrate_plan(plan, epsilon=1, delta=1e-5)
    >>> found.epsilon.upper <= 1
    True
    """
    target = EpsilonTarget(epsilon, delta, relation, group, composition, dimension)
    make = noise_of_kind(mechanism)

    def guess(z: float) -> float | None:
        return rough_epsilon(build(make(z)), target.delta, target.relation, target.group)

    close, drift, loose = False, 0.0, False
    with suppress(NumericalFailure):  # with this noise; nothing but time depends on it
        typical = build(make(1.0))
        loose = is_shuffled(typical)
        close = not loose and guess_is_close(typical, target.relation, target.group)
        drift = 0.0 if close or target.account(typical).has_family else _DRIFT
    rule = partial(smallest_noise, guess=guess, close=close, drift=drift, loose=loose)
    met = meet(target, lambda z: build(make(z)), rule, make.words, in_full=True)
    limit = noise_limit(met.value, make.words)
    found = met.plan, make(met.value), met.relation, met.epsilon, target.delta
    return PlanCalibration(*found, limit=limit)


@dataclass(frozen=True)
class NoiseOfKind:
    """Makes mechanisms of one kind from the argument that is searched, which it names."""

    entry: RegisteredMechanism
    fixed: Mapping[str, Any]

    @property
    def words(self) -> str:
        """The argument that is searched, as it is written in sentences."""
        return str(self.entry.searched).replace("_", " ")

    def __call__(self, value: float) -> Mechanism:
        """The mechanism with this value."""
        return self.entry.build(**self.fixed, **{str(self.entry.searched): value})


def noise_of_kind(mechanism: str | Mechanism) -> NoiseOfKind:
    """What makes noise of this kind of any size; the kind by name or by an example."""
    searchable = tuple(name for name in NAMES if BY_NAME[name].searched is not None)
    fixed: dict[str, Any] = {}
    if isinstance(mechanism, Mechanism):
        try:
            entry = registered(mechanism)
        except NotCovered:
            entry = None
        if entry is None or entry.searched is None:
            raise InvalidParameter(
                f"mechanism must be one of {', '.join(searchable)}, got {mechanism.name!r}, which "
                "has no size that could be looked for"
            )
        other = {"mechanism", entry.searched, *entry.alternatives}
        fixed = {name: at for name, at in mechanism.describe().items() if name not in other}
    else:
        entry = BY_NAME[checks.choice("mechanism", mechanism, searchable)]
    return NoiseOfKind(entry, fixed)

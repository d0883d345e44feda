"""An accountant for dp_accounting's interface, and events from plans.

``MustdpAccountant`` can be handed to whatever takes a ``dp_accounting.PrivacyAccountant``, such as
``calibrate_dp_mechanism`` or jax-privacy. It accepts sampling with and without replacement, which
no accountant of dp_accounting 0.6 composes tightly, and answers with certified upper bounds.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import InEpoch, Plan, Repeat, SelectBest, Subsample
from mustdp.accounting.plan import Sequence as PlanSequence
from mustdp.errors import InvalidParameter, MustdpError, NotCovered, NumericalFailure
from mustdp.extras import required
from mustdp.interop.events import ReadEvent, UnsupportedEvent, from_dp_event, read_event, repeated
from mustdp.mechanisms.mechanism import Mechanism, Proof
from mustdp.mechanisms.relation import Relation
from mustdp.sampling.schemes import Multistage, Poisson, TruncatedPoisson

if TYPE_CHECKING:
    import dp_accounting
else:
    dp_accounting = required("dp_accounting", "the bridge to dp_accounting")

__all__ = ["MustdpAccountant", "from_dp_event", "to_dp_event"]

_Relation = dp_accounting.NeighboringRelation


class MustdpAccountant(dp_accounting.PrivacyAccountant):  # type: ignore[misc, unused-ignore]
    """A ``dp_accounting.PrivacyAccountant`` whose answers are certified by mustdp.

    A noise multiplier is the scale of the noise over the bound C on the norm of what one record
    contributes, as dp_accounting's events define it ("||v_i|| <= C ... s / C"). So under
    ``REPLACE_ONE`` a Gaussian event moves by 2/noise_multiplier standard deviations, which is how
    dp_accounting's PLD accountant counts, too: its tests expect of half the sensitivity under
    REPLACE_ONE what the whole has under ADD_OR_REMOVE_ONE. Its RDP accountant computes the same
    number for a Gaussian event under every relation, so its noise multiplier is relative to what
    *replacing* a record moves. For the same release give this accountant twice that number, as in
    the second example. Sensitivities of discrete noise are bounds on one record, too.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, default=ADD_OR_REMOVE_ONE
        ``ADD_OR_REMOVE_ONE``, ``REPLACE_ONE``, or ``REPLACE_SPECIAL``: a record is replaced by one
        that contributes zero. Without sampling and with Poisson sampling the last is what
        leaving a record out is; with batches of a fixed or capped size and for randomized response
        it is charged as ``REPLACE_ONE``, which covers it.
    composition : {"auto", "quick", "pair", "family"}, default="auto"
        How steps are composed, as in :func:`mustdp.account`: "pair" is the quickest.

    Notes
    -----
    Answers are upper bounds. They are infinite where the bound cannot be stated as a number: at a
    delta below 1e-25, or where next to no noise is added. Sampled Laplace and discrete Laplace
    events are accepted under ``ADD_OR_REMOVE_ONE`` alone, and under ``REPLACE_SPECIAL`` with
    Poisson sampling: what they promise when a record is replaced is proved for single numbers, and
    an event does not say that it is one. Randomized response is accepted on all records, where a
    record is replaced. Tree aggregation is accepted where a record is replaced: its noise
    multiplier is relative to the bound C on one record here, too, so that ``REPLACE_ONE`` moves
    every node by 2C. A mixture of Gaussians must have one sensitivity besides 0, and is accepted
    under ``ADD_OR_REMOVE_ONE`` and ``REPLACE_SPECIAL``. Concentrated guarantees add up.

    Examples
    --------
    >>> import dp_accounting
    >>> from mustdp.interop.dp_accounting import MustdpAccountant
    >>> batch = dp_accounting.SampledWithReplacementDpEvent(
    ...     10_000, 200, dp_accounting.GaussianDpEvent(noise_multiplier=3.0)
    ... )
    >>> found = MustdpAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE).compose(batch, 100)
    >>> print(found.bounds(1e-5))
    0.636 attained, 0.640 certified (replace-one)

    Noise of standard deviation 8 on records with norms up to C = 1, one of which is replaced: the
    noise multiplier is 8 here and for the PLD accountant, and 4 for the RDP accountant, whose
    answers are looser.

    >>> replaced = dp_accounting.NeighboringRelation.REPLACE_ONE
    >>> ours = MustdpAccountant(replaced).compose(dp_accounting.GaussianDpEvent(8.0))
    >>> pld = dp_accounting.pld.PLDAccountant(replaced).compose(dp_accounting.GaussianDpEvent(8.0))
    >>> rdp = dp_accounting.rdp.RdpAccountant(None, replaced)
    >>> rdp = rdp.compose(dp_accounting.GaussianDpEvent(4.0))
    >>> [f"{one.get_epsilon(1e-5):.2f}" for one in (ours, pld, rdp)]
    ['0.93', '0.93', '1.01']
    """

    def __init__(
        self,
        neighboring_relation: Any = _Relation.ADD_OR_REMOVE_ONE,
        *,
        composition: str = "auto",
    ) -> None:
        if neighboring_relation not in list(_Relation):
            raise InvalidParameter(
                "neighboring_relation must be a member of dp_accounting.NeighboringRelation, "
                f"got {neighboring_relation!r}"
            )
        super().__init__(neighboring_relation)
        self._composition = composition
        self._answered: tuple[object, Any] | None = None

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        """Whether an event can be composed; what was composed is kept by the ledger above."""
        if do_compose:
            return None
        try:
            self._account(event, count)
        except MustdpError as problem:
            blamed = problem.event if isinstance(problem, UnsupportedEvent) else event
            return self.CompositionErrorDetails(invalid_event=blamed, error_message=str(problem))
        return None

    def _account(self, event: Any, count: int = 0) -> tuple[ReadEvent, Any]:
        """What was read, and its account: None where nothing is released or nothing is private."""
        relation = Relation.REPLACE_ONE
        if self.neighboring_relation is _Relation.ADD_OR_REMOVE_ONE or (
            self.neighboring_relation is _Relation.REPLACE_SPECIAL and _leaves_empty(event)
        ):
            relation = Relation.ADD_REMOVE
        found = read_event(event, relation)
        if count:
            found = repeated(found, count)
        found.check(relation, special=self.neighboring_relation is _Relation.REPLACE_SPECIAL)
        plan = found.plan()
        if plan is None or not found.private:
            return found, None
        return found, account(plan, relation=relation, composition=self._composition)

    def _current(self) -> tuple[ReadEvent, Any]:
        """What was composed so far, and its account, which is computed once."""
        event = self.ledger
        if self._answered is None or self._answered[0] != event:
            self._answered = (event, self._account(event))
        return self._answered[1]

    def bounds(self, target_delta: float) -> Bounds:
        """Both bounds of epsilon, as :meth:`mustdp.types.Account.epsilon` gives them.

        Parameters
        ----------
        target_delta : float
            The delta.

        Returns
        -------
        Bounds
            The attained lower and the certified upper bound. Where ``REPLACE_ONE`` is charged for
            ``REPLACE_SPECIAL`` nothing is known to be attained, and the lower bound is 0.
        """
        _, answers = self._current()
        if answers is None:
            raise NotCovered("there are no bounds: nothing was released, or nothing is private")
        found: Bounds = answers.epsilon(delta=target_delta)
        special = self.neighboring_relation is _Relation.REPLACE_SPECIAL
        if special and answers.relation is Relation.REPLACE_ONE:
            return replace(found, lower=0.0)
        return found

    def get_epsilon(self, target_delta: float) -> float:
        """A certified upper bound of epsilon for all events composed so far.

        Parameters
        ----------
        target_delta : float
            The delta, from 0 to 1.

        Returns
        -------
        float
            The bound, infinite where there is none.
        """
        if not 0 <= target_delta <= 1:
            raise InvalidParameter(f"target_delta must be from 0 to 1, got {target_delta!r}")
        found, answers = self._current()
        if not found.private:
            return math.inf
        if answers is None or target_delta == 1:
            return 0.0
        try:
            return float(answers.epsilon(delta=target_delta).upper)
        except (InvalidParameter, NumericalFailure):  # a delta that is too small, next to no noise
            return math.inf

    def get_delta(self, target_epsilon: float) -> float:
        """A certified upper bound of delta for all events composed so far.

        Parameters
        ----------
        target_epsilon : float
            The epsilon, at least 0; infinity is allowed.

        Returns
        -------
        float
            The bound, 1 where there is none.
        """
        if not target_epsilon >= 0:
            raise InvalidParameter(f"target_epsilon must be at least 0, got {target_epsilon!r}")
        found, answers = self._current()
        if not found.private:
            return 1.0
        if answers is None:
            return 0.0
        try:
            # Delta never increases in epsilon, and accounts answer up to here.
            return float(answers.delta(epsilon=min(target_epsilon, _LARGEST_EPSILON)).upper)
        except NumericalFailure:
            return 1.0


#: The largest epsilon that an account is asked about.
_LARGEST_EPSILON = 500.0


def _leaves_empty(event: Any) -> bool:
    """Whether a record that contributes zero is to an event what a record that is left out is.

    So it is without batches of a fixed size, whose places others fill, and without answers.
    """
    found = read_event(event)
    return not found.fixed_size and "answer" not in found.kinds


def to_dp_event(plan: Plan) -> Any:
    """The event of dp_accounting that describes a plan.

    Parameters
    ----------
    plan : Plan
        What is released; noise is given by its noise multiplier.

    Returns
    -------
    DpEvent
        The event; accountants of dp_accounting may accept it or not. The sensitivity of discrete
        noise, which here bounds whatever a record does, is what one record adds there.

    Raises
    ------
    NotCovered
        dp_accounting has no event for it: noise given by a shift, custom mechanisms, whole epochs;
        or the installed version has none.

    Examples
    --------
    >>> import mustdp as md
    >>> from mustdp.interop.dp_accounting import to_dp_event
    >>> to_dp_event(md.subsample(md.wr(1000, 20), md.gaussian(noise_multiplier=2.0)))
    ... # doctest: +NORMALIZE_WHITESPACE
    SampledWithReplacementDpEvent(source_dataset_size=1000, sample_size=20,
                                  event=GaussianDpEvent(noise_multiplier=2.0))
    """
    if isinstance(plan, Repeat):
        return dp_accounting.SelfComposedDpEvent(to_dp_event(plan.inner), plan.count)
    if isinstance(plan, PlanSequence):
        return dp_accounting.ComposedDpEvent([to_dp_event(part) for part in plan.parts])
    if isinstance(plan, Subsample):
        return _sampled_event(plan.scheme, to_dp_event(plan.inner))
    if isinstance(plan, SelectBest):
        eta = plan.repetitions.eta
        if eta is not None and eta < 0:
            raise NotCovered("dp_accounting's laws of the number of runs have a shape of 0 or more")
        shape = math.inf if eta is None else eta
        run = to_dp_event(plan.inner)
        return dp_accounting.dp_event.RepeatAndSelectDpEvent(run, plan.repetitions.mean, shape)
    if isinstance(plan, InEpoch):
        raise NotCovered("dp_accounting has no event for a whole epoch of batches")
    if not isinstance(plan, Mechanism):
        raise NotCovered(f"dp_accounting has no event for {type(plan).__name__}")
    name, fields = _event_of(plan)
    event = getattr(dp_accounting.dp_event, name, None)
    if event is None:
        raise NotCovered(f"the installed dp_accounting has no event for {plan.name} ({name})")
    return event(**fields)


def _event_of(mechanism: Mechanism) -> tuple[str, dict[str, Any]]:
    """The class of an event and its fields, rounded to less noise."""
    said = mechanism.describe()
    if mechanism.proof is not None:
        if said.get("noise_multiplier") is None:
            raise NotCovered(
                "dp_accounting's events have a noise multiplier; this noise is given by a shift"
            )
        name = {Proof.GAUSSIAN: "GaussianDpEvent", Proof.LAPLACE: "LaplaceDpEvent"}
        return name[mechanism.proof], {"noise_multiplier": said["noise_multiplier"]}
    epsilon = said.get("mechanism_epsilon", 0.0)
    match said["mechanism"]:
        case "discrete-laplace":
            inverse = 1.0 / said["scale"]
            if Fraction(inverse) * Fraction(said["scale"]) < 1:
                inverse = math.nextafter(inverse, math.inf)
            fields = {"noise_parameter": inverse, "sensitivity": said["sensitivity"]}
            return "DiscreteLaplaceDpEvent", fields
        case "discrete-gaussian":
            fields = {"sigma": said["sigma"], "sensitivity": said["sensitivity"], "dimension": 1}
            return "DiscreteGaussianDpEvent", fields
        case "randomized-response":
            count = said["categories"]
            chance = count / (count + math.expm1(epsilon)) * (1.0 - 1e-15)
            return "RandomizedResponseDpEvent", {"noise_parameter": chance, "num_buckets": count}
        case "zcdp":
            return "ZCDpEvent", {"rho": said["rho"]}
        case "pure-dp" | "approximate-dp":
            fields = {"epsilon": epsilon, "delta": said.get("mechanism_delta", 0.0)}
            return "EpsilonDeltaDpEvent", fields
        case "exponential-mechanism":
            return "ExponentialMechanismDpEvent", {"epsilon": epsilon}
        case "permute-and-flip":
            return "PermuteAndFlipDpEvent", {"epsilon": epsilon}
    raise NotCovered(f"dp_accounting has no event for {mechanism.name}")


def _sampled_event(scheme: object, event: Any) -> Any:
    if isinstance(scheme, Poisson):
        return dp_accounting.PoissonSampledDpEvent(scheme.rate, event)
    if isinstance(scheme, TruncatedPoisson):
        if not isinstance(event, dp_accounting.GaussianDpEvent):
            raise NotCovered("dp_accounting has capped Poisson batches with Gaussian noise alone")
        return dp_accounting.dp_event.TruncatedSubsampledGaussianDpEvent(
            scheme.n, scheme.rate, scheme.cap, event.noise_multiplier
        )
    if not isinstance(scheme, Multistage):
        raise NotCovered(f"dp_accounting has no event for {type(scheme).__name__}")
    sizes = [scheme.n, *(stage.size for stage in scheme.stages)]
    for entries, stage in reversed(list(zip(sizes, scheme.stages, strict=False))):
        sampled = (
            dp_accounting.SampledWithoutReplacementDpEvent
            if stage.kind == "wor"
            else dp_accounting.SampledWithReplacementDpEvent
        )
        event = sampled(entries, stage.size, event)
    return event

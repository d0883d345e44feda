"""An accountant for dp_accounting's interface, and events from plans.

``MustdpAccountant`` can be handed to whatever takes a ``dp_accounting.PrivacyAccountant``, such as
``calibrate_dp_mechanism`` or jax-privacy. It accepts sampling with and without replacement, which
no accountant of dp_accounting 0.6 composes tightly, and answers with certified upper bounds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import InEpoch, Plan, Repeat, Subsample
from mustdp.accounting.plan import Sequence as PlanSequence
from mustdp.errors import InvalidParameter, MustdpError, NotCovered, NumericalFailure
from mustdp.extras import required
from mustdp.interop.events import ReadEvent, UnsupportedEvent, from_dp_event, read_event, repeated
from mustdp.mechanisms.contract import Mechanism, Proof
from mustdp.mechanisms.relation import Relation
from mustdp.sampling.schemes import Multistage, Poisson

if TYPE_CHECKING:
    import dp_accounting
else:
    dp_accounting = required("dp_accounting", "the bridge to dp_accounting")

__all__ = ["MustdpAccountant", "from_dp_event", "to_dp_event"]

_Relation = dp_accounting.NeighboringRelation


class MustdpAccountant(dp_accounting.PrivacyAccountant):  # type: ignore[misc, unused-ignore]
    """A ``dp_accounting.PrivacyAccountant`` whose answers are certified by mustdp.

    A noise multiplier is the scale of the noise over the bound C on the norm of what one record
    contributes, as dp_accounting's events define it. So under ``REPLACE_ONE`` a Gaussian event
    moves by 2/noise_multiplier standard deviations, which is how dp_accounting's PLD accountant
    counts, too. Its RDP accountant takes the noise multiplier of fixed-size batches relative to
    what *replacing* a record moves; give this accountant twice that number for the same release.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, default=ADD_OR_REMOVE_ONE
        ``ADD_OR_REMOVE_ONE``, ``REPLACE_ONE``, or ``REPLACE_SPECIAL``: a record is replaced by one
        that contributes zero. Without sampling and with Poisson sampling the last is what
        leaving a record out is; with batches of a fixed size it is charged as ``REPLACE_ONE``,
        which covers it.
    composition : {"auto", "quick", "pair", "family"}, default="auto"
        How steps are composed, as in :func:`mustdp.account`: "pair" is the quickest.

    Notes
    -----
    Answers are upper bounds. They are infinite where the bound cannot be stated as a number: at a
    delta below 1e-25, or where next to no noise is added. Sampled Laplace events are accepted under
    ``ADD_OR_REMOVE_ONE`` alone, and under ``REPLACE_SPECIAL`` with Poisson sampling: what they
    promise when a record is replaced is proved for single numbers, and an event does not say that
    it is one.

    Examples
    --------
    >>> import dp_accounting
    >>> from mustdp.interop.dp_accounting import MustdpAccountant
    >>> batch = dp_accounting.SampledWithReplacementDpEvent(
    ...     10_000, 200, dp_accounting.GaussianDpEvent(noise_multiplier=3.0)
    ... )
    >>> found = MustdpAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE).compose(batch, 100)
    >>> print(found.bounds(1e-5))
    0.636 attained, 0.643 certified (replace-one)
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
            found = read_event(event)
            if count:
                found = repeated(found, count)
            self._account(found)
        except MustdpError as problem:
            blamed = problem.event if isinstance(problem, UnsupportedEvent) else event
            return self.CompositionErrorDetails(invalid_event=blamed, error_message=str(problem))
        return None

    def _account(self, found: ReadEvent) -> Any:
        """The account of what was read; None where nothing is released, or nothing is private."""
        plan = found.plan()
        if plan is None or not found.private:
            return None
        relation = "replace_one"
        if self.neighboring_relation is _Relation.ADD_OR_REMOVE_ONE or (
            self.neighboring_relation is _Relation.REPLACE_SPECIAL and not found.fixed_size
        ):
            relation = "add_remove"
        found.check(Relation.read(relation))
        return account(plan, relation=relation, composition=self._composition)

    def _current(self) -> tuple[ReadEvent, Any]:
        """What was composed so far, and its account, which is computed once."""
        event = self.ledger
        if self._answered is None or self._answered[0] != event:
            found = read_event(event)
            self._answered = (event, (found, self._account(found)))
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
            The attained lower and the certified upper bound.
        """
        _, answers = self._current()
        if answers is None:
            raise NotCovered("there are no bounds: nothing was released, or nothing is private")
        return answers.epsilon(delta=target_delta)  # type: ignore[no-any-return]

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


def to_dp_event(plan: Plan) -> Any:
    """The event of dp_accounting that describes a plan.

    Parameters
    ----------
    plan : Plan
        What is released; noise is given by its noise multiplier.

    Returns
    -------
    DpEvent
        The event; accountants of dp_accounting may accept it or not.

    Raises
    ------
    NotCovered
        dp_accounting has no event for it: noise given by a shift, custom mechanisms, whole epochs.

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
    if isinstance(plan, InEpoch):
        raise NotCovered("dp_accounting has no event for a whole epoch of batches")
    events = {
        Proof.GAUSSIAN: dp_accounting.GaussianDpEvent,
        Proof.LAPLACE: dp_accounting.LaplaceDpEvent,
    }
    if isinstance(plan, Mechanism) and plan.proof is not None:
        multiplier = plan.describe().get("noise_multiplier")
        if multiplier is None:
            raise NotCovered(
                "dp_accounting's events have a noise multiplier; this noise is given by a shift"
            )
        return events[plan.proof](multiplier)
    raise NotCovered(f"dp_accounting has no event for {getattr(plan, 'name', type(plan).__name__)}")


def _sampled_event(scheme: object, event: Any) -> Any:
    if isinstance(scheme, Poisson):
        return dp_accounting.PoissonSampledDpEvent(scheme.rate, event)
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

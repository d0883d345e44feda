"""Events of dp_accounting as plans of mustdp, without that library.

An event is taken as dp_accounting has it, as the named tuple that its ``to_named_tuple`` makes, or
as what JSON leaves of that tuple: ``["dp_accounting.dp_event", "GaussianDpEvent", 1.1]``, or an
object with the fields by name. The events are those of dp_accounting 0.6, and those that its
repository has had since (``NEWER``).

The noise multiplier of a Gaussian or Laplace event is the scale of the noise over the bound C on
the norm of what *one record* contributes to the sum (the docstring of ``GaussianDpEvent``), as it
is here; so is the sensitivity of discrete noise. Replacing a record therefore moves the sum by up
to 2C. dp_accounting's PLD accountant counts so as well; its RDP accountant takes the noise
multiplier of fixed-size batches relative to what *replacing* a record moves.

*Vectors.* Events of Laplace and discrete Laplace noise may stand for vectors with a bounded sum of
absolute values. On all records the single number that moves by the whole bound is the worst of
them. Let T(P, Q) be the smallest error of the second kind at every level, and let the coordinates
move one after the other: the laws A, B, C, ... that arise satisfy T(A, B) >= f and T(B, C) >= g,
hence T(A, C)(x) >= g(1 - f(x)) (Dong, Roth & Su 2019, arXiv 1905.02383v3, proof of Theorem 2.14).
For one symmetric log-concave noise all best tests are thresholds, whatever the distance, so the
number that moves by the same amounts one after the other has equality in every link.

*Mixtures.* Under a mixture of Gaussians event the outputs on neighbours are N(0, s^2) and the
mixture of N(c_i, s^2) with weights p_i, in whichever order; for vectors these are the norms of what
moves, and the line is the worst (Choquette-Choo et al. 2023, arXiv 2310.15526, Corollary 4.7).
With one c besides 0 that is Poisson sampling.

*Trees.* A node of height h of a tree over T steps is complete, and released, once 2^h steps of its
own are over. So a record is in at most floor(log2 T) + 1 = ceil(log2(T + 1)) noisy sums, and in
those of one tree alone (Kairouz et al. 2021, arXiv 2103.00039, appendix D).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from mustdp.accounting.plan import Plan, repeat, select_best, sequence, subsample
from mustdp.errors import InvalidParameter, NotCovered
from mustdp.files.reading import read_json
from mustdp.limits import MOST_STEPS
from mustdp.mechanisms.exponential_mechanism import exponential_mechanism
from mustdp.mechanisms.integers import discrete_gaussian, discrete_laplace
from mustdp.mechanisms.mechanism import gaussian, laplace
from mustdp.mechanisms.randomized_response import randomized_response
from mustdp.mechanisms.relation import Relation
from mustdp.mechanisms.stated import ZCDP, approximate_dp, pure_dp, renyi, zcdp
from mustdp.numerics import checks
from mustdp.sampling.repetitions import LARGEST_ETA, LARGEST_MEAN, SMALLEST_MEAN
from mustdp.sampling.schemes import poisson, truncated_poisson, wor, wr

#: The fields of every event that is known here, in the order of dp_accounting's classes.
FIELDS: dict[str, tuple[str, ...]] = {
    "NoOpDpEvent": (),
    "NonPrivateDpEvent": (),
    "GaussianDpEvent": ("noise_multiplier",),
    "LaplaceDpEvent": ("noise_multiplier",),
    "SelfComposedDpEvent": ("event", "count"),
    "ComposedDpEvent": ("events",),
    "PoissonSampledDpEvent": ("sampling_probability", "event"),
    "SampledWithReplacementDpEvent": ("source_dataset_size", "sample_size", "event"),
    "SampledWithoutReplacementDpEvent": ("source_dataset_size", "sample_size", "event"),
    "RandomizedResponseDpEvent": ("noise_parameter", "num_buckets"),
    "DiscreteLaplaceDpEvent": ("noise_parameter", "sensitivity"),
    "SingleEpochTreeAggregationDpEvent": ("noise_multiplier", "step_counts"),
    "RepeatAndSelectDpEvent": ("event", "mean", "shape"),
    "MixtureOfGaussiansDpEvent": ("standard_deviation", "sensitivities", "sampling_probs"),
    "ZCDpEvent": ("rho", "xi"),
    "TruncatedSubsampledGaussianDpEvent": (
        "dataset_size",
        "sampling_probability",
        "truncated_batch_size",
        "noise_multiplier",
    ),
    "EpsilonDeltaDpEvent": ("epsilon", "delta"),
    "DiscreteGaussianDpEvent": ("sigma", "sensitivity", "dimension"),
    "ExponentialMechanismDpEvent": ("epsilon",),
    "PermuteAndFlipDpEvent": ("epsilon",),
}
#: Events that dp_accounting's repository has and version 0.6.0 has not.
NEWER = (
    "EpsilonDeltaDpEvent",
    "DiscreteGaussianDpEvent",
    "ExponentialMechanismDpEvent",
    "PermuteAndFlipDpEvent",
)
#: Orders at which a divergence with a constant is taken.
_ORDERS = tuple(1.0 + 2.0 ** (k / 8.0) for k in range(-56, 97))
#: A file with an event is at most this large, in bytes.
LARGEST_FILE = 2**24
#: An event nests at most so deep; beyond that it is a mistake or an attack.
DEEPEST = 50


class UnsupportedEvent(NotCovered):
    """No theorem here covers an event; ``event`` is the part that is to blame."""

    def __init__(self, message: str, event: object) -> None:
        super().__init__(message)
        self.event = event


@dataclass(frozen=True)
class Refusal:
    """A relation under which nothing is proved for what an event may stand for, and why."""

    relation: Relation
    reason: str
    #: Whether that holds where a record is replaced by a special one; None: as it is charged.
    special: bool | None = None


@dataclass(frozen=True)
class ReadEvent:
    """What an event comes down to: plans in a row, or something that is not private at all."""

    plans: tuple[Plan, ...] = ()
    private: bool = True
    #: Whether some record is drawn into batches of a fixed size.
    fixed_size: bool = False
    refused: tuple[Refusal, ...] = ()
    #: Kinds of mechanisms inside, as far as sampling asks for them: "number" for noise whose
    #: amplification is proved for single numbers, "stated" for guarantees, "answer" for answers,
    #: "pair" for what is known of one pair of neighbours, "stream" for records that have an order.
    kinds: frozenset[str] = frozenset()

    def check(self, relation: Relation, *, special: bool = False) -> None:
        """Refuse a relation under which nothing is proved for what an event may stand for.

        ``special``: the relation is charged for a record that is replaced by a special one.
        """
        for one in self.refused:
            applies = one.relation is relation
            if one.special if special and one.special is not None else applies:
                raise NotCovered(one.reason)

    def plan(self) -> Plan | None:
        """One plan for all of it; None where nothing is released."""
        if not self.plans:
            return None
        return self.plans[0] if len(self.plans) == 1 else sequence(*self.plans)

    def some_plan(self) -> Plan:
        """The plan of something that is released, and private."""
        plan = self.plan()
        if not self.private:
            raise NotCovered("event must be private: NonPrivateDpEvent has no finite epsilon")
        if plan is None:
            raise NotCovered("event must release something: there is no plan of nothing")
        return plan


def from_dp_event(event: object, relation: str | None = None) -> Plan:
    """The plan that an event of dp_accounting describes.

    Parameters
    ----------
    event : DpEvent, named tuple, list or dict
        The event, or what ``to_named_tuple`` or JSON made of it.
    relation : {"replace_one", "add_remove"}, default=None
        The relation that the plan is accounted under, which is checked. A sensitivity of discrete
        noise bounds what one record adds: the plan has it as it is under add_remove, and twice
        where a record may be replaced, or nothing is said.

    Returns
    -------
    Plan
        What :func:`mustdp.account` takes.

    Raises
    ------
    NotCovered
        The event is not private, releases nothing, or no theorem here covers it.
    InvalidParameter
        A field is outside what is allowed.

    Examples
    --------
    Batches of 256 without replacement, which dp_accounting's PLD accountant does not accept:

    >>> import mustdp as md
    >>> from mustdp.interop.events import from_dp_event
    >>> batch = ["dp_accounting.dp_event", "SampledWithoutReplacementDpEvent", 60000, 256,
    ...          ["dp_accounting.dp_event", "GaussianDpEvent", 1.6]]
    >>> plan = from_dp_event(["dp_accounting.dp_event", "SelfComposedDpEvent", batch, 100])
    >>> print(md.account(plan).epsilon(delta=1e-5))
    0.716 attained, 0.718 certified (replace-one)
    """
    if relation is None:
        return read_event(event).some_plan()
    named = Relation.read(relation)
    found = read_event(event, named)
    found.check(named)
    return found.some_plan()


def event_from_json(text: str | bytes, relation: Relation | None = None) -> ReadEvent:
    """What an event comes down to that was written as JSON."""
    return read_event(read_json(text, "the event"), relation)


@dataclass(frozen=True)
class _Place:
    """Where in an event something is read."""

    depth: int = 0
    #: How far one copy of a record moves a sum there, in units of what one record adds.
    moves: int = 2


def read_event(event: object, relation: Relation | None = None) -> ReadEvent:
    """Plans behind an event, which the accountant composes."""
    return _read(event, _Place(moves=1 if relation is Relation.ADD_REMOVE else 2))


def _read(event: object, place: _Place) -> ReadEvent:
    if place.depth > DEEPEST:
        raise UnsupportedEvent(f"event must nest at most {DEEPEST} deep", event)
    name, fields = _fields(event)
    reader = _READERS.get(name)
    if reader is None:
        if name == "UnsupportedDpEvent":
            raise UnsupportedEvent("event must say what is released, got UnsupportedDpEvent", event)
        known = ", ".join(FIELDS)
        raise UnsupportedEvent(f"event must be one of {known}, got {name}", event)
    try:
        return reader(name, fields, replace(place, depth=place.depth + 1))
    except UnsupportedEvent:
        raise
    except NotCovered as problem:
        raise UnsupportedEvent(str(problem), event) from problem


def _fields(event: object) -> tuple[str, dict[str, Any]]:
    """Name of the event's class and its fields, however it is written."""
    if isinstance(event, Mapping):
        name = event.get("class_name")
        fields = {
            key: value for key, value in event.items() if key not in ("module_name", "class_name")
        }
    elif hasattr(event, "_fields") and hasattr(event, "class_name"):
        name = event.class_name
        fields = {
            key: getattr(event, key)
            for key in event._fields
            if key not in ("module_name", "class_name")
        }
    elif isinstance(event, Sequence) and not isinstance(event, str | bytes):
        if len(event) < 2:
            raise InvalidParameter(
                "event must be a list of module name, class name and fields, "
                f"got one of length {len(event)}"
            )
        name = event[1]
        listed = FIELDS.get(str(name), ())
        if str(name) in FIELDS and len(event) - 2 != len(listed):  # to_named_tuple writes all
            raise InvalidParameter(
                f"event {name} must have {len(listed)} fields ({', '.join(listed)}), "
                f"got {len(event) - 2}"
            )
        fields = dict(zip(listed, event[2:], strict=False))
    else:
        name = type(event).__name__
        fields = {key: getattr(event, key, None) for key in FIELDS.get(name, ())}
    if isinstance(name, bytes):
        name = name.decode("ascii", "replace")
    if not isinstance(name, str):
        raise InvalidParameter(f"event must have a class name, got {type(event).__name__}")
    if name in FIELDS and set(fields) != set(FIELDS[name]):
        raise InvalidParameter(
            f"event {name} must have the fields {', '.join(FIELDS[name]) or 'none'}, "
            f"got {', '.join(map(str, fields)) or 'none'}"
        )
    return name, fields


def _nothing(name: str, fields: dict[str, Any], place: _Place) -> ReadEvent:
    return ReadEvent()


def _not_private(name: str, fields: dict[str, Any], place: _Place) -> ReadEvent:
    return ReadEvent(private=False)


# Single releases.


def _noise(name: str, fields: dict[str, Any], place: _Place) -> ReadEvent:
    multiplier = fields["noise_multiplier"]
    if multiplier == 0:  # no noise at all
        return ReadEvent(private=False)
    if name == "GaussianDpEvent":
        return ReadEvent((gaussian(noise_multiplier=multiplier),))
    return ReadEvent((laplace(noise_multiplier=multiplier),), kinds=frozenset({"number"}))


def _mixture(name: str, fields: dict[str, Any], place: _Place) -> ReadEvent:
    """Gaussian noise on what moves by one of several amounts, with given chances."""
    sigma = checks.real("standard_deviation", fields["standard_deviation"], at_least=0)
    moved = _listed("sensitivities", fields["sensitivities"])
    chances = _listed("sampling_probs", fields["sampling_probs"])
    if len(moved) != len(chances):
        raise InvalidParameter.refusing(
            "sampling_probs", f"must be as many as the {len(moved)} sensitivities", len(chances)
        )
    moved = [checks.real("sensitivities", one, at_least=0) for one in moved]
    chances = [checks.real("sampling_probs", one, at_least=0, at_most=1) for one in chances]
    total = math.fsum(chances)
    if not abs(total - 1.0) <= 1e-9:
        raise InvalidParameter.refusing("sampling_probs", "must add up to 1", total)
    amounts = {one for one, chance in zip(moved, chances, strict=True) if one and chance}
    refused = (Refusal(Relation.REPLACE_ONE, _PAIR),)
    if not amounts:
        return ReadEvent(refused=refused, kinds=frozenset({"pair"}))
    if sigma == 0:
        return ReadEvent(private=False)
    if len(amounts) > 1:
        raise NotCovered(
            "sensitivities must be 0 and one other number: no plan here moves by several amounts "
            "with chances of their own"
        )
    [amount] = amounts
    zero = math.fsum(c for one, c in zip(moved, chances, strict=True) if not one)
    rest = math.fsum(c for one, c in zip(moved, chances, strict=True) if one)
    rate = min(1.0, max(rest, 1.0 - zero) * (1.0 + 4e-16) if zero else 1.0)
    noise = gaussian(noise_multiplier=_ratio_down(sigma, amount))
    plan: Plan = noise if rate == 1.0 else subsample(poisson(1, rate), noise)
    return ReadEvent((plan,), refused=refused, kinds=frozenset({"pair"}))


def _listed(name: str, given: object) -> list[Any]:
    """A list of numbers, however it came."""
    values = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(values, Sequence) or isinstance(values, str | bytes) or not values:
        raise InvalidParameter(f"{name} must be a list of numbers that is not empty")
    return list(values)


def _ratio_down(above: float, below: float) -> float:
    ratio = above / below
    if math.isfinite(ratio) and Fraction(ratio) * Fraction(below) > Fraction(above):
        ratio = math.nextafter(ratio, 0.0)
    return ratio


def _tree(name: str, fields: dict[str, Any], place: _Place) -> ReadEvent:
    """Noisy sums of a binary tree over the steps, each record in one step of one tree."""
    counts = fields["step_counts"]
    if isinstance(counts, Sequence) or hasattr(counts, "tolist"):
        steps = max(
            checks.integer("step_counts", one, 0, MOST_STEPS)
            for one in _listed("step_counts", counts)
        )
    else:
        steps = checks.integer("step_counts", counts, 1, MOST_STEPS)
    refused = (Refusal(Relation.ADD_REMOVE, _STREAM, special=False),)
    kinds = frozenset({"stream"})
    if not steps:
        return ReadEvent(refused=refused, kinds=kinds)
    if fields["noise_multiplier"] == 0:
        return ReadEvent(private=False)
    noise = gaussian(noise_multiplier=fields["noise_multiplier"])
    return ReadEvent((repeat(steps.bit_length(), noise),), refused=refused, kinds=kinds)


def _discrete_laplace(name: str, fields: dict[str, Any], place: _Place) -> ReadEvent:
    if fields["noise_parameter"] == 0:  # no distribution; dp_accounting takes it as no noise
        return ReadEvent(private=False)
    inverse = checks.real("noise_parameter", fields["noise_parameter"], above=0)
    moved = place.moves * checks.integer("sensitivity", fields["sensitivity"], 0, 10**6 // 2)
    if not moved:
        return ReadEvent()
    scale = 1.0 / inverse
    if Fraction(scale) * Fraction(inverse) > 1:  # rounded to less noise
        scale = math.nextafter(scale, 0.0)
    noise = discrete_laplace(scale=scale, sensitivity=moved)
    return ReadEvent((noise,), kinds=frozenset({"number"}))


def _discrete_gaussian(name: str, fields: dict[str, Any], place: _Place) -> ReadEvent:
    """Exact for one integer; vectors by their rho (arXiv 2004.00010v5, Theorem 14)."""
    sigma = checks.real("sigma", fields["sigma"], at_least=0)
    moved = place.moves * checks.real("sensitivity", fields["sensitivity"], at_least=0)
    if moved == 0:
        return ReadEvent()
    if sigma == 0:
        return ReadEvent(private=False)
    if fields["dimension"] == 1:
        whole = math.floor(moved)  # an integer moves by an integer
        if not whole:
            return ReadEvent()
        return ReadEvent((discrete_gaussian(sigma=sigma, sensitivity=whole),))
    if fields["dimension"] is not None:
        checks.integer("dimension", fields["dimension"], 1, 10**12)
    rho = (moved / sigma) ** 2 / 2.0 * (1.0 + 1e-15)
    return ReadEvent((zcdp(max(rho, 1e-12)),), kinds=frozenset({"stated"}))


def _answer(name: str, fields: dict[str, Any], place: _Place) -> ReadEvent:
    """Randomized response, of which the special record has an answer drawn at random.

    That answer is the mean of all others, so what replaces a record by another one covers it.
    """
    chance = checks.real("noise_parameter", fields["noise_parameter"], at_least=0, at_most=1)
    buckets = checks.integer("num_buckets", fields["num_buckets"], 1, 10**9)
    reason = "randomized response must be accounted under replace-one"
    refused = (Refusal(Relation.ADD_REMOVE, reason),)
    if buckets == 1 or chance == 1:  # says nothing about the record
        return ReadEvent(refused=refused, kinds=frozenset({"answer"}))
    if chance == 0:
        return ReadEvent(private=False, refused=refused, kinds=frozenset({"answer"}))
    epsilon = math.log1p(buckets * (1.0 - chance) / chance) * (1.0 + 1e-15)
    plan = randomized_response(max(epsilon, 1e-9), categories=buckets)
    return ReadEvent((plan,), refused=refused, kinds=frozenset({"answer"}))


def _stated(name: str, fields: dict[str, Any], place: _Place) -> ReadEvent:
    """Mechanisms of which a guarantee is known, under the relation of the accountant."""
    if name == "ZCDpEvent":
        rho = checks.real("rho", fields["rho"], at_least=0)
        constant = checks.real("xi", fields["xi"], at_least=0)
        plan = zcdp(max(rho, 1e-12)) if rho else None
        if constant:  # (a - 1)(xi + rho a) is convex, so that chords between the orders are above
            plan = renyi(_ORDERS, [(constant + rho * one) * (1.0 + 1e-15) for one in _ORDERS])
    else:
        epsilon = checks.real("epsilon", fields["epsilon"], at_least=0)
        delta = checks.real("delta", fields.get("delta", 0), at_least=0, at_most=1)
        if delta == 1:
            return ReadEvent(private=False)
        plan = None
        if delta:
            plan = approximate_dp(max(epsilon, 1e-9), max(delta, 1e-30))
        elif epsilon:  # permute-and-flip has no range, but its epsilon
            bounded = name == "ExponentialMechanismDpEvent"
            plan = (exponential_mechanism if bounded else pure_dp)(max(epsilon, 1e-9))
    return ReadEvent(() if plan is None else (plan,), kinds=frozenset({"stated"}))


# Several releases.


def _repeated(name: str, fields: dict[str, Any], place: _Place) -> ReadEvent:
    return repeated(_read(fields["event"], place), fields["count"])


def repeated(inner: ReadEvent, count: int) -> ReadEvent:
    """The same ``count`` times."""
    plan = inner.plan()
    if plan is None or not inner.private:
        repeat(count, gaussian(shift=1.0))  # the count is checked all the same
        return inner
    many = repeat(count, plan)
    if isinstance(plan, ZCDP):
        return replace(inner, plans=(_together([plan.rho], many.count),))
    return replace(inner, plans=(many,))


def _composed(name: str, fields: dict[str, Any], place: _Place) -> ReadEvent:
    events = fields["events"]
    if not isinstance(events, Sequence) or isinstance(events, str | bytes):
        raise InvalidParameter("events must be a list of events")
    return joined(_read(part, place) for part in events)


def joined(parts: Iterable[ReadEvent]) -> ReadEvent:
    """One after another; concentrated guarantees are added up, as rho adds up in compositions."""
    found = tuple(parts)
    plans = [plan for part in found for plan in part.plans]
    concentrated = [plan.rho for plan in plans if isinstance(plan, ZCDP)]
    if len(concentrated) > 1:
        plans = [plan for plan in plans if not isinstance(plan, ZCDP)]
        plans.append(_together(concentrated))
    return ReadEvent(
        tuple(plans),
        all(part.private for part in found),
        any(part.fixed_size for part in found),
        tuple(dict.fromkeys(one for part in found for one in part.refused)),
        frozenset().union(*(part.kinds for part in found)),
    )


def _together(rhos: Sequence[float], times: int = 1) -> Plan:
    return zcdp(math.fsum(rhos) * times * (1.0 + 1e-15))


def _selected(name: str, fields: dict[str, Any], place: _Place) -> ReadEvent:
    """The best of a random number of runs; the law of that number is part of the event."""
    inner = _read(fields["event"], place)
    mean = checks.real("mean", fields["mean"], at_least=1, at_most=LARGEST_MEAN)
    shape = fields["shape"]
    law: str | float = "poisson"
    if shape != math.inf:
        law = checks.real("shape", shape, at_least=0)
        if law > LARGEST_ETA:
            raise NotCovered(f"shape must be at most {LARGEST_ETA}, or infinite, got {shape!r}")
    plan = inner.plan()
    if plan is None or not inner.private or (mean == 1 and law != "poisson"):  # a single run
        return inner
    # A larger mean costs more: its gamma is smaller (docs/derivations/selection.md).
    return replace(inner, plans=(select_best(plan, max(mean, SMALLEST_MEAN), law=law),))


# Random subsets.


def _capped(name: str, fields: dict[str, Any], place: _Place) -> ReadEvent:
    """Poisson batches cut to a largest number of records, with Gaussian noise.

    dataset_size counts the record that is left out, as it does here. A special record may take the
    place of another one, so that it is charged as any record.
    """
    sizes = (fields["dataset_size"], fields["truncated_batch_size"])
    most, cap = (
        checks.integer(one, size, 0)
        for one, size in zip(("dataset_size", "truncated_batch_size"), sizes, strict=True)
    )
    rate = checks.real(
        "sampling_probability", fields["sampling_probability"], at_least=0, at_most=1
    )
    if not (most and cap and rate):  # nothing is ever drawn
        return ReadEvent()
    inner = _noise("GaussianDpEvent", fields, place)
    if not inner.private:
        return inner
    scheme = truncated_poisson(most, rate, cap)
    return ReadEvent((subsample(scheme, inner.some_plan()),), fixed_size=True)


def _sampled(name: str, fields: dict[str, Any], place: _Place) -> ReadEvent:
    """A random subset, and what is released of it."""
    fixed = name != "PoissonSampledDpEvent"
    # A batch of a fixed size fills an empty place: a record in it is replaced, whatever relation.
    inner = _read(fields["event"], replace(place, moves=2) if fixed else place)
    scheme: Any
    if fixed:
        sizes = (fields["source_dataset_size"], fields["sample_size"])
        if sizes[1] == 0:  # nothing is ever drawn
            checks.integer("source_dataset_size", sizes[0], 0)
            return ReadEvent()
        scheme = wor(*sizes) if name == "SampledWithoutReplacementDpEvent" else wr(*sizes)
    elif fields["sampling_probability"] == 0:
        return ReadEvent()
    else:
        # Its cost depends on the rate alone; the event does not say how many records there are.
        scheme = poisson(1, fields["sampling_probability"])
    if "answer" in inner.kinds:
        raise NotCovered("randomized response must be on all records: an answer is of one record")
    if "pair" in inner.kinds:
        raise NotCovered(
            "a mixture of Gaussians must be on all records: it says what one pair does"
        )
    if "stream" in inner.kinds:
        raise NotCovered("tree aggregation must be on all records, each of which has its step")
    if not inner.private:
        return ReadEvent(private=False)
    plan = inner.plan()
    if plan is None:
        return ReadEvent()
    refused = list(inner.refused)
    if "number" in inner.kinds:
        refused.append(Refusal(Relation.REPLACE_ONE, _NUMBERS))
    if "stated" in inner.kinds:
        refused.append(
            Refusal(Relation.ADD_REMOVE, _STATED_IN_BATCH, special=True)
            if fixed
            else Refusal(Relation.REPLACE_ONE, _STATED_AT_RANDOM)
        )
    return ReadEvent(
        (subsample(scheme, plan),), True, fixed or inner.fixed_size, tuple(refused), inner.kinds
    )


_NUMBERS = (
    "sampled Laplace noise must be accounted under add-remove: an event may stand for "
    "vectors, for which nothing is proved where a record is replaced"
)
_STATED_IN_BATCH = (
    "a stated guarantee in batches of a fixed size must be accounted under replace-one: a record "
    "that is left out, or a special one, changes places with others there"
)
_PAIR = (
    "a mixture of Gaussians must be accounted under add-remove: it says what the output is with a "
    "record and without it"
)
_STREAM = (
    "tree aggregation must be accounted where a record is replaced: without one, others would move "
    "to other steps"
)
_STATED_AT_RANDOM = (
    "a stated guarantee under Poisson sampling must be accounted under add-remove: nothing is "
    "known of a record that is drawn on one side alone"
)

_READERS: dict[str, Callable[[str, dict[str, Any], _Place], ReadEvent]] = {
    "NoOpDpEvent": _nothing,
    "NonPrivateDpEvent": _not_private,
    "GaussianDpEvent": _noise,
    "LaplaceDpEvent": _noise,
    "SelfComposedDpEvent": _repeated,
    "ComposedDpEvent": _composed,
    "PoissonSampledDpEvent": _sampled,
    "SampledWithReplacementDpEvent": _sampled,
    "SampledWithoutReplacementDpEvent": _sampled,
    "RandomizedResponseDpEvent": _answer,
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "RepeatAndSelectDpEvent": _selected,
    "MixtureOfGaussiansDpEvent": _mixture,
    "TruncatedSubsampledGaussianDpEvent": _capped,
    "DiscreteGaussianDpEvent": _discrete_gaussian,
    "ZCDpEvent": _stated,
    "EpsilonDeltaDpEvent": _stated,
    "ExponentialMechanismDpEvent": _stated,
    "PermuteAndFlipDpEvent": _stated,
}

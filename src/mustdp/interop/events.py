"""Events of dp_accounting as plans of mustdp, without that library.

An event is taken as dp_accounting has it, as the named tuple that its ``to_named_tuple`` makes, or
as what JSON leaves of that tuple: ``["dp_accounting.dp_event", "GaussianDpEvent", 1.1]``, or an
object with the fields by name. The events are those of dp_accounting 0.6.

The noise multiplier of a Gaussian or Laplace event is the scale of the noise over the bound C on
the norm of what *one record* contributes to the sum (the docstring of ``GaussianDpEvent``), as it
is here. Replacing a record therefore moves the sum by up to 2C. dp_accounting's PLD accountant
counts so as well; its RDP accountant takes the noise multiplier of fixed-size batches relative to
what *replacing* a record moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mustdp.accounting.plan import Plan, repeat, sequence, subsample
from mustdp.errors import InvalidParameter, NotCovered
from mustdp.files.reading import read_json
from mustdp.mechanisms.mechanism import gaussian, laplace
from mustdp.mechanisms.relation import Relation
from mustdp.sampling.schemes import poisson, wor, wr

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
}
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
class ReadEvent:
    """What an event comes down to: plans in a row, or something that is not private at all."""

    plans: tuple[Plan, ...] = ()
    private: bool = True
    #: Whether some record is drawn into batches of a fixed size.
    fixed_size: bool = False
    #: Whether Laplace noise is added to a random subset.
    sampled_laplace: bool = False

    def check(self, relation: Relation) -> None:
        """Refuse a relation under which nothing is proved for what an event may stand for."""
        if self.sampled_laplace and relation is Relation.REPLACE_ONE:
            raise NotCovered(
                "sampled Laplace noise must be accounted under add-remove: an event may stand for "
                "vectors, for which nothing is proved where a record is replaced"
            )

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


def from_dp_event(event: object) -> Plan:
    """The plan that an event of dp_accounting describes.

    Parameters
    ----------
    event : DpEvent, named tuple, list or dict
        The event, or what ``to_named_tuple`` or JSON made of it.

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
    return read_event(event).some_plan()


def event_from_json(text: str | bytes) -> ReadEvent:
    """What an event comes down to that was written as JSON."""
    return read_event(read_json(text, "the event"))


def read_event(event: object, depth: int = 0) -> ReadEvent:
    """Plans behind an event, which the accountant composes."""
    if depth > DEEPEST:
        raise UnsupportedEvent(f"event must nest at most {DEEPEST} deep", event)
    name, fields = _fields(event)
    reader = _READERS.get(name)
    if reader is None:
        known = ", ".join(_READERS)
        raise UnsupportedEvent(f"event must be one of {known}, got {name}", event)
    try:
        return reader(event, fields, depth + 1)
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
        if str(name) in FIELDS and len(event) - 2 != len(listed):
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


def _nothing(event: object, fields: dict[str, Any], depth: int) -> ReadEvent:
    return ReadEvent()


def _not_private(event: object, fields: dict[str, Any], depth: int) -> ReadEvent:
    return ReadEvent(private=False)


def _noise(mechanism: Callable[..., Plan]) -> Callable[..., ReadEvent]:
    def read(event: object, fields: dict[str, Any], depth: int) -> ReadEvent:
        multiplier = fields["noise_multiplier"]
        if multiplier == 0:  # no noise at all
            return ReadEvent(private=False)
        return ReadEvent((mechanism(noise_multiplier=multiplier),))

    return read


def _repeated(event: object, fields: dict[str, Any], depth: int) -> ReadEvent:
    inner = read_event(fields["event"], depth)
    return repeated(inner, fields["count"])


def repeated(inner: ReadEvent, count: int) -> ReadEvent:
    """The same ``count`` times."""
    plan = inner.plan()
    if plan is None or not inner.private:
        repeat(count, gaussian(shift=1.0))  # the count is checked all the same
        return inner
    return ReadEvent((repeat(count, plan),), True, inner.fixed_size, inner.sampled_laplace)


def _composed(event: object, fields: dict[str, Any], depth: int) -> ReadEvent:
    events = fields["events"]
    if not isinstance(events, Sequence) or isinstance(events, str | bytes):
        raise InvalidParameter("events must be a list of events")
    return joined(read_event(part, depth) for part in events)


def joined(parts: Iterator[ReadEvent]) -> ReadEvent:
    """One after another."""
    found = tuple(parts)
    return ReadEvent(
        tuple(plan for part in found for plan in part.plans),
        all(part.private for part in found),
        any(part.fixed_size for part in found),
        any(part.sampled_laplace for part in found),
    )


def _sampled(event: object, fields: dict[str, Any], depth: int) -> ReadEvent:
    """A random subset, and what is released of it."""
    inner = read_event(fields["event"], depth)
    fixed = "sample_size" in fields
    scheme: Any
    if fixed:
        draw = wor if "Without" in _fields(event)[0] else wr
        scheme = draw(fields["source_dataset_size"], fields["sample_size"])
    elif fields["sampling_probability"] == 0:  # nothing is ever drawn
        return ReadEvent()
    else:
        # Its cost depends on the rate alone; the event does not say how many records there are.
        scheme = poisson(1, fields["sampling_probability"])
    if not inner.private:
        return ReadEvent(private=False)
    plan = inner.plan()
    if plan is None:
        return ReadEvent()
    laplace_inside = inner.sampled_laplace or any(
        mechanism == "laplace" for mechanism in _mechanisms(fields["event"])
    )
    return ReadEvent((subsample(scheme, plan),), True, fixed or inner.fixed_size, laplace_inside)


def _mechanisms(event: object) -> Iterator[str]:
    """Kinds of noise inside an event."""
    name, fields = _fields(event)
    if name == "LaplaceDpEvent":
        yield "laplace"
    for part in (fields.get("event"), *(fields.get("events") or ())):
        if part is not None:
            yield from _mechanisms(part)


_READERS: dict[str, Callable[[object, dict[str, Any], int], ReadEvent]] = {
    "NoOpDpEvent": _nothing,
    "NonPrivateDpEvent": _not_private,
    "GaussianDpEvent": _noise(gaussian),
    "LaplaceDpEvent": _noise(laplace),
    "SelfComposedDpEvent": _repeated,
    "ComposedDpEvent": _composed,
    "PoissonSampledDpEvent": _sampled,
    "SampledWithReplacementDpEvent": _sampled,
    "SampledWithoutReplacementDpEvent": _sampled,
}

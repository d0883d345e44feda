"""A ledger in memory as JSON, sealed with a version and a checksum, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mustdp.accounting.plan import Atom, Plan
from mustdp.accounting.plan_descriptions import describe, plan_from_description
from mustdp.errors import InvalidParameter
from mustdp.files.envelope import Envelope
from mustdp.limits import LARGEST_LEDGER
from mustdp.mechanisms.relation import Relation

_ENVELOPE = Envelope("mustdp-ledger", 1, "ledger", LARGEST_LEDGER)


def sealed(relation: Relation | None, counted: Mapping[Atom, int], adaptive: bool) -> str:
    """The relation and the counts of a ledger as text."""
    entries = [{"count": count, "plan": describe(atom)} for atom, count in counted.items()]
    # Left out where it is false: earlier versions read such a ledger, and refuse the others.
    chosen = {"adaptive": True} if adaptive else {}
    return _ENVELOPE.seal_text({"relation": relation, **chosen, "entries": entries})


def unsealed(content: str | bytes, where: str) -> tuple[Any, list[tuple[Plan, Any]], bool]:
    """The relation, the plans with their counts (still to be checked), and whether chosen."""
    body = _ENVELOPE.open_text(content, where)
    adaptive = body.pop("adaptive", False)
    if type(adaptive) is not bool:
        raise InvalidParameter(f"adaptive of the ledger must be true or false, got {adaptive!r}")
    if set(body) != {"relation", "entries"}:
        raise InvalidParameter(
            f"a ledger must hold relation and entries, got {', '.join(sorted(body))}"
        )
    entries = body["entries"]
    if not isinstance(entries, list):
        raise InvalidParameter(f"entries of the ledger must be a list, got {entries!r}")
    found = []
    for entry in entries:
        if not isinstance(entry, dict) or set(entry) != {"count", "plan"}:
            raise InvalidParameter(f"an entry must have count and plan, got {entry!r}")
        found.append((plan_from_description(entry["plan"]), entry["count"]))
    return body["relation"], found, adaptive

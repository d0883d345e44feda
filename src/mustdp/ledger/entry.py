"""Header, head and entries: what a ledger's file holds, and as which text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from mustdp.accounting.plan import Plan, Sequence, plan_from_description
from mustdp.errors import InvalidParameter
from mustdp.files.reading import canonical, digest, read_json
from mustdp.ledger.declared import History
from mustdp.ledger.filter import Cost, Filter
from mustdp.ledger.store import VERSION, damaged
from mustdp.limits import LARGEST_LEDGER
from mustdp.mechanisms.relation import Relation

FORMAT = "mustdp-budget"
_LONGEST = 200
#: Fields of a header that are stored as they are.
_AS_THEY_ARE = ("data", "program", "declared", "created", "package", "keyed", "identity")


@dataclass(frozen=True)
class Header:
    """What was settled when the ledger was made."""

    data: str
    filter: Filter
    relation: Relation
    program: str
    plan: Plan | None
    #: The certified epsilon of the declared plan.
    declared: float | None
    created: str
    package: str
    keyed: bool
    identity: str

    @property
    def epsilon(self) -> float:
        """The limit."""
        return self.filter.epsilon

    @property
    def delta(self) -> float:
        """The delta that all epsilons are at."""
        return self.filter.delta


@dataclass(frozen=True)
class Noted:
    """The notes about runs: how many, the hash of the last, and a digest of all latest states."""

    number: int
    hash: bytes
    runs: str


@dataclass(frozen=True)
class Head:
    """Where the ledger stands: the last entry and the sums over all entries."""

    number: int
    hash: bytes
    cost: Cost
    steps: int
    #: What the ledger enforces, after the last entry.
    epsilon: float
    #: The first charge took the whole budget: it is judged as a plan fixed in advance.
    whole: bool
    #: An entry was taken over from another ledger, so it was chosen along the way.
    recorded: bool
    noted: Noted

    @property
    def text(self) -> str:
        """The sums, as they are stored."""
        sums = {"sums": self.cost.sums, "outside": self.cost.outside, "steps": self.steps}
        flags = {"epsilon": self.epsilon, "whole": self.whole, "recorded": self.recorded}
        noted = (self.noted.number, self.noted.hash.hex(), self.noted.runs)
        return canonical({**sums, **flags, "noted": noted}, "the sums")

    @property
    def fields(self) -> tuple[object, ...]:
        """What the seal covers."""
        return self.number, self.hash.hex(), self.text


@dataclass(frozen=True)
class LedgerStatus:
    """Where a ledger stands, in both ways of counting; all epsilons at its delta.

    Attributes
    ----------
    program : {"adaptive", "fixed"}
        Whether what is charged may depend on what was released.
    limit : float
        The epsilon that is not exceeded.
    delta : float
        The delta at which all epsilons are stated.
    spent : float
        Of ``adaptive`` and ``fixed`` the one that is enforced.
    left : float
        What is left of the limit.
    adaptive : float
        Holds whatever the plans depended on: the smallest limit under which a ledger of this kind
        would have admitted all charges.
    fixed : float
        The certified bound of the plans that were charged, had they all been fixed in advance.
    entries : int
        Number of charges.
    steps : int
        Number of steps that were charged.

    Examples
    --------
    >>> import mustdp as md
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with md.Ledger.open(f"{folder}/office.ledger", epsilon=4, delta=1e-6) as ledger:
    ...         entry = ledger.charge(md.gaussian(noise_multiplier=10.0), label="table 1")
    ...         standing = ledger.standing()
    >>> standing.limit, standing.entries, 0.0 < standing.spent < standing.left
    (4.0, 1, True)
    """

    program: str
    limit: float
    delta: float
    spent: float
    left: float
    adaptive: float
    fixed: float
    entries: int
    steps: int


@dataclass(frozen=True)
class Entry:
    """One charge: so many runs of a plan.

    Attributes
    ----------
    number : int
        The entry's place in the ledger, from 1 on.
    when : datetime
        When it was written, in UTC; nothing depends on it.
    label : str
        What the charge is for.
    who : str
        Who made it.
    plan_text : str
        The plan that was charged, once, as JSON.
    times : int
        How many runs of it.
    relation : Relation
        Which data sets are neighbours.
    epsilon : float
        What all entries up to this one cost: certified, at the ledger's delta, and of the kind that
        the ledger enforces.
    package : str
        The version of mustdp that wrote it.
    recorded : bool
        Whether it was taken over from another ledger, after it was released: then it counts as
        chosen along the way, even as the first entry.
    hash : str
        Covers this entry and all before it.

    Examples
    --------
    >>> import mustdp as md
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with md.Ledger.open(f"{folder}/office.ledger", epsilon=4, delta=1e-6) as ledger:
    ...         entry = ledger.charge(md.gaussian(noise_multiplier=10.0), label="table 1")
    >>> entry.label, entry.times, entry.relation.option
    ('table 1', 1, 'replace-one')
    """

    number: int
    when: datetime
    label: str
    who: str
    plan_text: str
    times: int
    relation: Relation
    epsilon: float
    package: str
    recorded: bool
    hash: str

    @property
    def plan(self) -> Plan:
        """The plan that was charged, once."""
        plan = plan_from_description(read_json(self.plan_text, "a plan", LARGEST_LEDGER))
        if not self.recorded:
            return plan
        return History(plan.parts if isinstance(plan, Sequence) else (plan,))

    def describe(self) -> dict[str, Any]:
        """The entry for JSON.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        return {
            "number": self.number,
            "when": self.when.isoformat(),
            "label": self.label,
            "who": self.who,
            "times": self.times,
            "epsilon": self.epsilon,
            "relation": self.relation.value,
            "plan": json.loads(self.plan_text),
            "package": self.package,
            "recorded": self.recorded,
            "hash": self.hash,
        }


def read_entry(row: tuple[Any, ...], relation: Relation, path: Path) -> Entry:
    """The entry of a row, with the text of its plan."""
    number, when, label, who, text, times, epsilon, package, recorded, link = row
    try:
        at = datetime.fromisoformat(when)
        kept = (number, at, label, who, text, times, relation, epsilon, package, bool(recorded))
        return Entry(*kept, link.hex())
    except (AttributeError, TypeError, ValueError) as problem:
        raise damaged(path, f"entry {number} cannot be read") from problem


def cost_text(cost: Cost) -> str:
    """A cost as it is stored with a plan."""
    return canonical({"sums": cost.sums, "outside": cost.outside}, "a cost")


def read_cost(body: Any) -> Cost:
    """A cost from its parts; whatever is not one is refused."""
    sums, outside = body["sums"], body["outside"]
    good = isinstance(sums, list) and type(outside) is int and outside >= 0
    if not good or not all(each is None or (type(each) is int and each >= 0) for each in sums):
        raise InvalidParameter("the ledger is damaged: a sum must be a whole number")
    return Cost(tuple(sums), outside)


def read_head(number: object, last: object, sums: object) -> Head:
    """The head as it is stored."""
    body = read_json(str(sums), "the sums", LARGEST_LEDGER)
    if type(number) is not int or not isinstance(last, bytes) or not isinstance(body, dict):
        raise InvalidParameter("the ledger is damaged: its head cannot be read")
    try:
        steps, epsilon, whole = body["steps"], float(body["epsilon"]), body["whole"]
        notes, note, runs = body["noted"]
        noted = Noted(int(notes), bytes.fromhex(note), str(runs))
        flags = bool(whole), bool(body["recorded"])
        return Head(number, last, read_cost(body), int(steps), epsilon, *flags, noted)
    except (KeyError, TypeError, ValueError) as problem:
        raise InvalidParameter("the ledger is damaged: its head cannot be read") from problem


@lru_cache(maxsize=4096)
def plan_digest(text: str, level: int, cost: str) -> str:
    """What an entry's hash covers of its plan: the text, and what one run of it costs."""
    return digest([text, level, cost], "a plan")


def now() -> str:
    """The time, as it is stored; nothing depends on it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def words(name: str, text: object, *, empty: bool = True) -> str:
    """A short text in one line that every terminal and table can hold."""
    allowed = f"must be one line of {'at most' if empty else '1 to'} {_LONGEST} characters"
    if not isinstance(text, str):
        raise InvalidParameter.refusing(name, allowed, f"a {type(text).__name__}")
    if len(text) > _LONGEST or not text.isprintable() or not (text or empty):
        raise InvalidParameter.refusing(name, allowed, ascii(text[:40]))
    return text


def header_text(header: Header, plan: object) -> str:
    """The header as it is stored and hashed; ``plan`` is the declared one's description."""
    body = {
        "format": FORMAT,
        "version": VERSION,
        "epsilon": header.epsilon,
        "delta": header.delta,
        "orders": header.filter.orders,
        "shares": header.filter.shares,
        "relation": header.relation.value,
        "plan": plan,
        **{name: getattr(header, name) for name in _AS_THEY_ARE},
    }
    return canonical(body, "a ledger's header")


def read_header(text: str, where: str) -> Header:
    """The header of a file; only a whole one of this version is read."""
    body = read_json(text, where, LARGEST_LEDGER)
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise InvalidParameter(f"{where} is no ledger: its format must be {FORMAT!r}")
    if type(body.get("version")) is not int or body["version"] != VERSION:
        got = repr(body.get("version"))
        raise InvalidParameter(f"{where} must be a ledger of version {VERSION}, got version {got}")
    try:
        plan = None if body["plan"] is None else plan_from_description(body["plan"])
        orders, shares = tuple(map(float, body["orders"])), tuple(map(float, body["shares"]))
        return Header(
            filter=Filter(float(body["epsilon"]), float(body["delta"]), orders, shares),
            relation=Relation.read(body["relation"]),
            plan=plan,
            **{name: body[name] for name in _AS_THEY_ARE},
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise InvalidParameter(f"{where} is damaged: its header cannot be read") from problem

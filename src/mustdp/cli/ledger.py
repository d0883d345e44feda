"""``mustdp ledger``: make a budget's file, and show what was spent of it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mustdp.cli.options import (
    NoiseOptions,
    RunOptions,
    SchemeOptions,
    read_delta,
    read_relation,
    read_repeats,
    read_target,
)
from mustdp.cli.output import Answer
from mustdp.cli.parameters import (
    Panel,
    as_typed,
    clipped,
    exactly_one,
    one_of,
    with_bundles,
)
from mustdp.errors import InvalidParameter
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.formatting import as_stated, readable

if TYPE_CHECKING:
    from mustdp.accounting.plan import Plan
    from mustdp.ledger.file import LedgerFile
    from mustdp.ledger.records import Entry, LedgerStatus

#: Characters of the bar that shows what is spent, so that a line has less than 80.
_BAR = 40
#: The timeline shows this many days, the last ones.
_MOST_DAYS = 30
_PROGRAMS = {
    "adaptive": "plans may be chosen along the way",
    "fixed": "one plan, declared when the ledger was made",
}
_NEEDED = {
    "epsilon": "a ledger is made with its limit",
    "delta": "a ledger is made with its limit",
    "releases": "give the number of equal releases that are planned",
}

ActionArgument = Annotated[
    str,
    typer.Argument(
        metavar="ACTION",
        help="create, declare, show, entries, verify or export.",
        show_default=False,
    ),
]
FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="The ledger's file.", show_default=False)
]
_ledger = Panel(
    None,
    """
    --epsilon E      create (required), declare: the limit, above 0 to 500. declare without --each
                     or noise: all releases together cost no more.
    --delta D        create, declare (required): the delta of the limit, well below 1/n.
    --relation NAME  create, declare: which data sets are neighbours, replace-one (the default) or
                     add-remove.
    --data NAME      create, declare: name of the data set; the file's by default.
    --releases INT   declare (required): how many equal releases (mustdp release) are planned.
    --each E         declare: the epsilon of each release alone. Excludes --noise-multiplier.
    --steps K        create: declare a plan of K steps with the given scheme and noise. Only that
                     plan can then be charged, at its tight bound.
    --key-file FILE  A file with the key of the entries' hashes, at least 16 bytes, kept elsewhere.
    --known HASH     verify: a hash, of an entry or of a note about a run, that must still be in
                     the ledger.
    --out FILE       export (required): where to, a name that ends in .json or .csv.
    """,
)


_MADE = ("create", "declare")
#: The actions that take each option; --key-file goes with all.
_TAKEN_BY = {
    "epsilon": _MADE, "delta": _MADE, "relation": _MADE, "data": _MADE, "steps": ("create",),
    "releases": ("declare",), "each": ("declare",), "known": ("verify",), "out": ("export",),
}  # fmt: skip


@dataclass(frozen=True)
class LedgerOptions:
    """The options of all actions."""

    epsilon: Annotated[float | None, _ledger("--epsilon", read_target)] = None
    delta: Annotated[float | None, _ledger("--delta", read_delta)] = None
    relation: Annotated[Relation | None, _ledger("--relation", read_relation)] = None
    data: Annotated[str | None, _ledger("--data")] = None
    steps: Annotated[int | None, _ledger("--steps", read_repeats)] = None
    releases: Annotated[int | None, _ledger("--releases", read_repeats)] = None
    each: Annotated[float | None, _ledger("--each", read_target)] = None
    key_file: Annotated[str | None, _ledger("--key-file")] = None
    known: Annotated[str | None, _ledger("--known")] = None
    out: Annotated[str | None, _ledger("--out")] = None

    def check(self, action: str) -> None:
        """Refuse options of other actions."""
        for name, owners in _TAKEN_BY.items():
            value = getattr(self, name)
            if value is not None and action not in owners:
                typed = value.option if isinstance(value, Relation) else as_typed(value)
                raise InvalidParameter(
                    f"--{name} {typed} belongs to {' and '.join(owners)}, not to {action}"
                )

    def key(self) -> bytes | None:
        """The key of the hashes, if there is one."""
        from mustdp.files.reading import read_file

        if self.key_file is None:
            return None
        try:
            return read_file(self.key_file, 4096)
        except OSError as problem:
            raise InvalidParameter(
                "--key-file must be a file that can be read, got "
                f"{clipped(self.key_file)}: {problem.strerror}"
            ) from None


@with_bundles
def ledger(
    action: ActionArgument,
    file: FileArgument,
    scheme: SchemeOptions,
    noise: NoiseOptions,
    options: LedgerOptions,
) -> Answer:
    """Make or inspect a budget that many processes charge and none can overspend.

    create makes the file with a limit. declare makes it for equal releases that are planned in
    advance, such as those of a year: together they cost less than releases chosen one after the
    other. show says what is spent and left, and when. entries lists every charge. verify reads
    everything and checks every hash. export writes JSON or CSV.

    Example: mustdp ledger create office.ledger --epsilon 4 --delta 1e-6 --data census
    """
    import mustdp

    actions: dict[str, Callable[[LedgerFile], Answer]] = {
        "show": _show,
        "entries": _entries,
        "verify": lambda opened: _verify(opened, options.known),
        "export": lambda opened: _export(opened, options.out),
    }
    chosen = one_of("ACTION", action, (*_MADE, *actions))
    options.check(chosen)
    key, epsilon, delta = options.key(), options.epsilon, options.delta
    if chosen not in _MADE:
        _plan(chosen, scheme, noise, options.steps)
        with mustdp.Ledger.open(file, key=key) as opened:
            return actions[chosen](opened)
    for name in ("epsilon" if chosen == "create" else "releases", "delta"):
        if getattr(options, name) is None:
            raise InvalidParameter(f"--{name} is missing: {_NEEDED[name]}")
    if os.path.lexists(file):
        raise InvalidParameter(f"FILE must not be there yet, got {clipped(file)}")
    if chosen == "create":
        plan = _plan(chosen, scheme, noise, options.steps)
    else:
        relation = options.relation or Relation.REPLACE_ONE
        planned = _Releases(options.releases or 1, delta or 0.0, relation)
        plan, epsilon = planned.declared(scheme, noise, options.each, epsilon)
    with mustdp.Ledger.open(
        file, epsilon=epsilon, delta=delta, relation=options.relation, data=options.data,
        program=plan, key=key,
    ) as opened:  # fmt: skip
        return _show(opened)


@dataclass(frozen=True)
class _Releases:
    """Equal releases on all records (``mustdp release``) that are declared in advance."""

    count: int
    delta: float
    relation: Relation

    def declared(
        self,
        scheme: SchemeOptions,
        noise: NoiseOptions,
        each: float | None,
        epsilon: float | None,
    ) -> tuple[Plan, float]:
        """The plan and the limit; what is not given is worked out from what is."""
        import mustdp
        from mustdp.ledger.program import certified

        if scheme != SchemeOptions():
            raise InvalidParameter(
                "a scheme belongs to create (with --steps), not to declare, whose releases are on "
                "all records"
            )
        if noise.mechanism != "gaussian":
            raise InvalidParameter.refusing(
                "--mechanism", "must be gaussian, as the noise of every release is", noise.mechanism
            )
        if "shift" in noise.given:
            raise InvalidParameter(
                "--shift belongs to create, not to declare: give the noise of a "
                "release by --noise-multiplier"
            )
        multiplier = self._noise(noise.given.get("noise_multiplier"), each, epsilon)
        plan = mustdp.repeat(self.count, mustdp.gaussian(noise_multiplier=multiplier))
        if epsilon is not None:
            return plan, epsilon
        cost = certified(plan, self.relation, self.delta)
        return plan, max(cost, float(readable(cost, "up", 4)))

    def _noise(self, multiplier: float | None, each: float | None, epsilon: float | None) -> float:
        import mustdp
        from mustdp.estimation.release import release_with_noise

        if multiplier is None and each is None:
            if epsilon is None:
                raise InvalidParameter(
                    "--each or --noise-multiplier or --epsilon is missing: give the epsilon of "
                    "each release, its noise, or what all of them may cost together"
                )
            found = mustdp.calibration.calibrate_plan(
                lambda noise: mustdp.repeat(self.count, noise),
                epsilon=epsilon,
                delta=self.delta,
                relation=self.relation,
            )
            return found.noise_multiplier
        exactly_one({"--each": each, "--noise-multiplier": multiplier})
        if multiplier is not None:
            return multiplier
        target = {"epsilon": each, "delta": self.delta, "noise_multiplier": None}
        return release_with_noise(**target, relation=self.relation).noise_multiplier


def _plan(
    chosen: str, scheme: SchemeOptions, noise: NoiseOptions, steps: int | None
) -> Plan | None:
    """The plan that is declared, if one is."""
    given = (scheme != SchemeOptions(), noise != NoiseOptions(), steps is not None)
    if not any(given):
        return None
    if chosen != "create":
        raise InvalidParameter(f"a scheme and its noise belong to create, not to {chosen}")
    import mustdp

    return mustdp.repeat(RunOptions(steps).count(), mustdp.subsample(scheme.build(), noise.build()))


def _show(opened: LedgerFile) -> Answer:
    standing, entries = opened.standing(), opened.entries()
    days = [(day, list(found)) for day, found in groupby(entries, lambda one: str(one.when.date()))]
    named = ("day", "charges", "epsilon")
    timeline = [(day, len(found), found[-1].epsilon) for day, found in days]
    header = opened.header
    rows = tuple(
        (day, str(charges), readable(spent, "up"), bar(spent, opened))
        for day, charges, spent in timeline[-_MOST_DAYS:]
    )
    heading = (
        f"{header.data}: {readable(standing.spent, 'up')} spent and "
        f"{readable(standing.left, 'down')} left of epsilon {as_stated(header.epsilon)} at delta "
        f"{as_stated(header.delta)}\n{bar(standing.spent, opened)}"
    )
    return Answer(
        {
            "file": opened.path,
            "data": header.data,
            "limit": {"epsilon": header.epsilon, "delta": header.delta},
            "relation": header.relation.option,
            "program": header.program,
            "spent": standing.spent,
            "left": standing.left,
            **({"adaptive": standing.adaptive} if math.isfinite(standing.adaptive) else {}),
            "fixed": standing.fixed,
            "entries": standing.entries,
            "steps": standing.steps,
            **_declared(opened, standing),
            "timeline": [dict(zip(named, line, strict=True)) for line in timeline],
        },
        heading=heading,
        columns=("day (UTC)", "charges", "spent by then", "of the limit") if rows else (),
        rows=rows,
        note=_explained(opened, standing),
    )


def bar(spent: float, opened: LedgerFile) -> str:
    """The share of the limit that is spent; anything spent shows."""
    filled = min(_BAR, math.ceil(_BAR * spent / opened.header.epsilon))
    return f"[{'#' * filled}{'.' * (_BAR - filled)}]"


def _explained(opened: LedgerFile, standing: LedgerStatus) -> str:
    relation = opened.header.relation
    finite = math.isfinite(standing.adaptive)
    adaptive = readable(standing.adaptive, "up") if finite else "no finite number"
    named = {
        "adaptive": f"adaptive: {adaptive}, however plans and stopping times were chosen",
        "fixed": f"fixed: {readable(standing.fixed, 'up')}, had all plans been fixed in advance",
    }
    lines = [
        f"{name_and_number} ({'enforced' if name == opened.header.program else 'for comparison'})."
        for name, name_and_number in named.items()
    ]
    lines.append(
        f"{standing.entries} charges, {standing.steps} steps; {_PROGRAMS[opened.header.program]}; "
        f"relation {relation.option} ({relation.neighbours})."
    )
    found = _declared(opened, standing).get("declared")
    if found is not None:
        noise = found.get("noise_multiplier")
        drawn = (
            "" if noise is None else f", gaussian noise with multiplier {readable(noise, 'down')}"
        )
        lines.append(
            f"{found['left']} of the {found['steps']} declared steps are left{drawn}; all of them "
            f"cost {readable(found['epsilon'], 'up')}."
        )
    return "\n".join(lines)


def _declared(opened: LedgerFile, standing: LedgerStatus) -> dict[str, dict[str, Any]]:
    """The plan that was declared: how long it is, what is left of it, and its next noise."""
    from mustdp.ledger.program import declared

    plan = opened.header.plan
    if plan is None:
        return {}
    steps = declared(plan).steps
    found = {"steps": steps, "left": steps - standing.steps, "epsilon": opened.header.declared}
    noise = getattr(opened.next_step, "noise_multiplier", None)
    return {"declared": found | ({} if noise is None else {"noise_multiplier": noise})}


def _entries(opened: LedgerFile) -> Answer:
    entries = opened.entries()
    header = opened.header
    return Answer(
        {
            "limit": {"epsilon": header.epsilon, "delta": header.delta},
            "spent": opened.spent(),
            "left": opened.left(),
            "entries": [entry.describe() for entry in entries],
        },
        heading=f"{header.data}: {len(entries)} charges",
        columns=("number", "when (UTC)", "label", "who", "times", "spent by then"),
        rows=tuple(map(_row, entries)),
    )


def _row(entry: Entry) -> tuple[str, ...]:
    when = entry.when.strftime("%Y-%m-%d %H:%M:%S")
    spent = readable(entry.epsilon, "up")
    return str(entry.number), when, entry.label, entry.who, str(entry.times), spent


def _verify(opened: LedgerFile, known: str | None) -> Answer:
    found = opened.verify(known)
    return Answer(
        {
            "verified": True,
            "entries": found.entries,
            "hash": found.hash,
            "spent": found.epsilon,
            **({} if found.note is None else {"note": found.note}),
        },
        heading=f"{opened.header.data}: all {found.entries} entries are as they were written",
        note=f"The last one has the hash {found.hash}; verify --known finds an older copy by it."
        + (f"\nThe last note about a run has the hash {found.note}." if found.note else ""),
    )


def _export(opened: LedgerFile, out: str | None) -> Answer:
    if out is None or not out.endswith((".json", ".csv")):
        shown = "nothing" if out is None else clipped(out)
        raise InvalidParameter(f"--out must be a name that ends in .json or .csv, got {shown}")
    from mustdp.files.replacing import replace_file

    kind = out.rpartition(".")[2]
    text = opened.export_json() if kind == "json" else opened.export_csv()
    replace_file(out, text.encode("utf-8"))
    count = len(opened.entries())
    return Answer(
        {"written": out, "format": kind, "entries": count},
        heading=f"{count} entries were written to {out}",
    )

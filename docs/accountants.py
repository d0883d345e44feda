"""The tables of docs that compare accountants, computed by asking each of them.

``python docs/accountants.py`` brings them up to date, in an environment with the extras ``bench``
and ``interop``; ``python docs/accountants.py NAME ...`` only the tables of these names.
"""

from __future__ import annotations

import json
import logging
import math
import re
import signal
import sys
import unittest
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Literal

from mustdp.interop import conformance
from mustdp.interop.conformance import Judged
from mustdp.numerics.formatting import as_stated, readable

DOCS = Path(__file__).parent

Rows = Iterable[tuple[str, ...]]


def deployments() -> Rows:
    """Published deployments beside ours."""
    from mustdp.interop.deployments import deployments as shipped

    yield "deployment", "release", "delta", "published", "attained", "certified", "what differs"
    for name, one in shipped().items():
        for release in one.releases:
            found = release.epsilon()
            published = "" if release.published is None else as_stated(release.published)
            yield (
                f"`{name}`",
                release.name,
                "" if release.delta is None else as_stated(release.delta),
                published,
                readable(found.lower, "down", 4),
                readable(found.upper, "up", 4),
                release.differs,
            )


# What each accountant answers, and how good that is.


#: Seconds that an accountant has for one setting.
LIMIT = 300
#: Answers are kept here, by version: all of them take some minutes.
KEPT = DOCS.parent / "build" / "conformance.json"


@cache
def judged() -> dict[str, list[Judged]]:
    """Every accountant on every setting."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}
    found = {}
    for name in conformance.KNOWN:
        key = f"{name} {_version(name)}"
        if key not in kept:
            rows = conformance.judge(_within(conformance.KNOWN[name]))
            kept[key] = [(row.verdict, row.reason) for row in rows]
            KEPT.parent.mkdir(exist_ok=True)
            KEPT.write_text(json.dumps(kept), encoding="utf-8")
        found[name] = [
            Judged(setting, None, verdict, reason)
            for setting, (verdict, reason) in zip(conformance.settings(), kept[key], strict=True)
        ]
    return found


def _within(accountant: conformance.Accountant) -> conformance.Accountant:
    """The same, given up after a while."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"no answer in {LIMIT} s")

    def limited(setting: dict[str, Any]) -> float | None:
        signal.signal(signal.SIGALRM, stop)
        signal.alarm(LIMIT)
        try:
            return accountant(setting)
        finally:
            signal.alarm(0)

    return limited


def _version(name: str) -> str:
    return metadata.version(conformance.PACKAGES[name])


def conformance_counts() -> Rows:
    """Verdicts by accountant."""
    verdicts = ("too small", "tight", "loose", "not accepted", "failed")
    yield "accountant", "version", *verdicts
    for name, rows in judged().items():
        counts = [sum(row.verdict == one for row in rows) for one in verdicts]
        yield f"`{name}`", _version(name), *map(str, counts)


def settings_accepted() -> Rows:
    """Which kinds of settings every accountant answers."""
    yield "sampling", "noise", "relation", *(f"`{name}`" for name in judged())
    kinds = dict.fromkeys(map(_kind, conformance.settings()))
    for kind in kinds:
        cells = []
        for rows in judged().values():
            found = {row.verdict for row in rows if _kind(row.setting) == kind}
            cells.append(_worst(found))
        yield *kind, *cells


def _kind(setting: dict[str, Any]) -> tuple[str, str, str]:
    return setting["sampling"], setting["mechanism"], setting["relation"]


def _worst(found: set[str]) -> str:
    if "too small" in found:
        return "too small"
    if "failed" in found:
        return "in part" if found & {"tight", "loose"} else "failed"
    return "no" if found == {"not accepted"} else "yes"


def _events() -> dict[str, Any]:
    made = dp_event()
    gaussian, laplace = made.GaussianDpEvent(2.0), made.LaplaceDpEvent(2.0)
    discrete, answer = made.DiscreteLaplaceDpEvent(0.5, 1), made.RandomizedResponseDpEvent(0.2, 3)
    rho = made.ZCDpEvent(0.1)
    return {
        "Gaussian": gaussian,
        "Laplace": laplace,
        "discrete Laplace": discrete,
        "randomized response": answer,
        "zCDP": rho,
        "zCDP with a constant": made.ZCDpEvent(0.1, 0.05),
        "Poisson of Gaussian": made.PoissonSampledDpEvent(0.1, gaussian),
        "Poisson of several Gaussian": made.PoissonSampledDpEvent(
            0.1, made.ComposedDpEvent([gaussian, gaussian])
        ),
        "Poisson of Laplace": made.PoissonSampledDpEvent(0.1, laplace),
        "Poisson of discrete Laplace": made.PoissonSampledDpEvent(0.1, discrete),
        "Poisson of zCDP": made.PoissonSampledDpEvent(0.1, rho),
        "without replacement": made.SampledWithoutReplacementDpEvent(100, 10, gaussian),
        "with replacement": made.SampledWithReplacementDpEvent(100, 10, gaussian),
        "without replacement, of zCDP": made.SampledWithoutReplacementDpEvent(100, 10, rho),
        "without, then with replacement": made.SampledWithoutReplacementDpEvent(
            100, 10, made.SampledWithReplacementDpEvent(10, 5, gaussian)
        ),
        "truncated Poisson of Gaussian": made.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 2.0),
        "mixture of Gaussians": made.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.9, 0.1]),
        "mixture of several Gaussians": made.MixtureOfGaussiansDpEvent(
            2.0, [0.0, 1.0, 2.0], [0.81, 0.18, 0.01]
        ),
        "repeat and select": made.RepeatAndSelectDpEvent(gaussian, 10.0, 1.0),
        "tree aggregation": made.SingleEpochTreeAggregationDpEvent(2.0, 4),
        "unsupported": made.UnsupportedDpEvent(),
    }


def dp_event() -> Any:
    """The events of dp_accounting."""
    return import_module("dp_accounting.dp_event")


def accountants() -> dict[str, Callable[[Any], Any]]:
    """The accountants of dp_accounting's interface, from a relation."""
    from mustdp.interop.dp_accounting import MustdpAccountant

    pld, rdp = import_module("dp_accounting.pld"), import_module("dp_accounting.rdp")
    return {
        "mustdp": MustdpAccountant,
        "PLD": pld.PLDAccountant,
        "RDP": lambda relation: rdp.RdpAccountant(None, relation),
    }


def events_accepted() -> Rows:
    """What the accountants of dp_accounting's interface accept."""
    relations = import_module("dp_accounting").NeighboringRelation
    made = accountants()
    yield "event", *(f"{who}, {_short(one)}" for who in made for one in relations)
    for name, event in _events().items():
        cells = (
            "yes" if make(one).supports(event) else ""
            for make in made.values()
            for one in relations
        )
        yield name, *cells


def events_refused() -> Rows:
    """Why mustdp does not accept the others."""
    relations = import_module("dp_accounting").NeighboringRelation
    accountant = accountants()["mustdp"]
    yield "event", "relation", "reason"
    for name, event in _events().items():
        reasons: dict[str, list[str]] = {}
        for one in relations:
            problem = accountant(one)._maybe_compose(event, 1, False)
            if problem is not None:
                reasons.setdefault(problem.error_message, []).append(_short(one))
        for reason, named in reasons.items():
            yield name, ", ".join(named), reason


def _short(relation: Any) -> str:
    return {"ADD_OR_REMOVE_ONE": "add", "REPLACE_ONE": "replace", "REPLACE_SPECIAL": "special"}[
        relation.name
    ]


# Events of dp_accounting's own tests.

_DELTA = 1e-5


def recorded() -> list[tuple[str, Any, Any]]:
    """Accountant, relation and event of everything that its tests compose."""
    composed: list[tuple[str, Any]] = []
    found: dict[str, tuple[str, Any, Any]] = {}
    made = {
        "PLD": import_module("dp_accounting.pld.pld_privacy_accountant").PLDAccountant,
        "RDP": import_module("dp_accounting.rdp.rdp_privacy_accountant").RdpAccountant,
    }
    for who, accountant in made.items():
        before = accountant.compose

        def compose(
            self: Any, event: Any, count: int = 1, *, before: Any = before, who: str = who
        ) -> Any:
            if all(one is not self for _, one in composed):
                composed.append((who, self))
            return before(self, event, count)

        accountant.compose = compose
    names = (
        "dp_accounting.pld.pld_privacy_accountant_test",
        "dp_accounting.rdp.rdp_privacy_accountant_test",
    )
    logging.disable()
    for name in names:
        unittest.defaultTestLoader.loadTestsFromName(name).run(unittest.TestResult())
    for accountant in made.values():
        del accountant.compose
    for who, one in composed:
        found[f"{who} {one.neighboring_relation} {one.ledger}"] = (
            who,
            one.neighboring_relation,
            one.ledger,
        )
    return list(found.values())


def tests_beside() -> Rows:
    """Their answers and ours to what their tests compose."""
    made = accountants()
    left: Counter[tuple[str, str, str]] = Counter()
    yield "event", "relation", "theirs", "epsilon", "attained", "certified", ""
    for who, relation, event in recorded():
        words = re.sub(r"DpEvent|\b[a-z_]+=", "", str(event))
        words = re.sub(r"\d+\.\d{6,}", lambda found: f"{float(found[0]):.6g}", words)
        if not made["mustdp"](relation).supports(event):
            kinds = dict.fromkeys(re.findall(r"([A-Z]\w+)\(", words))
            left[" of ".join(kinds), _short(relation), who] += 1
            continue
        try:
            answer = float(made[who](relation).compose(event).get_epsilon(_DELTA))
        except (ValueError, ArithmeticError) as problem:
            yield words, _short(relation), who, type(problem).__name__, "", "", ""
            continue
        told = _number(answer, "nearest")
        yield words, _short(relation), who, told, *_ours(relation, event, answer)
    for (listed, named, who), count in left.items():
        yield f"{listed}: {count} events", named, who, "", "", "", "not accepted here"


def _ours(relation: Any, event: Any, theirs: float) -> tuple[str, str, str]:
    accountant = accountants()["mustdp"](relation).compose(event)
    upper = accountant.get_epsilon(_DELTA)
    if not 0 < upper < math.inf:
        return _number(upper, "down"), _number(upper, "up"), ""
    lower = accountant.bounds(_DELTA).lower
    verdict = ""
    if theirs < lower * (1 - 1e-9):
        verdict = "theirs is too small"
    elif theirs > upper * 1.001:
        verdict = "ours is closer"
    elif theirs < upper * 0.999:
        verdict = "theirs is closer"
    return _number(lower, "down"), _number(upper, "up"), verdict


def _number(value: float, way: Literal["up", "down", "nearest"]) -> str:
    return readable(value, way, 5) if 0 < value < math.inf else {0.0: "0"}.get(value, "infinite")


#: Page, and the function that makes the table, by the table's name.
TABLES: dict[str, tuple[str, Callable[[], Rows]]] = {
    "deployments": ("deployments.md", deployments),
    "events accepted": ("interop.md", events_accepted),
    "events refused": ("interop.md", events_refused),
    "conformance": ("interop.md", conformance_counts),
    "settings accepted": ("interop.md", settings_accepted),
    "tests of dp_accounting": ("dp-accounting-tests.md", tests_beside),
}


def written(text: str, name: str, rows: Rows) -> str:
    """A page with one of its tables anew."""
    head, *body = rows
    lines = ["| " + " | ".join(row) + " |" for row in (head, *body)]
    table = "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])
    begin, end = f"<!-- table: {name} -->\n", "<!-- end -->"
    if text.count(begin) != 1:
        raise SystemExit(f"the page must have one table called {name}")
    before, _, rest = text.partition(begin)
    return f"{before}{begin}{table}\n{end}{rest.partition(end)[2]}"


def main(names: list[str]) -> None:
    """Write the tables of these names, or all."""
    for name, (page, rows) in TABLES.items():
        if names and name not in names:
            continue
        path = DOCS / page
        path.write_text(written(path.read_text(encoding="utf-8"), name, rows()), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

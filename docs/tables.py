"""The tables of docs/cli.md, of mechanisms, schemes and statistics, written from their registries.

``python docs/tables.py`` brings them up to date; a test fails where they are not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from mustdp.estimation.statistics.statistic import registered
from mustdp.mechanisms.registry import ARGUMENTS, MECHANISMS, NAMES
from mustdp.sampling.catalogue import CATALOGUE, EPOCHS, SIZES

REFERENCE = Path(__file__).parent / "cli.md"


def noise_options() -> Iterable[tuple[str, ...]]:
    """Every option of every mechanism."""
    yield "option", ""
    yield "`--mechanism NAME`", f"one of the mechanisms below; `{NAMES[0]}` by default"
    for one in ARGUMENTS.values():
        yield (
            f"`{one.option} {one.metavar}`",
            _code(one.help[:1].lower() + one.help[1:].rstrip(".")),
        )


def mechanisms() -> Iterable[tuple[str, ...]]:
    """Every mechanism."""
    yield "mechanism", "", "options", "`calibrate` finds"
    for one in MECHANISMS:
        found = "" if one.searched is None else f"`{ARGUMENTS[one.searched].option}`"
        yield f"`{one.name}`", one.summary, _code(one.takes()), found


def schemes() -> Iterable[tuple[str, ...]]:
    """Every scheme and every kind of epoch."""
    flags = {name: f"`{size.flag}`" for name, size in SIZES.items()} | {"bins": "`--bins` or `-m`"}
    yield "scheme", "", "options"
    for one in (*CATALOGUE, *EPOCHS.values()):
        yield f"`{one.name}`", one.summary, ", ".join(flags[size] for size in one.sizes)


def statistics() -> Iterable[tuple[str, ...]]:
    """Every statistic that can be written on the command line."""
    yield "`--statistic`", "", "columns", "`release`", "`bootstrap`"
    for name, one in registered().items():
        if one.usage is not None:
            most = "or more" if one.most is None else ""
            told = ("yes" if runs else "" for runs in (one.for_release, one.for_bootstrap))
            yield f"`{one.usage or name}`", one.about, f"{one.fewest} {most}".strip(), *told


TABLES: dict[str, Callable[[], Iterable[tuple[str, ...]]]] = {
    "schemes": schemes,
    "noise options": noise_options,
    "mechanisms": mechanisms,
    "statistics": statistics,
}


def written(text: str) -> str:
    """A page with its tables as the registries have them."""
    for name, rows in TABLES.items():
        head, *body = rows()
        table = "\n".join([_row(head), "|" + "---|" * len(head), *map(_row, body)])
        begin, end = f"<!-- table: {name} -->\n", "<!-- end -->"
        if text.count(begin) != 1:
            raise SystemExit(f"the page must have one table called {name}")
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}{table}\n{end}{rest.partition(end)[2]}"
    return text


def _row(cells: Iterable[str]) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


def _code(words: str) -> str:
    return re.sub(r"--[a-z-]+", lambda found: f"`{found[0]}`", words)


if __name__ == "__main__":
    REFERENCE.write_text(written(REFERENCE.read_text(encoding="utf-8")), encoding="utf-8")

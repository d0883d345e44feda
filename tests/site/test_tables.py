"""Numbers in tables of the documentation that no console block shows, computed again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mustdp as md

DOCS = Path(__file__).parents[2] / "docs"
N = 60_000


def rows(page: str, heading: str) -> Iterator[list[str]]:
    """The cells of the table whose heading begins so."""
    text = (DOCS / page).read_text(encoding="utf-8")
    assert text.count(heading) == 1
    table = text[text.index(heading) :].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def bounds(scheme: Any, times: int, noise: float, delta: float, **how: Any) -> md.Bounds:
    step = md.subsample(scheme, md.gaussian(noise_multiplier=noise))
    found: md.Bounds = md.account(md.repeat(times, step), **how).epsilon(delta=delta)
    return found


def assert_shown(value: float, cell: str) -> None:
    assert value == pytest.approx(float(cell), rel=0.003)


def cases(page: str, heading: str, slow: Any = lambda row: False) -> list[Any]:
    """Rows as cases; those that take long are left to the slow lane."""
    return [
        pytest.param(row, marks=pytest.mark.slow if slow(row) else (), id="-".join(row[:3]))
        for row in rows(page, heading)
    ]


ONE = "| noise multiplier | bins | epochs | attained | certified |"
SEVERAL = "| 10 epochs of 234 batches"
SHUFFLED = "| noise multiplier | shuffling: attained |"
OPACUS = "| batches | neighbours | noise multiplier | from |"
POISSON = "| batches | noise multiplier | Poisson | random allocation |"


@pytest.mark.parametrize(
    "row", cases("epochs.md", ONE, lambda row: row[1] == "16" or row[2] != "1")
)
def test_allocation_under_replace_one(row: list[str]) -> None:
    noise, bins, epochs, lower, upper = row
    count = 10**6 if bins == "10^6" else int(bins)
    scheme = md.random_allocation(10**6, count)
    found = bounds(scheme, int(epochs), float(noise), relation="replace_one", delta=1e-6)
    assert_shown(found.lower, lower)
    assert_shown(found.upper, upper)


@pytest.mark.parametrize(
    "row", cases("epochs.md", SEVERAL, lambda row: row[0].startswith(("three", "four")))
)
def test_several_bins_and_records(row: list[str]) -> None:
    words = {"one": 1, "two": 2, "three": 3, "four": 4}
    times = re.search(r"in (\d) distinct", row[0])
    scheme = md.random_allocation(N, 234, times=int(times[1]) if times else 1)
    group = words[row[0].split()[0]]
    found = bounds(scheme, 10, 1.0, relation="add_remove", group=group, delta=1e-5)
    assert_shown(found.lower, row[1])
    assert_shown(found.upper, row[2])


@pytest.mark.parametrize("row", cases("epochs.md", SHUFFLED, lambda row: float(row[0]) < 16))
def test_when_shuffling_is_worth_it(row: list[str]) -> None:
    noise, lower, upper, without, allocated = row
    how: dict[str, Any] = {"relation": "replace_one", "delta": 1e-5}
    found = bounds(md.shuffle(N, 256), 10, float(noise), **how)
    assert_shown(found.lower, lower)
    assert_shown(found.upper, upper)
    plain = md.repeat(10, md.gaussian(noise_multiplier=float(noise)))
    assert_shown(md.account(plain, relation="replace_one").epsilon(1e-5).upper, without)
    assert_shown(bounds(md.random_allocation(N, 235), 10, float(noise), **how).upper, allocated)


@pytest.mark.parametrize(
    "row",
    [one for one in cases("from-opacus.md", OPACUS, lambda row: "replaced" in row[1])
     if "mustdp" in one.values[0][3]],
)  # fmt: skip
def test_noise_beside_that_of_opacus(row: list[str]) -> None:
    """The noise that is shown is just enough; that takes less time than to search for it."""
    batches, neighbours, noise, _ = row
    scheme: Any = {
        "Poisson": md.poisson(N, 1 / 235),
        "random allocation": md.random_allocation(N, 235),
        "fixed size, without replacement": md.wor(N, 256),
        "shuffled": md.shuffle(N, 256),
    }[batches]
    times = 5 if isinstance(scheme, md.types.Epoch) else 1175
    relation = "replace_one" if "replaced" in neighbours else "add_remove"
    for factor, low, high in ((1.0, 1.97, 2.0002), (0.98, 2.0002, 2.4)):
        found = bounds(scheme, times, factor * float(noise), relation=relation, delta=1e-5)
        assert low < found.upper < high


@pytest.mark.parametrize("row", cases("shuffled-as-poisson.md", POISSON))
def test_charged_as_poisson(row: list[str]) -> None:
    size, epochs = map(int, re.findall(r"\d+", row[0]))
    noise, bins = float(row[1]), N // size
    how: dict[str, Any] = {"relation": "add_remove", "delta": 1e-5}
    assert_shown(bounds(md.poisson(N, size / N), epochs * bins, noise, **how).upper, row[2])
    assert_shown(bounds(md.random_allocation(N, bins), epochs, noise, **how).upper, row[3])
    found = bounds(md.shuffle(N, size), epochs, noise, **how)
    assert_shown(found.lower, row[4])
    assert_shown(found.upper, row[5])

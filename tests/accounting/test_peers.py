"""Other accountants' bounds, read from a golden file that names tool, version and settings."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import mustdp as md

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "accountant_peers.json").read_text(encoding="utf-8")
)
ROWS: list[dict[str, Any]] = GOLDEN["rows"]
#: Connecting the dots on a grid of spacing d inflates the deviation of a step by about d/4 at most
#: where the losses of a step are smaller than d; else far less.
COARSE = {(0.0001, 0.6)}


@cache
def account_of(
    scheme: str,
    rate: float,
    sizes: tuple[int, ...],
    mechanism: str,
    noise: float,
    steps: int,
    relation: str,
) -> md.types.Account:
    drawn = md.poisson(1000, rate) if scheme == "poisson" else getattr(md, scheme)(*sizes)
    release = getattr(md, mechanism)(noise_multiplier=noise)
    return md.account(md.repeat(steps, md.subsample(drawn, release)), relation=relation)


def ours(row: dict[str, Any]) -> md.Bounds:
    account = account_of(
        row["scheme"], row.get("rate", 0.0), tuple(row.get("sizes", ())), row["mechanism"],
        row["noise_multiplier"], row["steps"], row["relation"],
    )  # fmt: skip
    return account.epsilon(row["delta"])


def name_of(row: dict[str, Any]) -> str:
    sizes = "-".join(map(str, row.get("sizes", [row.get("rate")])))
    return (
        f"{row['tool'].split()[0]}-{row['scheme']}-{sizes}-{row['mechanism']}"
        f"-{row['noise_multiplier']}-{row['steps']}-{row['relation']}-{row['delta']:g}"
    )


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_our_bounds_and_theirs_overlap(row: dict[str, Any]) -> None:
    bounds = ours(row)
    assert bounds.lower <= row["upper"]
    if row["lower"] is not None:
        assert bounds.upper >= row["lower"]
    # For these settings our two bounds meet.
    meet = 1.2e-3 if row["mechanism"] == "gaussian" else 3e-3
    assert bounds.upper - bounds.lower <= meet * bounds.upper
    if row["tool"].startswith("dp-accounting"):
        slack = 1e-3
        if (row.get("rate"), row["noise_multiplier"]) in COARSE:
            slack = 5e-3  # single losses are far smaller than the peer's grid
        assert abs(bounds.upper - row["upper"]) <= slack * row["upper"]


def test_the_file_says_where_its_numbers_come_from() -> None:
    assert GOLDEN["origin"]["script"] == "tests/golden/make_accountant_peers.py"
    assert {row["tool"] for row in ROWS} == {"dp-accounting 0.6.0", "prv-accountant 0.2.0"}
    assert {row["relation"] for row in ROWS} == {"add_remove", "replace_one"}
    assert {row["scheme"] for row in ROWS} == {"poisson", "wor", "wr"}
    assert all(row["settings"] for row in ROWS)


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "epsilon"),
    [(0.01, 1.0, 1000, 1.8282), (0.001, 0.8, 10_000, 0.7825), (0.02, 4.0, 1000, 0.5794)],
)
def test_numbers_known_in_the_field(rate: float, noise: float, steps: int, epsilon: float) -> None:
    """Poisson, add_remove, delta = 1e-5."""
    bounds = account_of("poisson", rate, (), "gaussian", noise, steps, "add_remove").epsilon(1e-5)
    assert bounds.upper == pytest.approx(epsilon, rel=1e-3)


def test_replacing_a_record_costs_more_than_removing_it() -> None:
    """The two relations must not be mixed up: 2.8434 against 1.8282 for the same training run."""
    replaced = account_of("poisson", 0.01, (), "gaussian", 1.0, 1000, "replace_one").epsilon(1e-5)
    assert replaced.upper == pytest.approx(2.8434, rel=1e-3)
    assert replaced.lower <= 2.8435

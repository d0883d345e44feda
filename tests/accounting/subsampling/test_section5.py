"""The reference table of one-step values, and the golden numbers behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mustdp import gaussian, multistage, must_ow, one_step
from mustdp.types import OneStep

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "section5.json").read_text())
rows = pytest.mark.parametrize("row", GOLDEN["rows"], ids=lambda row: row["case"])


def step_of(row: dict[str, Any]) -> OneStep:
    scheme = multistage(row["n"], [(kind, size) for kind, size in row["stages"]])
    return one_step(scheme, gaussian(shift=row["shift"]), row["epsilon"])


def columns(step: OneStep) -> dict[str, float]:
    assert step.one_slope is not None
    return {
        "symmetric": float(step.attained["symmetric"][0]),
        "aligned": float(step.attained["aligned"][0]),
        "certificate": float(step.upper[0]),
        "section4": float(step.one_slope[0]),
    }


def test_the_golden_file_states_its_origin() -> None:
    assert set(GOLDEN["origin"]) >= {"what", "script", "tool", "digits"}
    assert len(GOLDEN["rows"]) == 5


@rows
def test_the_printed_table_to_five_digits(row: dict[str, Any]) -> None:
    for column, value in columns(step_of(row)).items():
        printed = row["printed"][column]
        digits = min(5, len(printed.split("e")[0].replace(".", "").lstrip("0")))
        assert f"{value:.{digits - 1}e}" == f"{float(printed):.{digits - 1}e}", column


@rows
def test_the_computed_values_from_the_right_side(row: dict[str, Any]) -> None:
    """Lower bounds stay below their exact values, upper bounds above, all within 1e-6."""
    exact = {column: float(value) for column, value in row["computed"].items()}
    found = columns(step_of(row))
    for column in ("symmetric", "aligned"):
        assert exact[column] * (1 - 1e-8) <= found[column] <= exact[column]
    assert exact["certificate"] * (1 - 1e-10) <= found["certificate"]
    assert found["certificate"] <= exact["certificate"] * (1 + 1e-6)
    assert exact["section4"] <= found["section4"] <= exact["section4"] * (1 + 1e-9)


def test_all_others_zero_is_not_the_worst_case() -> None:
    """The symmetric pair, on which accountants have been built, is short by a factor of 1000."""
    step = one_step(must_ow(1000, 100, 100), gaussian(shift=0.5), 0.5)
    assert step.attained["aligned"][0] > 1000.0 * step.attained["symmetric"][0]
    assert step.lower[0] == step.attained["aligned"][0]
    assert np.all(step.upper <= 1.000001 * step.lower)

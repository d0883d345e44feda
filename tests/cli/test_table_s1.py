"""Table S1 of arXiv 2312.13389, to the digits printed there, by ``mustdp amplify --json``."""

from __future__ import annotations

import json
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Run, no_constants

TABLE: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "table_s1.json").read_text(encoding="utf-8")
)
SAME_LAW = {"poisson": "wor", "must-oo": "wor", "must-wo": "wr"}
SCHEMES = ("poisson", "wor", "wr", "must-ow", "must-ww", "must-wo", "must-oo")


def size_options(scheme: str) -> list[object]:
    n, b, m = TABLE["n"], TABLE["b"], TABLE["m"]
    if scheme == "poisson":
        return ["-n", n, "--rate", m / n]
    return ["-n", n, "-m", m] + (["-b", b] if scheme.startswith("must") else [])


def as_printed(value: float, printed: str) -> str:
    """``value`` rounded to the last digit of ``printed``."""
    if printed == "0":
        return repr(value) if value else "0"
    rounded = Decimal(value).quantize(Decimal(printed), ROUND_HALF_UP)
    return str(rounded)


@pytest.mark.parametrize("shift", ["0.25", "1"])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_cell(run: Run, scheme: str, mechanism: str, shift: str) -> None:
    points = [part for e in TABLE["epsilon"] for part in ("--epsilon", e)]
    noise = ["--mechanism", mechanism, "--shift", shift]
    outcome = run("amplify", "--scheme", scheme, *size_options(scheme), *noise, *points, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    rows = json.loads(outcome.out, parse_constant=no_constants)["rows"]
    column = SAME_LAW.get(scheme, scheme)
    printed = {
        "epsilon_prime": TABLE["epsilon_prime"][column],
        "delta": TABLE["delta"][mechanism][shift],
        "delta_prime": TABLE["delta_prime"][mechanism][shift][column],
    }
    for name, cells in printed.items():
        ours = [as_printed(row[name], cell) for row, cell in zip(rows, cells, strict=True)]
        assert ours == [str(Decimal(cell)) for cell in cells], name


def test_the_papers_own_last_row_would_not_pass() -> None:
    laplace = TABLE["delta_prime"]["laplace"]["1"]["must-ww"]
    corrected = TABLE["delta_prime"]["gaussian"]["1"]["must-ww"]
    assert all(a != b for a, b in zip(laplace, corrected, strict=True))

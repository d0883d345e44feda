"""The words follow from the numbers, whichever way these come out."""

from __future__ import annotations

import dataclasses
import math

import pytest

import mustdp as md
from mustdp.reporting.findings import Findings, SameWork
from mustdp.reporting.report import headline, reading, records, small, times
from tests.reporting.report.questions import SAME_GUARANTEE, SAME_NOISE, found


def told(report: Findings) -> str:
    return " ".join(reading(report))


def with_noise(report: Findings, **multipliers: float) -> Findings:
    """The report, had these schemes needed other noise."""
    rows = tuple(
        dataclasses.replace(
            row,
            noise_multiplier=multipliers.get(
                row.scheme.name.replace("-", "_"), row.noise_multiplier
            ),
        )
        for row in report.comparison
    )
    return dataclasses.replace(report, comparison=dataclasses.replace(report.comparison, rows=rows))


def test_where_must_loses_it_is_said() -> None:
    report = found(SAME_GUARANTEE)
    text = told(report)
    ratio = report.rows["must-ow"].noise_multiplier / report.rows["wor"].noise_multiplier
    assert ratio > 1.05
    assert f"MUSTow takes {ratio:.3f} times the noise of WOR" in text
    assert "That MUSTow costs more is a fact" in text
    assert "smaller plain batches are the better way to save" in text
    assert "pays" not in text


def test_where_must_wins_it_is_said_too() -> None:
    report = with_noise(found(SAME_GUARANTEE), must_ow=0.3217)
    theirs = report.at_one_noise["wor"]
    cheap = md.Bounds(0.1 * theirs.lower, 0.5 * theirs.lower)
    report = dataclasses.replace(
        report,
        at_one_noise={"wor": theirs, "must-ow": cheap},
        same_work=SameWork(3, 1.0, theirs),
    )
    text = told(report)
    assert "**MUSTow needs the least noise**: 0.3217" in text
    assert "That MUSTow costs less is a fact" in text
    assert "here the saving pays" in text
    assert "more is a fact" not in text
    assert "better way to save" not in text


@pytest.mark.parametrize("upper", [9.0, math.inf])
def test_what_the_bounds_do_not_settle_is_called_so(upper: float) -> None:
    report = found(SAME_GUARANTEE)
    theirs = report.at_one_noise["wor"]
    wide = md.Bounds(0.5 * theirs.lower, upper)
    text = told(dataclasses.replace(report, at_one_noise={"wor": theirs, "must-ow": wide}))
    assert "is not settled by these bounds" in text
    assert "is a fact" not in text
    assert ("no known limit" in text) == math.isinf(upper)


def test_what_is_the_same_is_called_so() -> None:
    report = found(SAME_GUARANTEE)
    theirs = report.at_one_noise["wor"]
    same = dataclasses.replace(report, at_one_noise={"wor": theirs, "must-ow": theirs})
    assert "MUSTow and WOR cost practically the same here" in told(same)


def test_what_could_not_be_certified_is_left_out() -> None:
    report = dataclasses.replace(found(SAME_GUARANTEE), at_one_noise={}, same_work=None)
    text = told(report)
    assert "fact" not in text
    assert "Plain WOR" not in text
    assert "Poisson needs the least noise" in text


def test_bounds_are_rounded_to_their_safe_side() -> None:
    report = found(SAME_GUARANTEE)
    first = reading(report)[0]
    shown = float(first.split("**: ")[1].split(". ")[0])
    least = min(row.noise_multiplier for row in report.comparison)
    assert least <= shown < least * 1.001


def test_the_reference_is_wr_where_there_is_no_wor() -> None:
    report = found(SAME_NOISE)
    assert report.reference.scheme.name == "wr"
    assert "WR" in headline(report)
    text = told(report)
    assert "MUSToo" not in text
    assert "times the epsilon of WR" in text
    assert "agree at the target" not in text


def test_sizes_and_deltas_as_people_write_them() -> None:
    assert (records(60000), records(1460.4), records(96.53), records(4.0)) == (
        "60,000", "1,460", "96.5", "4",
    )  # fmt: skip
    assert (small(1e-5), small(1e-12), small(0.25)) == ("1e-5", "1e-12", "0.25")
    assert (times(1), times(1000)) == ("1 step", "1,000 steps")

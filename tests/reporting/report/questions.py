"""Small questions whose reports are made once for all tests."""

from __future__ import annotations

import dataclasses
from functools import cache

import mustdp as md
from mustdp.reporting.findings import Findings, ReportQuestion, gather
from mustdp.reporting.report import report_page

#: All schemes, at the same guarantee.
SAME_GUARANTEE = ReportQuestion(n=30, b=10, m=4, steps=3, delta=1e-3, epsilon=1.5)
#: No Poisson and no WOR, because more is drawn than there is; at the same noise.
SAME_NOISE = ReportQuestion(n=6, b=3, m=8, steps=1, delta=1e-2, noise_multiplier=20.0)


@cache
def found(question: ReportQuestion) -> Findings:
    return gather(question)


@cache
def page(question: ReportQuestion) -> str:
    return report_page(found(question), "somewhere/my report.html").html()


@cache
def compared(question: ReportQuestion) -> md.types.Comparison:
    return md.compare(**dataclasses.asdict(question), composition="pair")

"""One page about one choice of sizes: what each scheme guarantees, needs and costs."""

from mustdp.report.findings import Findings, Question, gather, parts_of
from mustdp.report.page import compose

__all__ = ["Findings", "Question", "compose", "gather", "parts_of"]

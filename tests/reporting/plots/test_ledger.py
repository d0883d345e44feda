"""The picture of a budget: a step for each charge, up to what was spent, under the limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mustdp as md


def test_steps_lead_to_what_was_spent(tmp_path: Path) -> None:
    with md.Ledger.open(tmp_path / "office.ledger", epsilon=4, delta=1e-6) as opened:
        with pytest.raises(md.InvalidParameter, match="nothing was charged"):
            md.plot.ledger(opened)
        for label in ("first", "second"):
            opened.charge(md.laplace(shift=1.0), label=label)
        ax: Any = md.plot.ledger(opened)
        step, limit = ax.lines
        assert np.asarray(step.get_ydata()).tolist() == [
            0.0,
            *(entry.epsilon for entry in opened.entries()),
        ]
        assert np.asarray(step.get_ydata())[-1] == opened.spent()
        assert np.asarray(limit.get_ydata()).tolist() == [4.0, 4.0]
        legend = ax.get_legend()
        assert legend is not None
        told = " ".join(text.get_text() for text in legend.get_texts())
        assert f"left: {opened.left():.3g}" in told
        ax.figure.savefig(tmp_path / "budget.svg")


def test_only_a_ledger_in_a_file_has_a_limit() -> None:
    with pytest.raises(md.InvalidParameter, match=r"Ledger\.open"):
        md.plot.ledger(md.Ledger())  # type: ignore[arg-type]

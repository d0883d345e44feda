"""The Python on the pages of docs runs, and prints what the pages say.

The pages on ledgers, on networks and on the command line have tests of their own, and so have the
tutorials (test_pages.py).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"
#: Checked elsewhere, or by the doctests below.
ELSEWHERE = {
    "engines.md",
    "ledger.md",
    "training-networks.md",
    "cli.md",
    "from-opacus.md",
    "interop.md",
}


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def ran(code: str, page: str, **names: Any) -> dict[str, Any]:
    exec(compile(code, page, "exec"), names)
    return names


def test_epochs() -> None:
    [code] = blocks("epochs.md")
    shown = re.findall(r"# (\w+): ([\d.]+) attained, ([\d.]+) certified", code)
    found = ran(code, "epochs.md")["found"]
    assert [name for name, *_ in shown] == list(found)
    for name, lower, upper in shown:
        bounds = found[name]
        assert (bounds.lower, bounds.upper) == pytest.approx((float(lower), float(upper)), abs=2e-4)
        assert str(bounds.relation.option) == "add-remove"


def test_resampling(capsys: pytest.CaptureFixture[str]) -> None:
    pandas = pytest.importorskip("pandas")
    [code] = blocks("resampling.md")
    ages = np.random.default_rng(0).uniform(20, 80, 20_000)
    made = ran(code, "resampling.md", frame=pandas.DataFrame({"age": ages}))
    assert made["result"].privacy.epsilon.upper <= 1
    assert "median" in capsys.readouterr().out


def test_releasing(capsys: pytest.CaptureFixture[str]) -> None:
    pandas = pytest.importorskip("pandas")
    code, medians, model = blocks("releasing.md")
    rng = np.random.default_rng(0)
    people = {
        "sex": rng.choice(["Female", "Male"], 5000),
        "age": rng.integers(0, 95, 5000),
        "hours": rng.uniform(0, 80, 5000),
        "region": rng.choice(["north", "south", "east", "west"], 5000),
    }
    ran(medians, "releasing.md", people=pandas.DataFrame(people))
    assert "chosen by public sizes" in capsys.readouterr().out
    made = ran(code, "releasing.md", people=pandas.DataFrame(people))
    assert made["frame"].shape[0] == 12
    assert 0 <= made["difference"].p_value <= 1
    assert "65+" in capsys.readouterr().out
    ran(model, "releasing.md", people=pandas.DataFrame(people))
    assert "F(2, " in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_training() -> None:
    pytest.importorskip("sklearn")
    model, chains, data = blocks("training.md")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    y = (X[:, 0] > 0).astype(int)
    assert "epsilon=4.0" in model
    quick = model.replace("epsilon=4.0", "noise_multiplier=6.0")  # calibration takes a while
    made = ran(quick, "training.md", X=X, y=y, X_test=X, y_test=y)
    assert 0 < made["model"].privacy_.epsilon.upper < 20
    made = ran(chains.replace("range(64)", "range(4)"), "training.md", **made)
    assert made["chains"].coefficients.shape[0] == 4
    ran(data.splitlines()[0], "training.md", md=made["md"])  # the others need files


def test_no_page_was_forgotten() -> None:
    """A new page with Python in it needs a test."""
    with_code = {path.name for path in DOCS.glob("*.md") if blocks(path.name)}
    assert with_code - ELSEWHERE == {"epochs.md", "releasing.md", "resampling.md", "training.md"}

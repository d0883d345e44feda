"""Settings with known values, and the accountants that are run against them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import mustdp as md
from mustdp.interop import conformance
from tests.cli.running import Run

PAGE = Path(__file__).parents[2] / "docs" / "interop.md"


def test_the_settings_are_in_order() -> None:
    found = conformance.settings()
    assert len({setting["name"] for setting in found}) == len(found) == 25
    for setting in found:
        assert 0 < setting["lower"] <= setting["upper"] < 1.03 * setting["lower"]


@pytest.mark.parametrize("place", range(0, 25, 6))
def test_the_bounds_are_those_of_this_package(place: int) -> None:
    """With one pair per step the bounds of today are no closer, and they must surround as well."""
    setting = conformance.settings()[place]
    bounds = md.account(
        conformance.plan_of(setting), relation=setting["relation"], composition="pair"
    ).epsilon(delta=setting["delta"])
    assert bounds.lower <= setting["upper"]
    assert setting["lower"] <= bounds.upper


def test_verdicts() -> None:
    setting = conformance.settings()[0]
    answers: dict[str, Any] = {
        "too small": 0.99 * setting["lower"],
        "tight": setting["upper"],
        "loose": 2 * setting["upper"],
        "not accepted": None,
    }
    for verdict, answer in answers.items():
        [one] = conformance.judge(lambda _, answer=answer: answer, [setting])  # type: ignore[misc]
        assert one.verdict == verdict
        json.dumps(one.as_dict(), allow_nan=False)
    for answer, verdict in ((math.nan, "failed"), (math.inf, "loose")):
        [one] = conformance.judge(lambda _, answer=answer: answer, [setting])  # type: ignore[misc]
        assert one.verdict == verdict
        json.dumps(one.as_dict(), allow_nan=False)

    def failing(_: Any) -> float:
        raise ZeroDivisionError("by nothing")

    [one] = conformance.judge(failing, [setting])
    assert (one.verdict, one.reason) == ("failed", "ZeroDivisionError: by nothing")


def test_an_accountant_does_not_see_the_answers() -> None:
    def looking(setting: dict[str, Any]) -> float | None:
        assert not {"lower", "upper"} & set(setting)
        return None

    assert {one.verdict for one in conformance.judge(looking)} == {"not accepted"}


@pytest.mark.parametrize(
    "name", ["dp-accounting-pld", "dp-accounting-rdp", "opacus-rdp", "opacus-gdp"]
)
def test_the_table_of_the_page(name: str) -> None:
    pytest.importorskip("dp_accounting")
    pytest.importorskip("opacus")
    [row] = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{name}` |")]
    told = [int(cell) for cell in row.strip("| ").split(" | ")[2:]]
    found = [one.verdict for one in conformance.judge(conformance.accountant_named(name))]
    verdicts = ("too small", "tight", "loose", "not accepted", "failed")
    assert told == [found.count(one) for one in verdicts]


def test_the_command(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "an_accountant_of_ours.py").write_text("def epsilon(setting):\n    return 1e-9\n")
    monkeypatch.syspath_prepend(tmp_path)
    done = run("conformance", "an_accountant_of_ours", "--json")
    assert done.status == 0
    assert json.loads(done.out)["verdicts"]["too small"] == 25
    assert "too small" in run("conformance", "an_accountant_of_ours").out


@pytest.mark.parametrize("name", ["there.is.none", "json"])
def test_modules_that_will_not_do(run: Run, name: str) -> None:
    done = run("conformance", name)
    assert (done.status, done.out) == (2, "")
    assert "epsilon" in done.err


EVENT = ["m", "SelfComposedDpEvent", ["m", "GaussianDpEvent", 3.0], 4]


def test_an_event_on_the_command_line(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(EVENT))
    done = run("account", "--event", str(path), "--delta", "1e-5", "--json")
    found = json.loads(done.out)
    plan = md.repeat(4, md.gaussian(noise_multiplier=3.0))
    bounds = md.account(plan).epsilon(delta=1e-5)
    assert found["epsilon"] == {"lower": bounds.lower, "upper": bounds.upper}
    assert (found["steps"], found["relation"]) == (4, "replace-one")


@pytest.mark.parametrize(
    ("event", "more", "told"),
    [
        (EVENT, ["--steps", "3"], "--steps"),
        (EVENT, ["--scheme", "wor"], "scheme"),
        (EVENT, ["--noise-multiplier", "2"], "noise"),
        (EVENT, ["--method", "paper"], "--method"),
        (["m", "GaussianDpEvent", -1.0], [], "noise"),
        (["m", "NonPrivateDpEvent"], [], "private"),
        (["m", "NoOpDpEvent"], [], "nothing"),
        ({"no": "event"}, [], "class name"),
        (
            ["m", "SampledWithReplacementDpEvent", 10, 5, ["m", "LaplaceDpEvent", 1.0]],
            ["--relation", "replace-one"],
            "Laplace",
        ),
    ],
    ids=str,
)
def test_bad_events_end_in_one_line(
    run: Run, event: object, more: list[str], told: str, tmp_path: Path
) -> None:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event))
    done = run("account", "--event", str(path), "--delta", "1e-5", *more)
    assert (done.status, done.out) == (2, "")
    assert told in done.err
    assert done.err.count("\n") == 1


def test_a_file_that_is_not_there(run: Run) -> None:
    done = run("account", "--event", "/nowhere/event.json", "--delta", "1e-5")
    assert (done.status, done.out) == (2, "")
    assert "--event" in done.err

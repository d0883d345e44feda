"""``mustdp account``: what it answers, by every method."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

import mustdp as md
from tests.cli.running import Run, answer, check_refused

pytestmark = pytest.mark.usefixtures("remembered_accounts")

WOR = "account --scheme wor -n 100 -m 10 --noise-multiplier 4 --steps 10"
POISSON = "account --scheme poisson -n 100 --rate 0.1 --noise-multiplier 4 --steps 10"
NESTED = "account --scheme must-ow -n 100 -b 20 -m 20 --noise-multiplier 10"
PLAN = md.repeat(10, md.subsample(md.wor(100, 10), md.gaussian(noise_multiplier=4.0)))


def test_the_papers_example_lies_between_what_is_attained_and_what_is_certified(run: Run) -> None:
    line = "account --scheme must-ow -n 10000 -b 118 -m 200 --noise-multiplier 4 --steps 1000"
    given = answer(run, f"{line} --epsilon 1")
    assert 0.0378 <= given["delta"]["lower"] <= given["delta"]["upper"] <= 0.0638
    assert (given["relation"], given["shift"], given["steps"]) == ("replace-one", 0.5, 1000)
    assert given["epsilon"] == 1.0
    assert given["attained_by"] == "adaptive: aligned and reversed"
    single = answer(run, f"{line} --epsilon 1 --composition pair")
    assert (single["attained_by"], single["composition"]) == ("aligned", "one pair")
    assert given["delta"]["upper"] < single["delta"]["upper"] <= 0.0645
    attained = answer(run, f"{line} --epsilon 1 --method paper")["delta"]
    assert 1.49e-4 <= attained["attained_lower"] <= attained["attained_upper"] <= 1.55e-4


def test_delta_at_an_epsilon(run: Run) -> None:
    given = answer(run, f"{WOR} --epsilon 0.5")
    bounds = md.account(PLAN).delta(0.5)
    assert given["epsilon"] == 0.5
    assert given["delta"] == {"lower": bounds.lower, "upper": bounds.upper}
    for name in ("attained_by", "direction", "numerical_gap"):
        assert given[name] == getattr(bounds, name)
    assert (given["scheme"], given["method"]) == ("wor", "certified")


def test_epsilon_at_a_delta(run: Run) -> None:
    given = answer(run, f"{WOR} --delta 1e-5")
    bounds = md.account(PLAN).epsilon(1e-5)
    assert given["delta"] == 1e-5
    assert given["epsilon"] == {"lower": bounds.lower, "upper": bounds.upper}


@pytest.mark.parametrize(
    ("line", "relation", "shift", "directions"),
    [
        (WOR, "replace-one", 0.5, {"both"}),
        (f"{WOR} --relation add-remove", "add-remove", 0.5, {"add", "remove"}),
        (POISSON, "add-remove", 0.25, {"add", "remove"}),
        (f"{POISSON} --relation replace-one", "replace-one", 0.5, {"both"}),
    ],
)
def test_relation_and_shift_are_named(
    run: Run, line: str, relation: str, shift: float, directions: set[str]
) -> None:
    given = answer(run, f"{line} --delta 1e-5")
    assert (given["relation"], given["shift"]) == (relation, shift)
    assert given["direction"] in directions
    text = run(*shlex.split(f"{line} --delta 1e-5")).out
    assert f"relation {relation}" in text
    assert f"shift {shift:g} per copy" in text
    words = "one record replaced" if relation == "replace-one" else "one record added or removed"
    assert f"upper: certified, no pair of neighbouring data sets ({words})" in text
    by = (
        "an adversary" if "adaptive" in given["attained_by"] else f"the {given['attained_by']} pair"
    )
    assert f"lower: attained by {by}" in text


@pytest.mark.parametrize("question", ["--epsilon 0.5", "--delta 1e-5"])
def test_the_table_rounds_bounds_outwards(run: Run, question: str) -> None:
    given = answer(run, f"{WOR} {question}")
    bounds = next(given[name] for name in ("delta", "epsilon") if isinstance(given[name], dict))
    _, low, high = run(*shlex.split(f"{WOR} {question}")).out.splitlines()[2].split()
    assert float(low) <= bounds["lower"] <= bounds["upper"] <= float(high)
    assert float(high) - float(low) <= 1.02 * (bounds["upper"] - bounds["lower"]) + 0.01


@pytest.mark.parametrize("method", ["one-slope", "section4"])
@pytest.mark.parametrize("question", ["--epsilon 0.5", "--delta 1e-5"])
def test_one_slope_is_labelled_and_looser(run: Run, question: str, method: str) -> None:
    paper = answer(run, f"{WOR} {question} --method {method}")
    ours = answer(run, f"{WOR} {question}")
    name = "delta" if question.startswith("--epsilon") else "epsilon"
    assert paper["method"] == method
    assert "arXiv 2312.13389, Theorem 4" in paper["theorem"]
    assert set(paper[name]) == {"lower", "upper"}
    assert paper[name]["upper"] > ours[name]["upper"]
    assert paper[name]["lower"] <= ours[name]["upper"]
    text = run(*shlex.split(f"{WOR} {question} --method {method}")).out
    assert "Theorem 4, composed" in text
    assert "upper: certified" not in text


@pytest.mark.parametrize(
    ("line", "relation", "pair"),
    [(WOR, "replace-one", "symmetric"), (POISSON, "add-remove", "aligned")],
)
@pytest.mark.parametrize("question", ["--epsilon 0.5", "--delta 1e-5"])
def test_the_papers_composition_is_attained_and_no_more(
    run: Run, line: str, relation: str, pair: str, question: str
) -> None:
    given = answer(run, f"{line} {question} --method paper")
    name = "delta" if question.startswith("--epsilon") else "epsilon"
    assert set(given[name]) == {"attained_lower", "attained_upper"}
    assert 0 < given[name]["attained_lower"] <= given[name]["attained_upper"]
    assert (given["relation"], given["steps"], given["attained_by"]) == (relation, 10, pair)
    certified = answer(run, f"{line} {question}")[name]["upper"]
    assert given[name]["attained_lower"] <= certified
    outcome = run(*shlex.split(f"{line} {question} --method paper"))
    for text in (outcome.out, str(given)):
        assert "guarantee" not in text
        assert "certified," not in text
    assert "Other neighbouring data sets may lose more" in outcome.out


def test_the_papers_composition_is_the_packages(run: Run) -> None:
    found: Any = md.account(PLAN, method="paper").delta(0.5)
    given = answer(run, f"{WOR} --epsilon 0.5 --method paper")
    assert given["delta"] == {
        "attained_lower": found.attained_lower,
        "attained_upper": found.attained_upper,
    }


def test_a_reused_subset_is_nested(run: Run) -> None:
    noise = md.gaussian(noise_multiplier=10.0)
    inner = md.repeat(4, md.subsample(md.wr(20, 20), noise))
    bounds = md.account(md.repeat(3, md.subsample(md.wor(100, 20), inner))).delta(0.5)
    given = answer(run, f"{NESTED} --steps 3 --reuse 4 --epsilon 0.5")
    assert given["delta"] == {"lower": bounds.lower, "upper": bounds.upper}
    assert (given["steps"], given["reuse"], given["shift"]) == (3, 4, 0.2)
    fresh = answer(run, f"{NESTED} --steps 12 --epsilon 0.5")
    assert given["delta"]["lower"] > fresh["delta"]["upper"]  # reusing a subset costs more


def test_a_subset_used_once_is_not_reused(run: Run) -> None:
    once = answer(run, f"{NESTED} --steps 3 --reuse 1 --epsilon 0.5")
    plain = answer(run, f"{NESTED} --steps 3 --epsilon 0.5")
    assert once.pop("reuse") == 1
    assert once == plain


def test_only_the_last_of_three_stages_is_reused(run: Run) -> None:
    line = "account -n 60 --stages wor:30,wr:20,wr:10 --noise-multiplier 10 --steps 2 --reuse 3"
    inner = md.repeat(3, md.subsample(md.wr(20, 10), md.gaussian(noise_multiplier=10.0)))
    outer = md.multistage(60, [("wor", 30), ("wr", 20)])
    bounds = md.account(md.repeat(2, md.subsample(outer, inner))).epsilon(1e-3)
    given = answer(run, f"{line} --delta 1e-3")
    assert given["epsilon"] == {"lower": bounds.lower, "upper": bounds.upper}


def test_a_record_that_is_never_drawn_costs_nothing(run: Run) -> None:
    line = "account --scheme poisson -n 10 --rate 0 --shift 1 --steps 1"
    assert answer(run, f"{line} --epsilon 0.5")["delta"]["lower"] == 0.0
    assert "no pair of data sets" in run(*shlex.split(f"{line} --epsilon 0.5")).out


@pytest.mark.parametrize("json", [[], ["--json"]])
def test_an_infinite_epsilon_is_no_answer(run: Run, json: list[str]) -> None:
    line = "account --scheme wr -n 10 -m 10 --shift 50 --steps 1 --delta 1e-5"
    outcome = run(*shlex.split(line), *json)
    assert (outcome.status, outcome.out) == (3, "")
    assert "epsilon has no finite upper bound at --delta 1e-05" in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (f"{POISSON} --relation replace-one --method section4", ("--method one-slope", "poisson")),
        (f"{WOR} --relation add-remove --method section4", ("--method one-slope", "add-remove")),
        (f"{WOR} --relation add-remove --method paper", ("--method paper", "must be replace-one")),
        (f"{POISSON} --relation replace-one --method paper", ("--method paper", "add-remove")),
        (f"{WOR} --mechanism laplace --method paper", ("--method paper", "Gaussian")),
        (
            f"{NESTED} --steps 2 --reuse 2 --relation add-remove",
            ("--relation must be replace-one for a subset", "got add-remove"),
        ),
        (f"{NESTED} --steps 2 --reuse 2 --method section4", ("--reuse 2", "--method section4")),
        (f"{NESTED} --steps 2 --reuse 2 --method paper", ("--reuse 2", "--method paper")),
    ],
)
def test_what_no_theorem_covers_is_refused(run: Run, line: str, named: tuple[str, ...]) -> None:
    check_refused(run(*shlex.split(f"{line} --epsilon 1")), *named)


def test_a_family_of_pairs_unless_one_is_asked_for(run: Run) -> None:
    line = "account --scheme wor -n 60000 -m 2000 --noise-multiplier 3.117 --steps 300 --delta 1e-5"
    pair, family, line_only = (
        json.loads(run(*f"{line} {more} --json".split()).out)
        for more in ("--composition pair", "", "--dimension 1")
    )
    assert (pair["composition"], family["composition"]) == ("one pair", "exact-family")
    assert pair["epsilon"]["lower"] <= family["epsilon"]["lower"]
    assert family["epsilon"]["upper"] < 1.77 < 1.99 < pair["epsilon"]["upper"]
    assert line_only["dimension"] == 1
    assert line_only["epsilon"]["upper"] <= 1.005 * line_only["epsilon"]["lower"]
    paper = run(*f"{line} --composition family --method paper".split())
    check_refused(paper, "--composition family")

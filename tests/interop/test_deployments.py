"""Published deployments, and plans in the schema of their registry."""

from __future__ import annotations

import doctest
import json
import math
import runpy
from pathlib import Path
from typing import Any

import pytest

import mustdp as md
from tests.cli.running import Run

yaml = pytest.importorskip("yaml")

from mustdp.interop.deployments import (
    Deployment,
    deployments,
    read_deployment,
    to_deployment,
)

#: Epsilons of the literature, as it converts: rho by Canonne, Kamath & Steinke 2020, Gaussian noise
#: exactly (computed with scipy by another route below), pure guarantees added up.
PUBLISHED = {
    ("wikimedia-pageviews", "a day, continuous noise"): 0.7997,
    ("facebook-urls", "all actions of a user"): 1.452,
    ("gboard-spanish", "one model, as Gaussian noise"): 8.549,
    ("census-redistricting", "persons, continuous noise"): 16.479,
    ("census-redistricting", "housing units, continuous noise"): 2.280,
    ("census-dhc", "persons, continuous noise"): 24.450,
    ("census-dhc", "housing units, continuous noise"): 32.071,
    ("google-mobility", "a day"): 2.64,
    ("spectus-hurricane", "all measures"): 10.0,
    ("microsoft-broadband", "both sources"): 0.2,
    ("wikimedia-russian-editors", "a month"): 0.1,
    ("recurve-ohmconnect", "on the sample"): math.log1p(0.124 * math.expm1(6.474)),
}


def test_the_figures() -> None:
    found = {
        (short, release.name): release.epsilon()
        for short, one in deployments().items()
        for release in one.releases
    }
    assert len(deployments()) == 11
    for key, epsilon in PUBLISHED.items():
        assert found[key].upper == pytest.approx(epsilon, rel=1e-3), key
        assert found[key].upper >= found[key].lower
    assert found["linkedin-hiring", "a month"].lower == pytest.approx(4.8, rel=1e-6)


@pytest.mark.parametrize("short", deployments())
def test_rho_alone_is_converted_as_the_literature_does(short: str) -> None:
    import numpy as np

    a = 1 + np.geomspace(1e-3, 1e4, 100_001)
    for release in deployments()[short].releases:
        described: Any = release.plan
        if getattr(described, "name", "") != "zcdp":
            continue
        rho, delta = described.rho, release.delta
        assert delta is not None
        best = np.min(a * rho + np.log(1 / (a * delta)) / (a - 1) + np.log1p(-1 / a))
        assert best <= release.epsilon().upper <= best * 1.001
        assert release.epsilon().lower == 0


def test_what_was_sampled_covers_what_was_composed() -> None:
    before, sampled = deployments()["recurve-ohmconnect"].releases
    inner: Any = sampled.plan
    assert before.epsilon().upper <= inner.inner.mechanism_epsilon
    assert before.delta == inner.inner.mechanism_delta
    # The Gaussian part is what the analytic mechanism adds for (4, 4.08e-8).
    noise: Any = before.plan
    alone = md.account(noise.parts[2]).delta(4.0)
    assert alone.upper == pytest.approx(4.08e-8, rel=1e-6)


BASIC = {
    "name", "data_curators", "intended_use", "data_product_type", "data_product_region",
    "description", "publication_date",
}  # fmt: skip
#: The fields of the registry's schema, which allows no others.
SCHEMA: dict[str, set[str]] = {
    "basic": BASIC | {"data_product_sector"},
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {
        "privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details",
    },
    "deployment_model": {
        "model_name", "model_name_details", "actors", "release_type", "release_type_details",
        "data_source_type", "data_source_type_details", "access_type", "access_type_details",
    },
    "accounting": {"post_processing", "composition"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
    "administrative": {"sources", "notes", "registry_authors"},
}  # fmt: skip
VARIANTS = {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"}


def follows_the_schema(text: str) -> None:
    found = yaml.safe_load(text)
    assert set(found) == {"url_slug", "status", "tier", "deployment"}
    assert (found["status"], found["tier"] in (1, 2, 3)) == ("Draft", True)
    inside = found["deployment"]
    assert set(inside) <= set(SCHEMA)
    for name, fields in inside.items():
        assert set(fields) <= SCHEMA[name]
    assert set(inside["basic"]) >= BASIC
    assert inside["dp_variant"]["variant_name"] in VARIANTS
    assert set(inside["privacy_loss"]["privacy_parameters"]) <= {"epsilon", "delta", "rho"}
    assert isinstance(inside["basic"]["publication_date"], str)
    assert len(inside["administrative"]["registry_authors"]) == 1


def test_shipped_files_follow_the_schema() -> None:
    from importlib.resources import files

    folder = files("mustdp.interop").joinpath("registry")
    for path in folder.iterdir():
        follows_the_schema(path.read_text(encoding="utf-8"))


PLANS = [
    md.gaussian(noise_multiplier=2.0),
    md.repeat(3, md.subsample(md.must_ow(1000, 100, 20), md.gaussian(noise_multiplier=4.0))),
    md.sequence(md.zcdp(1e-10), md.discrete_laplace(scale=3.0, sensitivity=2)),
    md.subsample(md.random_allocation(100, 5), md.gaussian(noise_multiplier=4.0)),
]


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_there_and_back(plan: Any) -> None:
    text = to_deployment(plan, name="A release: of 'sorts'", delta=1e-5, curator="An office")
    follows_the_schema(text)
    one = read_deployment(text)
    [release] = one.releases
    assert (one.name, one.curators) == ("A release: of 'sorts'", ("An office",))
    assert (release.plan, release.delta) == (plan, 1e-5)
    again = md.account(plan).epsilon(delta=1e-5)
    assert release.epsilon() == again
    assert release.published is not None
    assert again.upper <= release.published <= again.upper * (1 + 1e-4)


def test_pure_plans_have_no_delta() -> None:
    text = to_deployment(md.laplace(noise_multiplier=2.0), name="x", delta=0, relation="add_remove")
    follows_the_schema(text)
    parameters = yaml.safe_load(text)["deployment"]["privacy_loss"]["privacy_parameters"]
    assert parameters == {"epsilon": 0.5}


def stated(**parameters: Any) -> Deployment:
    inside = {"basic": {"name": "x"}, "privacy_loss": {"privacy_parameters": parameters}}
    return read_deployment(json.dumps({"url_slug": "x", "deployment": inside}))


def test_files_without_a_plan_are_read_by_their_parameters() -> None:
    assert stated(rho=0.5).releases[0].plan == md.zcdp(0.5)
    assert stated(epsilon=2).releases[0].plan == md.pure_dp(2.0)
    both = stated(epsilon=2, delta="1e-7").releases[0]
    assert (both.plan, both.delta, both.published) == (md.approximate_dp(2.0, 1e-7), 1e-7, 2.0)
    with pytest.raises(md.InvalidParameter, match="delta must be given"):
        stated(rho=0.5).releases[0].epsilon()


BLOCK = "deployment: {basic: {name: x}, accounting: {composition: %s}}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1, 2]", "mapping"),
        ("deployment: 3", "mapping"),
        ("{", "YAML"),
        ("a: &a [1]\nb: *a", "references"),
        ("deployment: {basic: {name: x}}", "rho or epsilon"),
        ("deployment: {basic: {name: x}, privacy_loss: {privacy_parameters: {rho: .nan}}}", "rho"),
        (
            "deployment: {basic: {}, privacy_loss: {privacy_parameters: {epsilon: 1, delta: n}}}",
            "delta",
        ),
        (BLOCK % json.dumps("```yaml\nmustdp:\n  - {name: x}\n```\n"), "plan"),
        (BLOCK % json.dumps("```yaml\nmustdp:\n  - 3\n```\n"), "mapping"),
        (BLOCK % json.dumps("```yaml\nmustdp:\n  plan: 3\n```\n"), "list"),
        (BLOCK % json.dumps("```yaml\nmustdp:\n  - {plan: {mechanism: odd}}\n```\n"), "mechanism"),
        ("x" * 2**20 + "x", "bytes"),
        ("[" * 500, "YAML"),
        ("!!python/object/apply:os.system ['true']", "YAML"),
    ],
    ids=lambda text: str(text)[:40],
)
def test_bad_files(text: str, told: str, run: Run, tmp_path: Path) -> None:
    with pytest.raises(md.InvalidParameter, match=told):
        read_deployment(text)
    path = tmp_path / "deployment.yaml"
    path.write_text(text)
    done = run("deployments", str(path), "--delta", "1e-5")
    assert (done.status, done.out) == (2, "")
    assert done.err.count("\n") == 1


def test_the_command(run: Run, tmp_path: Path) -> None:
    listed = json.loads(run("deployments", "--json").out)["deployments"]
    assert {one["deployment"] for one in listed} == set(deployments())
    [one] = [row for row in listed if row["release"] == "a day, continuous noise"]
    assert one["epsilon"]["upper"] == pytest.approx(0.79975, rel=1e-4)
    assert (one["published"], one["delta"], one["relation"]) == (1.0, 1e-7, "add-remove")
    shown = run("deployments", "recurve-ohmconnect").out
    for words in ("4.397", "4.398", "6.8", "registry", "rounded up to 6.474"):
        assert words in shown
    path = tmp_path / "ours.yaml"
    path.write_text(to_deployment(md.zcdp(0.1), name="Ours", delta=1e-6))
    [row] = json.loads(run("deployments", str(path), "--json").out)["deployments"]
    assert row["name"] == "Ours"
    [other] = json.loads(run("deployments", str(path), "--delta", "1e-9", "--json").out)[
        "deployments"
    ]
    assert other["epsilon"]["upper"] > row["epsilon"]["upper"]


@pytest.mark.parametrize("name", ["nobody", "/nowhere/file.yaml"])
def test_names_that_are_not_known(run: Run, name: str) -> None:
    done = run("deployments", name)
    assert (done.status, done.out) == (2, "")
    assert "NAME" in done.err


PAGE = Path(__file__).parents[2] / "docs" / "deployments.md"


def test_the_page() -> None:
    done = doctest.testfile(str(PAGE), module_relative=False)
    assert (done.attempted >= 6, done.failed) == (True, 0)
    tables = runpy.run_path(str(PAGE.with_name("accountants.py")))
    text = PAGE.read_text(encoding="utf-8")
    assert text == tables["written"](text, "deployments", tables["deployments"]())

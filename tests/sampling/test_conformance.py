"""Every registered scheme keeps the contract; schemes that break it are found out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

import mustdp as md
from mustdp.accounting.plan import describe, plan_from_description
from mustdp.calibration.compare import schemes_of
from mustdp.errors import Contradiction
from mustdp.sampling.catalogue import CATALOGUE, EPOCHS, SIZES, RegisteredScheme
from mustdp.sampling.epochs import Sampling, epoch_from_description
from mustdp.sampling.schemes import scheme_from_description
from mustdp.types import Batch, Epoch, MultiplicityLaw, Scheme
from tests.cli.running import Run, answer, check_refused, runner

ENTRIES = (*CATALOGUE, *EPOCHS.values())
#: Values of sizes at which every scheme exists.
EXAMPLE: dict[str, Any] = {"n": 12, "b": 8, "m": 5, "rate": 0.4, "bins": 3, "cap": 6}
#: Level of the statistical tests, and the number of draws.
LEVEL, DRAWS = 1e-6, 4000
FLAGS = {name: size.flag for name, size in SIZES.items()} | {"bins": "--bins"}
entries = pytest.mark.parametrize("entry", [pytest.param(one, id=one.name) for one in ENTRIES])


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def example(entry: RegisteredScheme) -> dict[str, Any]:
    return {name: EXAMPLE[name] for name in entry.sizes}


def typed(entry: RegisteredScheme) -> str:
    sizes = " ".join(f"{FLAGS[name]} {value}" for name, value in example(entry).items())
    return f"--scheme {entry.name} {sizes}"


def check_law(scheme: Sampling) -> None:
    """The law adds up to one, and what it says of eta and of the size holds."""
    if isinstance(scheme, Epoch):
        assert scheme.eta == pytest.approx(scheme.expected_size / scheme.n)
        return
    for group in (1, 3):
        law = scheme.law(group)
        assert law.probabilities.sum() + law.cut == pytest.approx(1.0, abs=1e-12)
        assert law.mean == pytest.approx(group * scheme.expected_size / scheme.n, rel=1e-9)
    assert scheme.eta == pytest.approx(1.0 - scheme.multiplicity()[0], rel=1e-12)


def check_draws(scheme: Sampling) -> None:
    """What is drawn has the law that is charged: the copies of one record, counted."""
    rng = np.random.default_rng(20)
    seen: list[int] = []
    for _ in range(DRAWS):
        drawn = scheme.draw(rng)
        batch = drawn[0] if isinstance(drawn, tuple) else drawn
        if scheme.fixed_size:
            assert batch.size == round(scheme.expected_size)
        seen.append(int(batch.counts[batch.indices == 3].sum()))
    if isinstance(scheme, Epoch):
        law = np.array([1.0 - scheme.eta, scheme.eta])
    else:
        law = scheme.multiplicity()
    for copies, chance in enumerate(law):
        count = seen.count(copies)
        assert stats.binomtest(count, DRAWS, min(1.0, float(chance))).pvalue > LEVEL, copies
    assert max(seen) < law.size


def check_description(scheme: Sampling) -> None:
    """It can be written and read back, by itself and in a plan, an epoch that ends early too."""
    read: Callable[[object], Sampling] = (
        epoch_from_description if isinstance(scheme, Epoch) else scheme_from_description
    )
    several = [scheme, scheme.first(2)] if isinstance(scheme, Epoch) else [scheme]
    for one in several:
        assert read(json.loads(json.dumps(one.describe()))) == one
        plan = md.subsample(one, md.gaussian(noise_multiplier=2.0))
        assert plan_from_description(json.loads(json.dumps(describe(plan)))) == plan


def check_accounts(scheme: Sampling) -> None:
    """Both relations are answered, lower below upper, and no draw costs more than all records."""
    noise = md.gaussian(noise_multiplier=2.0)
    for relation, whole in (("replace_one", 1.0), ("add_remove", 1.0)):
        found = md.account(md.subsample(scheme, noise), relation=relation).delta(0.1)
        copies = 1 if isinstance(scheme, Epoch) else scheme.multiplicity().size - 1
        worst = md.account(md.repeat(1, md.gaussian(shift=copies * whole))).delta(0.1).upper
        assert 0.0 < found.lower <= found.upper <= worst * (1.0 + 1e-9)


CHECKS = (check_law, check_draws, check_description, check_accounts)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@entries
def test_registered_schemes_conform(
    entry: RegisteredScheme, check: Callable[[Sampling], None]
) -> None:
    check(entry.build(**example(entry)))


@entries
def test_every_scheme_is_registered_as_a_public_name(entry: RegisteredScheme) -> None:
    made = getattr(md, entry.function or entry.name.replace("-", "_"))(**example(entry))
    assert made == entry.build(**example(entry))
    assert made.name == entry.name
    assert isinstance(made, Epoch) == entry.epoch
    assert made.fixed_size != entry.random_size
    if entry.stages:
        assert [stage.kind for stage in made.stages] == list(entry.stages)


@entries
def test_bad_sizes_are_refused_by_name(entry: RegisteredScheme) -> None:
    for name in entry.sizes:
        for value in (float("nan"), float("inf"), -1, "1", None, [1], 1.5):
            with pytest.raises(md.InvalidParameter, match=rf"\b{name}\b"):
                entry.build(**{**example(entry), name: value})


@entries
def test_the_command_line_takes_every_scheme(entry: RegisteredScheme, run: Run) -> None:
    drawn = run("draw", *typed(entry).split(), "--seed", "1", "--json")
    assert drawn.status == 0
    assert json.loads(drawn.out)
    count = "--epochs 2" if entry.epoch else "--steps 2"
    found = answer(run, f"account {typed(entry)} --noise-multiplier 2 {count} --delta 1e-3")
    assert found["scheme"] == entry.name
    for name, value in example(entry).items():
        if name in found:
            assert found[name] == value


@entries
def test_the_command_line_refuses_what_does_not_fit(entry: RegisteredScheme, run: Run) -> None:
    rest = "--noise-multiplier 2 --steps 2 --delta 1e-3"
    for name in entry.sizes:
        left = [word for one, value in example(entry).items() if one != name
                for word in (FLAGS[one], str(value))]  # fmt: skip
        refused = run("account", "--scheme", entry.name, *left, *rest.split())
        check_refused(refused, FLAGS[name])
    for name, size in SIZES.items():
        if name not in entry.sizes and not (entry.epoch and name == "m"):
            refused = run("account", *typed(entry).split(), size.flag, "1", *rest.split())
            check_refused(refused, size.flag, entry.name)


def test_a_comparison_has_every_scheme_that_exists_for_its_sizes() -> None:
    assert [one.name for one in schemes_of(12, 8, 5)] == [
        one.name for one in CATALOGUE if one.compared
    ]
    few = {one.name for one in CATALOGUE if one.compared and (one.largest_batch(12, 8) or 20) >= 20}
    assert {one.name for one in schemes_of(12, 8, 20)} == few


@dataclass(frozen=True)
class Understated(md.types.Poisson):
    """Draws twice as often as it is charged for."""

    def draw(self, rng: np.random.Generator | None = None) -> Batch:
        return md.poisson(self.n, min(1.0, 2.0 * self.rate)).draw(rng)


@dataclass(frozen=True)
class Leaking(md.types.Poisson):
    """A law that forgets some mass."""

    def law(self, group: int = 1, tail: float = 0.0) -> MultiplicityLaw:
        whole = super().law(group)
        return MultiplicityLaw(0, 0.9 * whole.probabilities, 0.0, whole.relative_error)


@dataclass(frozen=True)
class Renamed(md.types.Poisson):
    """Another scheme under a registered name."""


@pytest.mark.parametrize(
    "broken", [Understated(12, 0.3), Leaking(12, 0.3), Renamed(12, 0.3)],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
def test_a_broken_scheme_is_found_out(broken: Scheme) -> None:
    failed = []
    for check in CHECKS:
        try:
            check(broken)
        except (AssertionError, Contradiction):
            failed.append(check.__name__)
    assert failed

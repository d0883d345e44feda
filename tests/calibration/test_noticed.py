"""What a search returns was itself accounted for, under the relation that was asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import mustdp as md
from mustdp.calibration import compare as compare_module
from mustdp.calibration import noise as noise_module
from mustdp.calibration import sizes
from mustdp.calibration.compare import compare

SCHEME = md.wor(100, 10)
NOISE = md.gaussian(noise_multiplier=4.0)


def test_too_little_noise_is_never_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the search were wrong, the account of its result would still object."""
    monkeypatch.setattr(noise_module, "smallest_noise", lambda spent, target: 0.7)
    with pytest.raises(md.NumericalFailure, match="its account says"):
        md.calibrate(SCHEME, epsilon=1.0, delta=1e-5, steps=20)


@pytest.mark.parametrize("search", ["noise", "steps"])
def test_a_bound_just_over_the_target_is_not_let_through(
    monkeypatch: pytest.MonkeyPatch, search: str
) -> None:
    """A search that believes in 1 % less than the truth ends a little over the target."""
    certified, both = md.Account.certified_epsilon, md.Account.epsilon
    settled: list[md.Account] = []

    def flattering(self: md.Account, delta: float, accuracy: float | None = None) -> float:
        return certified(self, delta, accuracy) * (1.0 if self in settled else 0.99)

    def honest(self: md.Account, delta: float) -> md.Bounds:
        settled.append(self)
        return both(self, delta)

    monkeypatch.setattr(md.Account, "certified_epsilon", flattering)
    monkeypatch.setattr(md.Account, "epsilon", honest)
    searches: dict[str, Callable[[], object]] = {
        "noise": lambda: md.calibrate(SCHEME, epsilon=1.0, delta=1e-5, steps=200),
        "steps": lambda: md.most_steps(SCHEME, NOISE, epsilon=1.0, delta=1e-5),
    }
    with pytest.raises(md.NumericalFailure, match="its account says"):
        searches[search]()
    assert settled


def test_noise_that_cannot_be_certified_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    certified = md.Account.certified_epsilon

    def fails(self: md.Account, delta: float, accuracy: float | None = None) -> float:
        if self.shift is not None and self.shift > 2.0 / 9.0:
            raise md.NumericalFailure("too little noise")
        return certified(self, delta, accuracy)

    monkeypatch.setattr(md.Account, "certified_epsilon", fails)
    found = md.calibrate(SCHEME, epsilon=20.0, delta=1e-5, steps=5)
    assert 9.0 <= found.noise_multiplier <= 9.0 * (1 + 1e-6)


def epsilon_of(scheme: md.Scheme, noise: float, relation: str) -> md.Bounds:
    plan = md.repeat(2, md.subsample(scheme, md.gaussian(noise_multiplier=noise)))
    return md.account(plan, relation=relation).epsilon(1e-5)


@pytest.mark.parametrize("relation", [None, "add_remove"])
def test_rows_of_a_comparison_are_accounts_under_one_relation(relation: str | None) -> None:
    if relation is None:
        table = compare(n=12, b=6, m=3, delta=1e-5, steps=2, noise_multiplier=6.0)
    else:
        table = compare(
            n=12, b=6, m=3, delta=1e-5, steps=2, noise_multiplier=6.0, relation=relation
        )
    assert table.relation == (relation or "replace_one")
    assert len({row.scheme.name for row in table}) == len(table) == 7
    for row in table:
        assert row.noise_multiplier == 6.0
        assert row.epsilon == epsilon_of(row.scheme, 6.0, table.relation)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_every_row_of_a_comparison_has_the_same_target(
    monkeypatch: pytest.MonkeyPatch, relation: str
) -> None:
    asked: list[dict[str, object]] = []

    def spy(scheme: md.Scheme, **target: object) -> md.Calibration:
        asked.append({"scheme": scheme, **target})
        plan = md.repeat(2, md.subsample(scheme, NOISE))
        return md.Calibration(plan, NOISE, "replace_one", md.Bounds(0.5, 1.0), 1e-5, scheme, 2)

    monkeypatch.setattr(compare_module, "calibrate", spy)
    compare(n=12, b=6, m=3, delta=1e-5, steps=2, epsilon=1.0, relation=relation)
    assert len(asked) == 5  # must-wo and must-oo have the laws of wr and wor
    for target in asked:
        assert target["relation"] == relation
        assert (target["epsilon"], target["delta"], target["steps"]) == (1.0, 1e-5, 2)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("search", ["most_steps", "largest_batch", "smallest_first_stage"])
def test_sizes_are_searched_under_the_relation_asked_for(
    monkeypatch: pytest.MonkeyPatch, search: str, relation: str
) -> None:
    asked: list[str | None] = []

    def spy(plan: md.Plan, *, relation: str | None = None) -> md.Account:
        asked.append(relation)
        return md.account(plan, relation=relation, accuracy=0.05)

    monkeypatch.setattr(sizes, "account", spy)
    target = {"epsilon": 4.0, "delta": 1e-4, "relation": relation}
    if search == "most_steps":
        md.most_steps(SCHEME, NOISE, **target)  # type: ignore[arg-type]
    elif search == "largest_batch":
        md.largest_batch("wr", NOISE, n=10, steps=2, **target)  # type: ignore[arg-type]
    else:
        md.smallest_first_stage("must-ow", NOISE, n=9, m=3, steps=2, **target)  # type: ignore[arg-type]
    assert asked
    assert set(asked) == {relation}

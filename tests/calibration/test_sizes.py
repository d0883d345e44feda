"""The largest size that fits a budget: it fits, and its neighbour does not."""

from __future__ import annotations

import pytest

import mustdp as md
from mustdp.calibration import sizes
from mustdp.sampling.naming import scheme_by_name

NOISE = md.gaussian(noise_multiplier=4.0)
SCHEME = md.wor(100, 10)


def certified(
    scheme: md.Scheme, steps: int, relation: str | None, mechanism: md.Mechanism = NOISE
) -> float:
    plan = md.repeat(steps, md.subsample(scheme, mechanism))
    return md.account(plan, relation=relation).certified_epsilon(1e-5)


@pytest.mark.parametrize(
    ("scheme", "relation"),
    [(md.poisson(500, 0.05), None), (md.wor(500, 25), "add_remove"), (md.wr(500, 25), None)],
)
def test_most_steps(scheme: md.Scheme, relation: str | None) -> None:
    found = md.most_steps(scheme, NOISE, epsilon=1.0, delta=1e-5, relation=relation)
    assert found.epsilon.lower <= found.epsilon.upper <= 1.0
    assert certified(scheme, found.value, relation) <= 1.0
    assert certified(scheme, found.value + 1, relation) > 1.0


@pytest.mark.parametrize(
    ("name", "b", "relation"),
    [
        ("poisson", None, None),
        ("wor", None, None),
        ("wr", None, "add_remove"),
        ("must-ow", 60, None),
    ],
)
def test_largest_batch(name: str, b: int | None, relation: str | None) -> None:
    found = md.largest_batch(
        name, NOISE, n=300, b=b, epsilon=1.0, delta=1e-5, steps=20, relation=relation
    )
    assert found.epsilon.upper <= 1.0
    fits, over = (scheme_by_name(name, n=300, b=b, m=m) for m in (found.value, found.value + 1))
    assert certified(fits, 20, relation) <= 1.0
    assert certified(over, 20, relation) > 1.0


def test_everything_fits() -> None:
    found = md.largest_batch(
        "wor", md.gaussian(noise_multiplier=100.0), n=50, epsilon=1.0, delta=1e-5, steps=5
    )
    assert found.value == 50


@pytest.mark.parametrize("name", ["must-ow", pytest.param("must-ww", marks=pytest.mark.slow)])
def test_smallest_first_stage(name: str) -> None:
    found = md.smallest_first_stage(name, NOISE, n=40, m=10, epsilon=3.0, delta=1e-5, steps=8)
    assert found.epsilon.upper <= 3.0
    assert 1 < found.value <= 40
    fits, over = (scheme_by_name(name, n=40, b=b, m=10) for b in (found.value, found.value - 1))
    assert certified(fits, 8, None) <= 3.0
    assert certified(over, 8, None) > 3.0


def test_nothing_fits() -> None:
    with pytest.raises(md.InvalidParameter, match="epsilon must be"):
        md.most_steps(md.wor(10, 9), md.gaussian(noise_multiplier=0.5), epsilon=0.1, delta=1e-5)


def test_what_cannot_be_certified_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure of the account counts as over the budget; it never lets a size through."""
    scheme = md.wor(500, 25)
    honest = md.most_steps(scheme, NOISE, epsilon=1.0, delta=1e-5)
    answer = md.Account.certified_epsilon

    def fails(self: md.Account, delta: float, accuracy: float | None = None) -> float:
        if self.steps > honest.value // 2:
            raise md.NumericalFailure("too many")
        return answer(self, delta, accuracy)

    monkeypatch.setattr(md.Account, "certified_epsilon", fails)
    found = md.most_steps(scheme, NOISE, epsilon=1.0, delta=1e-5)
    assert found.value == honest.value // 2


@pytest.mark.parametrize(
    ("epsilon", "delta", "named"),
    [(0.0, 1e-5, "epsilon"), (float("nan"), 1e-5, "epsilon"), (1.0, 0.0, "delta"), (1, 1, "delta")],
)
def test_bad_targets(epsilon: float, delta: float, named: str) -> None:
    with pytest.raises(md.InvalidParameter, match=named):
        md.most_steps(md.wor(10, 1), NOISE, epsilon=epsilon, delta=delta)
    with pytest.raises(md.InvalidParameter, match=named):
        md.largest_batch("wor", NOISE, n=10, steps=3, epsilon=epsilon, delta=delta)


def test_bad_names_and_sizes() -> None:
    for name in ("wor", "must-oo", "nothing"):
        with pytest.raises(md.InvalidParameter):
            md.smallest_first_stage(name, NOISE, n=20, m=5, epsilon=1.0, delta=1e-5, steps=3)
    with pytest.raises(md.InvalidParameter, match="b must be given"):
        md.largest_batch("must-ow", NOISE, n=20, epsilon=1.0, delta=1e-5, steps=3)
    with pytest.raises(md.InvalidParameter, match="steps"):
        md.largest_batch("wor", NOISE, n=20, epsilon=1.0, delta=1e-5, steps=0)


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

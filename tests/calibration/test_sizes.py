"""The largest size that fits a budget: it fits, and its neighbour does not."""

from __future__ import annotations

from typing import Any

import pytest

import mustdp as md
from tests.seams import scheme_by_name, watch_accounts_of_search

NOISE = md.gaussian(noise_multiplier=4.0)
SCHEME = md.wor(100, 10)


def certified(
    scheme: md.types.Scheme, steps: int, relation: str | None, mechanism: md.types.Mechanism = NOISE
) -> float:
    plan = md.repeat(steps, md.subsample(scheme, mechanism))
    return md.account(plan, relation=relation).epsilon(1e-5).upper


@pytest.mark.parametrize(
    ("scheme", "relation"),
    [(md.poisson(500, 0.05), None), (md.wor(500, 25), "add_remove"), (md.wr(500, 25), None)],
)
def test_most_steps(scheme: md.types.Scheme, relation: str | None) -> None:
    found = md.calibration.most_steps(
        scheme, mechanism=NOISE, epsilon=1.0, delta=1e-5, relation=relation
    )
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
    found = md.calibration.largest_batch(
        name, mechanism=NOISE, n=300, b=b, epsilon=1.0, delta=1e-5, steps=20, relation=relation
    )
    assert found.epsilon.upper <= 1.0
    fits, over = (scheme_by_name(name, n=300, b=b, m=m) for m in (found.value, found.value + 1))
    assert certified(fits, 20, relation) <= 1.0
    assert certified(over, 20, relation) > 1.0


def test_everything_fits() -> None:
    found = md.calibration.largest_batch(
        "wor", mechanism=md.gaussian(noise_multiplier=100.0), n=50, epsilon=1.0, delta=1e-5, steps=5
    )
    assert found.value == 50


@pytest.mark.parametrize("name", ["must-ow", pytest.param("must-ww", marks=pytest.mark.slow)])
def test_smallest_first_stage(name: str) -> None:
    found = md.calibration.smallest_first_stage(
        name, mechanism=NOISE, n=40, m=10, epsilon=3.0, delta=1e-5, steps=8
    )
    assert found.epsilon.upper <= 3.0
    assert 1 < found.value <= 40
    fits, over = (scheme_by_name(name, n=40, b=b, m=10) for b in (found.value, found.value - 1))
    assert certified(fits, 8, None) <= 3.0
    assert certified(over, 8, None) > 3.0


def test_nothing_fits() -> None:
    with pytest.raises(md.InvalidParameter, match="epsilon must be"):
        md.calibration.most_steps(
            md.wor(10, 9), mechanism=md.gaussian(noise_multiplier=0.5), epsilon=0.1, delta=1e-5
        )


def test_what_cannot_be_certified_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure of the account counts as over the budget; it never lets a size through."""
    scheme = md.wor(500, 25)
    honest = md.calibration.most_steps(scheme, mechanism=NOISE, epsilon=1.0, delta=1e-5)
    for name in ("certified_epsilon", "epsilon"):
        answer = getattr(md.types.Account, name)

        def fails(self: md.types.Account, *given: float, answer: Any = answer) -> object:
            if self.steps > honest.value // 2:
                raise md.NumericalFailure("too many")
            return answer(self, *given)

        monkeypatch.setattr(md.types.Account, name, fails)
    found = md.calibration.most_steps(scheme, mechanism=NOISE, epsilon=1.0, delta=1e-5)
    assert found.value == honest.value // 2


@pytest.mark.parametrize(
    ("epsilon", "delta", "named"),
    [(0.0, 1e-5, "epsilon"), (float("nan"), 1e-5, "epsilon"), (1.0, 0.0, "delta"), (1, 1, "delta")],
)
def test_bad_targets(epsilon: float, delta: float, named: str) -> None:
    with pytest.raises(md.InvalidParameter, match=named):
        md.calibration.most_steps(md.wor(10, 1), mechanism=NOISE, epsilon=epsilon, delta=delta)
    with pytest.raises(md.InvalidParameter, match=named):
        md.calibration.largest_batch(
            "wor", mechanism=NOISE, n=10, steps=3, epsilon=epsilon, delta=delta
        )


def test_bad_names_and_sizes() -> None:
    for name in ("wor", "must-oo", "nothing"):
        with pytest.raises(md.InvalidParameter):
            md.calibration.smallest_first_stage(
                name, mechanism=NOISE, n=20, m=5, epsilon=1.0, delta=1e-5, steps=3
            )
    with pytest.raises(md.InvalidParameter, match="b must be given"):
        md.calibration.largest_batch(
            "must-ow", mechanism=NOISE, n=20, epsilon=1.0, delta=1e-5, steps=3
        )
    with pytest.raises(md.InvalidParameter, match="steps"):
        md.calibration.largest_batch("wor", mechanism=NOISE, n=20, epsilon=1.0, delta=1e-5, steps=0)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("search", ["most_steps", "largest_batch", "smallest_first_stage"])
def test_sizes_are_searched_under_the_relation_asked_for(
    monkeypatch: pytest.MonkeyPatch, search: str, relation: str
) -> None:
    asked: list[str | None] = []

    def spy(
        plan: md.types.Plan,
        *,
        relation: str | None,
        composition: str,
        dimension: int | None,
        group: int,
    ) -> md.types.Account:
        assert (composition in ("auto", "pair"), dimension, group) == (True, None, 1)
        asked.append(relation)
        return md.account(plan, relation=relation, accuracy=0.05)

    watch_accounts_of_search(monkeypatch, spy)
    target = {"epsilon": 4.0, "delta": 1e-4, "relation": relation}
    if search == "most_steps":
        md.calibration.most_steps(SCHEME, mechanism=NOISE, **target)  # type: ignore[arg-type]
    elif search == "largest_batch":
        md.calibration.largest_batch("wr", mechanism=NOISE, n=10, steps=2, **target)  # type: ignore[arg-type]
    else:
        md.calibration.smallest_first_stage("must-ow", mechanism=NOISE, n=9, m=3, steps=2, **target)  # type: ignore[arg-type]
    assert asked
    assert set(asked) == {relation}


def test_every_result_holds_what_was_accounted() -> None:
    """The plan of a result, accounted again, is its epsilon; sizes and steps are those of it."""
    target: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-5}
    found: list[md.types.Calibrated] = [
        md.calibration.most_steps(md.wor(40, 4), mechanism=NOISE, **target),
        md.calibration.largest_batch("wr", mechanism=NOISE, n=40, steps=5, **target),
        md.calibration.smallest_first_stage(
            "must-ow", mechanism=NOISE, n=20, m=5, steps=8, **target
        ),
        md.calibrate(md.wor(40, 4), steps=5, **target),
    ]
    for one in found:
        again = md.account(one.plan, relation=one.relation)
        assert again.epsilon(one.delta).upper <= 3.0
        assert (one.relation, one.delta) == (one.epsilon.relation, 1e-5)
        assert isinstance(one, md.types.Solution | md.types.Calibration)
        assert one.plan == md.repeat(one.steps, md.subsample(one.scheme, one.mechanism))
    steps, batch, first, _ = found
    assert isinstance(steps, md.types.Solution)
    assert steps.value == steps.steps
    assert isinstance(batch, md.types.Solution)
    assert batch.value == batch.scheme.expected_size
    assert isinstance(first, md.types.Solution)
    assert isinstance(first.scheme, md.types.Multistage)
    assert first.value == first.scheme.stages[0].size


def test_what_cannot_be_certified_at_all_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: md.types.Account, delta: float, accuracy: float | None = None) -> float:
        raise md.NumericalFailure("out of reach")

    monkeypatch.setattr(md.types.Account, "certified_epsilon", fails)
    with pytest.raises(md.NumericalFailure, match="out of reach"):
        md.calibration.most_steps(md.wor(40, 4), mechanism=NOISE, epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("mechanism", ["gaussian", None, 4.0, md.gaussian])
def test_a_size_needs_a_noise_of_known_size(mechanism: object) -> None:
    given: dict[str, Any] = {"mechanism": mechanism, "epsilon": 1.0, "delta": 1e-5}
    refused = "mechanism must be a mechanism of known size"
    with pytest.raises(md.InvalidParameter, match=refused):
        md.calibration.most_steps(md.wor(9, 2), **given)
    with pytest.raises(md.InvalidParameter, match=refused):
        md.calibration.largest_batch("wor", n=9, steps=2, **given)
    with pytest.raises(md.InvalidParameter, match=refused):
        md.calibration.smallest_first_stage("must-ow", n=9, m=2, steps=2, **given)

"""All schemes side by side: every row is an account under the one relation asked for."""

from __future__ import annotations

import pytest

import mustdp as md
from mustdp import compare
from tests.seams import replace_calibrate_in_compare

NOISE = md.gaussian(noise_multiplier=4.0)


def epsilon_of(scheme: md.types.Scheme, noise: float, relation: str) -> md.Bounds:
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

    def spy(scheme: md.types.Scheme, **target: object) -> md.types.Calibration:
        asked.append({"scheme": scheme, **target})
        plan = md.repeat(2, md.subsample(scheme, NOISE))
        return md.types.Calibration(
            plan, NOISE, md.types.Relation.REPLACE_ONE, md.Bounds(0.5, 1.0), 1e-5, scheme, 2
        )

    replace_calibrate_in_compare(monkeypatch, spy)
    compare(n=12, b=6, m=3, delta=1e-5, steps=2, epsilon=1.0, relation=relation)
    assert len(asked) == 5  # must-wo and must-oo have the laws of wr and wor
    for target in asked:
        assert target["relation"] == relation
        assert (target["epsilon"], target["delta"], target["steps"]) == (1.0, 1e-5, 2)

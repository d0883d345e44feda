"""The audit passes what is right and finds what was broken on purpose."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import mustdp as md
from mustdp import InvalidParameter, audit, calibrated_budget
from mustdp.auditing.audit import _judged, least_epsilon, least_mu
from mustdp.types import Budget, Game

#: All records in every step: the certificate is that of a Gaussian shift, and as tight as can be.
EVERYBODY = calibrated_budget(md.wor(300, 300), steps=1, noise_multiplier=2.5, delta=1e-5)
#: A fifth of them, several times: steps can be compared with each other.
FIFTH = calibrated_budget(md.wor(300, 60), steps=8, noise_multiplier=10.0, delta=1e-5)


def trainer(budget: Budget, clip: float = 1.0) -> Callable[[Game], Any]:
    return lambda game: md.PrivateTrainer(
        game.model, game.loss, game.data, budget,
        optimizer=game.optimizer, max_grad_norm=clip, progress=False,
    )  # fmt: skip


def found(
    made: Callable[[Game], Any], budget: Budget = EVERYBODY, runs: int = 10
) -> md.types.Audit:
    return audit(made, budget, clip=1.0, runs=runs, seed=5)


@pytest.mark.parametrize(
    "budget",
    [
        EVERYBODY,
        FIFTH,
        calibrated_budget(md.poisson(300, 0.5), steps=2, noise_multiplier=2.0, delta=1e-5),
        calibrated_budget(md.must_ow(300, 200, 150), steps=2, noise_multiplier=6.0, delta=1e-5),
    ],
    ids=["everybody", "fifth", "poisson", "must-ow"],
)
def test_what_runs_as_proved_is_not_contradicted(budget: Budget) -> None:
    result = found(trainer(budget), budget)
    assert not result.contradicted
    assert result.epsilon < result.certified.upper
    assert (result.canaries, result.guesses) == (3000, 600)
    data = json.loads(json.dumps(result.as_dict()))
    assert data["contradicted"] is False
    assert "proves nothing" in str(result)


N, CANARIES = 150, 100


def own(relation: str) -> tuple[md.types.OwnRecords, Budget]:
    """Records with directions of their own, which a model of the user's learns by heart."""
    generator = torch.Generator().manual_seed(3)
    data = torch.randn(N, 400, generator=generator), torch.randint(2, (N,), generator=generator)
    loss = torch.nn.CrossEntropyLoss(reduction="none")
    if relation == "add_remove":
        scheme: Any = md.poisson(N, 0.9)
        records = md.types.OwnRecords(data, None, loss, canaries=CANARIES)
    else:
        scheme = md.wor(N, N)
        records = md.types.OwnRecords(data, (data[0][:CANARIES], 1 - data[1][:CANARIES]), loss)
    budget = calibrated_budget(
        scheme, steps=4, noise_multiplier=20.0, delta=1e-5, relation=relation
    )
    return records, budget


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_a_model_and_data_of_ones_own(relation: str) -> None:
    records, budget = own(relation)

    def play(noise: float) -> md.types.Audit:
        used = dataclasses.replace(budget, noise_multiplier=noise)

        def trainer(data: Any) -> Any:
            torch.manual_seed(0)
            model = torch.nn.Sequential(
                torch.nn.Linear(400, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)
            )
            sgd = torch.optim.SGD(model.parameters(), lr=20.0)
            return md.PrivateTrainer(
                model, records.loss, data, used, optimizer=sgd, max_grad_norm=1.0, progress=False
            )

        return audit(trainer, budget, records=records, seed=1)

    right, broken = play(20.0), play(0.01)
    assert (right.canaries, right.guesses) == (CANARIES, 20)
    assert not right.contradicted
    assert broken.contradicted
    assert broken.epsilon > right.certified.upper


def test_own_records_that_do_not_fit() -> None:
    records, budget = own("replace_one")
    for given, said in (
        ({"clip": 1.0}, "clip must be left out"),
        ({"records": dataclasses.replace(records, other=None, canaries=50)}, "other must be given"),
        ({"records": dataclasses.replace(records, canaries=50)}, "exactly one of other"),
    ):
        options: dict[str, Any] = {"records": records, **given}
        with pytest.raises(InvalidParameter, match=said):
            audit(lambda data: None, budget, **options)


def test_half_the_noise_is_found() -> None:
    weak = dataclasses.replace(EVERYBODY, noise_multiplier=EVERYBODY.noise_multiplier / 2)
    result = found(trainer(weak))
    assert result.contradicted
    assert "contradicted" in str(result)


def test_clipping_left_out_is_found() -> None:
    """A clip ten times as large with the noise of the stated one: the same as no clipping."""
    loose = dataclasses.replace(EVERYBODY, noise_multiplier=EVERYBODY.noise_multiplier / 10)
    assert found(trainer(loose, clip=10.0)).contradicted


def test_a_record_counted_twice_is_found() -> None:
    def doubled(game: Game) -> Any:
        made: Any = trainer(EVERYBODY)(game)
        once = made._pieces.of
        made._pieces.of = lambda batch: ((rows, 2 * weights) for rows, weights in once(batch))
        return made

    # With ten runs the noise hid it about once in a hundred times.
    assert found(doubled, runs=25).contradicted


def test_noise_that_is_used_twice_is_found() -> None:
    """Steps that share their noise differ by what they drew; the sum over the steps hides it."""

    def repeated(game: Game) -> Any:
        made: Any = trainer(FIFTH)(game)
        kept: list[Any] = []

        def add(step: int, sums: Any) -> None:
            if not kept:
                before = sums.clone()
                once(step, sums)
                kept.append(sums - before)
            else:
                sums += kept[0]

        once = made._noise.add
        made._noise.add = add
        return made

    result = found(repeated, FIFTH)
    assert result.attacker == "pattern"
    assert result.contradicted


def test_sizes_and_arguments() -> None:
    small = calibrated_budget(md.wor(10, 5), steps=1, noise_multiplier=2.5, delta=1e-3)
    with pytest.raises(InvalidParameter, match="n must be an integer from 20"):
        audit(trainer(small), small, clip=1.0)
    for wrong in ({"clip": 0.0}, {"clip": np.nan}, {"level": 1.0}, {"runs": 0}):
        with pytest.raises(InvalidParameter, match=f"{next(iter(wrong))} must"):
            audit(trainer(EVERYBODY), EVERYBODY, **{"clip": 1.0, **wrong})  # type: ignore[arg-type]


def test_several_attackers_share_the_doubt_that_is_left() -> None:
    """The best of three gets a third of it each: who tries more often must not find more."""
    n = 120
    budget = md.calibrated_budget(md.wor(n, 60), noise_multiplier=30.0, steps=2, delta=1e-5)
    bits = np.tile([-1.0, 1.0], n // 2)
    score = bits * np.linspace(1.0, 2.0, n)
    score[-2:] *= -1.0  # the two most telling guesses are wrong
    alone = _judged({"one": score}, bits, budget, 0.95, seeded=False)
    three = dict.fromkeys(("one", "two", "three"), score)
    best = _judged(three, bits, budget, 0.95, seeded=False)
    assert (best.right, best.guesses) == (alone.right, alone.guesses) == (22, 24)
    assert 0.0 < alone.chance < 1.0 / 3.0
    assert best.chance == pytest.approx(3.0 * alone.chance)
    assert best.epsilon == least_epsilon(n, 24, 22, 1e-5, (1.0 - 0.95) / 3.0)
    assert best.mu == least_mu(n, 24, 22, (1.0 - 0.95) / 3.0)
    assert best.epsilon < alone.epsilon
    assert best.mu < alone.mu

"""The bridge to Flower, with its own strategies and messages."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import mustdp as md
from tests.interop.conftest import page_code

pytest.importorskip("flwr", minversion="1.41")
flower = pytest.importorskip("flwr.serverapp")
strategies = pytest.importorskip("flwr.serverapp.strategy")
app = pytest.importorskip("flwr.app")

from mustdp.interop.flower import FlowerAccountant, rounds_of

RELATION, METHOD = flower.NeighboringRelation, flower.SamplingMethod
CLIENTS = 10


def config(method: str = "NO_AMPLIFICATION", clients: int = CLIENTS, **more: Any) -> Any:
    relation = "REPLACE_ONE" if method == "WITHOUT_REPLACEMENT" else "ADD_OR_REMOVE_ONE"
    return flower.PrivacyConfig(1e-5, clients, RELATION[relation], METHOD[method], **more)


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are made by a task that runs somewhere."""
    task = pytest.importorskip("flwr.supercore.task_identity").TaskIdentity
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(task, name, 1, raising=False)
    return


class Clients:
    """All clients are connected."""

    def get_node_ids(self) -> list[int]:
        return list(range(1, CLIENTS + 1))


def private(accountant: Any, noise: float = 4.0, sampled: int = 5, **more: Any) -> Any:
    average = strategies.FedAvg(fraction_train=0.5, min_train_nodes=2, **more)
    return strategies.DifferentialPrivacyServerSideFixedClipping(
        average, noise, 1.0, sampled, accountant=accountant
    )


def a_round(strategy: Any, number: int, update: Any = None, weights: Any = None) -> Any:
    """One round; ``update`` and ``weights`` are by the place of a client among those drawn."""
    arrays = app.ArrayRecord({"w": app.Array(np.zeros(2))})
    asked = list(strategy.configure_train(number, arrays, app.ConfigRecord(), Clients()))
    replies = []
    for place, message in enumerate(asked):
        moved = np.full(2, 0.1) if update is None else np.asarray(update(place), dtype=float)
        weight = 1 if weights is None else weights[place]
        content = app.RecordDict(
            {
                "arrays": app.ArrayRecord({"w": app.Array(moved)}),
                "metrics": app.MetricRecord({"num-examples": weight}),
            }
        )
        replies.append(app.Message(content=content, reply_to=message))
    return strategy.aggregate_train(number, replies)


def test_rounds_of_a_strategy_are_charged() -> None:
    accountant = FlowerAccountant(config(), all_connected=True)
    strategy = private(accountant)
    for number in (1, 2, 3):
        released, _ = a_round(strategy, number)
        assert released["w"].numpy().shape == (2,)
    spent = strategy.privacy_spent()
    plan = rounds_of(strategy, 3)
    expected = md.account(plan, relation="add_remove").epsilon(delta=1e-5)
    assert (spent.epsilon, spent.num_releases) == (pytest.approx(expected.upper), 3)
    assert accountant.bounds(1e-5).lower == pytest.approx(expected.lower)
    assert accountant.get_delta(spent.epsilon) <= 1e-5 * (1 + 1e-3)


def test_one_client_moves_a_mean_by_what_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is left out makes room for another: Flower's own accountant counts half."""
    monkeypatch.setattr(
        "flwr.serverapp.strategy.dp_fixed_clipping.add_gaussian_noise_inplace", lambda *_: None
    )
    accountant = FlowerAccountant(config())
    strategy = private(accountant)
    with_it, _ = a_round(strategy, 1, lambda place: [7.0, 0.0] if place == 0 else [0.0, 0.1])
    without, _ = a_round(strategy, 2, lambda place: [-7.0, 0.0] if place == 0 else [0.0, 0.1])
    scale = 4.0 * 1.0 / 5  # of the noise
    shift = np.linalg.norm(with_it["w"].numpy() - without["w"].numpy()) / scale
    assert shift == pytest.approx(2 / 4.0)
    one = FlowerAccountant(config())
    one.compose(flower.GaussianPrivacyEvent(4.0, 5, CLIENTS))
    moved = md.account(md.gaussian(shift=float(shift))).epsilon(delta=1e-5)
    assert one.get_epsilon(1e-5) >= moved.lower
    assert one.get_epsilon(1e-5) == pytest.approx(moved.upper, rel=1e-6)
    theirs = flower.RdpAccountant(config())
    theirs.compose(flower.GaussianPrivacyEvent(4.0, 5, CLIENTS))
    assert theirs.get_epsilon(1e-5) < moved.lower


def test_unequal_weights_are_refused() -> None:
    strategy = private(FlowerAccountant(config()))
    with pytest.raises(ValueError, match="equal client weights"):
        a_round(strategy, 1, weights=[1, 1, 1, 1, 2])
    assert strategy.accountant.num_releases == 0
    with pytest.raises(md.NotCovered, match="weights clients by their examples"):
        rounds_of(private(None), 3)


def test_without_replacement_and_the_published_figure() -> None:
    """100 of 10,000 clients in 200 rounds, z = 1."""
    accountant = FlowerAccountant(config("WITHOUT_REPLACEMENT", 10_000))
    accountant.compose(flower.GaussianPrivacyEvent(1.0, 100, 10_000), 200)
    found = accountant.bounds(1e-5)
    assert 7.7 < found.lower <= found.upper < 8.1  # one pair per step, in tests
    theirs = flower.RdpAccountant(config("WITHOUT_REPLACEMENT", 10_000))
    theirs.compose(flower.GaussianPrivacyEvent(1.0, 100, 10_000), 200)
    assert theirs.get_epsilon(1e-5) < found.lower


def test_poisson_beside_theirs() -> None:
    accountants = [
        kind(config("POISSON", 1000)) for kind in (FlowerAccountant, flower.RdpAccountant)
    ]
    for one in accountants:
        one.compose(flower.GaussianPrivacyEvent(1.5, 20, 1000), 100)
    ours, theirs = (one.get_epsilon(1e-5) for one in accountants)
    assert accountants[0].bounds(1e-5).lower <= theirs
    assert ours < theirs < 1.5 * ours


def test_a_budget_ends_the_run() -> None:
    event = flower.GaussianPrivacyEvent(4.0, 5, CLIENTS)
    two = FlowerAccountant(config())
    two.compose(event, 2)
    limited = config(max_epsilon=two.get_epsilon(1e-5) * (1 + 1e-6))
    strategy = private(FlowerAccountant(limited))
    a_round(strategy, 1)
    a_round(strategy, 2)
    with pytest.raises(Exception, match="exceed max_epsilon"):
        a_round(strategy, 3)
    assert strategy.accountant.num_releases == 2
    assert two.would_exceed(event, 1e-3)
    assert not two.would_exceed(event, 1e3)
    with pytest.raises(md.InvalidParameter, match="max_epsilon"):
        two.would_exceed(event)


def test_state() -> None:
    accountant = FlowerAccountant(config(), all_connected=True)
    accountant.compose(flower.GaussianPrivacyEvent(4.0, 5, CLIENTS), 3)
    accountant.compose(flower.GaussianPrivacyEvent(5.0, 5, CLIENTS))
    state = json.loads(json.dumps(accountant.state_dict()))
    other = FlowerAccountant(config(), all_connected=True)
    other.load_state_dict(state)
    assert other.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
    assert other.num_releases == 4
    for wrong in (
        FlowerAccountant(config()),
        FlowerAccountant(config(clients=11), all_connected=True),
    ):
        with pytest.raises(md.InvalidParameter, match="state must have"):
            wrong.load_state_dict(state)
    for bad in ({}, {**state, "rounds": [[4.0, 5, 10]]}, {**state, "rounds": [[-4.0, 5, 10, 1]]}):
        with pytest.raises(md.InvalidParameter):
            other.load_state_dict(bad)
    assert other.num_releases == 4


def test_nothing_costs_nothing_and_next_to_no_noise_everything() -> None:
    accountant = FlowerAccountant(config())
    assert (accountant.get_epsilon(1e-5), accountant.get_delta(1.0)) == (0, 0)
    accountant.compose(flower.GaussianPrivacyEvent(1e-6, 5, CLIENTS))
    assert accountant.get_epsilon(1e-5) == math.inf
    assert accountant.get_delta(1.0) == 1


def test_bad_input() -> None:
    with pytest.raises(md.InvalidParameter, match="config"):
        FlowerAccountant({"target_delta": 1e-5})
    with pytest.raises(md.InvalidParameter, match="Poisson"):
        FlowerAccountant(config("POISSON"), all_connected=True)
    accountant = FlowerAccountant(config())
    with pytest.raises(md.InvalidParameter, match="population_size"):
        accountant.compose(flower.GaussianPrivacyEvent(1.0, 5, 11))
    with pytest.raises(md.InvalidParameter, match="event"):
        accountant.compose(1.0)
    with pytest.raises(md.InvalidParameter, match="count"):
        accountant.compose(flower.GaussianPrivacyEvent(1.0, 5, CLIENTS), 0)
    with pytest.raises(md.InvalidParameter, match="sampled clients"):
        rounds_of(private(accountant, sampled=4), 3)
    with pytest.raises(md.NotCovered, match="fixed clipping"):
        rounds_of(strategies.FedAvg(), 3)
    adaptive = strategies.DifferentialPrivacyServerSideAdaptiveClipping(
        strategies.FedAvg(), 4.0, num_sampled_clients=50
    )
    with pytest.raises(md.NotCovered, match="fixed clipping"):
        rounds_of(adaptive, 3)


def test_the_lines_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(page_code("Flower"), "interop.md", "exec"), {})
    assert "certified (replace-one)" in capsys.readouterr().out

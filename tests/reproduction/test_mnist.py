"""The MNIST network: printed noise, and the two ways of clipping checked against plain loops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.reproduction import guarantees, mnist
from mustdp.reproduction.cells import NAMES, NON_PRIVATE, Settings, published
from mustdp.reproduction.mnist import (
    MNIST,
    SIGMA,
    Network,
    batch_gradient,
    in_order,
    run_job,
    table_5,
    train,
)
from mustdp.reproduction.simulation import Key, Runs, SimulationJob
from tests.training.data.places import SHARED, needs_mnist


def quiet(*_: object) -> None:
    """Nobody listens."""


@pytest.mark.parametrize("name", NAMES)
def test_sigma_to_the_printed_digit(name: str) -> None:
    found = MNIST.paper_sigma(MNIST.paper_budget(name, 1e-5))
    assert found == pytest.approx(SIGMA[name], abs=5e-5)
    assert found != pytest.approx(SIGMA[name] + 1e-4, abs=5e-5)


def small_problem() -> tuple[Network, Any, Any, Any]:
    """A network in double precision and a batch of six distinct records, 11 draws."""
    rng = np.random.default_rng(0)
    network = Network(7, 3, rng)
    double: list[Any] = [part.astype(np.float64) for part in network.parts]
    network.parts = double
    return (
        network,
        rng.normal(size=(6, 7)) * np.array([[0.1, 3, 0.2, 3, 1, 3]]).T,
        rng.integers(0, 3, 6),
        np.array([1, 3, 1, 2, 3, 1]),
    )


def gradient_of(network: Network, row: Any, label: Any) -> list[Any]:
    """The gradient of one record's loss, by central differences."""
    found = []
    for part in network.parts:
        slope = np.zeros(part.shape)
        for place in np.ndindex(part.shape):
            values = []
            for step in (1e-5, -2e-5):
                part[place] += step
                values.append(float(network.errors(row[None], np.array([label]))[0][0]))
            part[place] += 1e-5
            slope[place] = (values[0] - values[1]) / 2e-5
        found.append(slope)
    return found


def norm(parts: list[Any]) -> float:
    return float(np.sqrt(sum(np.sum(part**2) for part in parts)))


def test_both_ways_of_clipping_against_loops() -> None:
    network, rows, labels, counts = small_problem()
    each = [gradient_of(network, row, label) for row, label in zip(rows, labels, strict=True)]
    assert max(norm(parts) for parts in each) > MNIST.clip > min(norm(parts) for parts in each)

    # Every record clipped, weighted by its count.
    expected = [np.zeros(part.shape) for part in network.parts]
    for parts, count in zip(each, counts, strict=True):
        for total, part in zip(expected, parts, strict=True):
            total += count * part * min(1.0, MNIST.clip / norm(parts)) / 11
    found, loss = batch_gradient(network, rows, labels, counts, "record", 11.0)
    for ours, wanted in zip(found, expected, strict=True):
        assert ours == pytest.approx(wanted, abs=1e-6)
    assert loss == pytest.approx(float(network.errors(rows, labels)[0].mean()))
    assert norm(found) <= MNIST.clip

    # The program: the gradient is never reset, so a record adds all that came before it.
    kept = [np.zeros(part.shape) for part in network.parts]
    summed = [np.zeros(part.shape) for part in network.parts]
    for parts, count in zip(each, counts, strict=True):
        for running, total, part in zip(kept, summed, parts, strict=True):
            running += part
            total += count * running
    whole = [total / 11 for total in summed]
    assert norm(whole) > MNIST.clip
    found, _ = batch_gradient(network, rows, labels, counts, "aggregate", 11.0)
    for ours, wanted in zip(found, whole, strict=True):
        assert ours == pytest.approx(wanted * MNIST.clip / norm(whole), abs=1e-6)
    assert norm(found) == pytest.approx(MNIST.clip, rel=1e-6)


def test_records_are_walked_through_in_order() -> None:
    batch = in_order(md.types.Batch(np.array([7, 2, 5]), np.array([1, 3, 2])))
    assert batch.indices.tolist() == [2, 5, 7]
    assert batch.counts.tolist() == [3, 2, 1]


def test_training_learns_and_can_be_repeated() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 6)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] > 0).astype(np.int64)
    data = md.types.DataSet(
        "toy", X[:500].copy(), y[:500], X[500:].copy(), y[500:], ("a", "b"), tuple("uvwxyz")
    )
    first = train(data, md.wor(500, 100), 0.001, "record", steps=60, seed=3, check_every=20)
    again = train(data, md.wor(500, 100), 0.001, "record", steps=60, seed=3, check_every=20)
    assert first == again
    assert [step for step, _ in first.checked] == [20, 40, 60]
    assert first.checked[-1][1] == first.accuracy
    assert first.accuracy > 0.9
    assert first.losses[-1] < 0.5 * first.losses[0]
    noisy = train(data, md.wor(500, 100), 5.0, "record", steps=60, seed=3)
    assert noisy.accuracy < first.accuracy


def made_runs(clipped: float) -> dict[Key, Runs]:
    """Runs that give what is printed by the program, and ``clipped`` per cent otherwise."""
    printed = published("5")["accuracy_percent"]["mnist"]

    def around(percent: float) -> Runs:
        return Runs(np.array([[percent - 1.0], [percent + 1.0]]), np.ones(2))

    done: dict[Key, Runs] = {(name, "private"): around(clipped) for name in NAMES}
    return done | {(name, "aggregate"): around(printed[name]) for name in (*NAMES, NON_PRIVATE)}


def test_verdicts_of_table_5() -> None:
    far = {cell.verdict for cell in table_5(made_runs(45.0)).cells if "clipped" in cell.column}
    near = {cell.verdict for cell in table_5(made_runs(79.0)).cells if "clipped" in cell.column}
    program = {c.verdict for c in table_5(made_runs(45.0)).cells if "program" in c.column}
    assert (far, near, program) == ({"differs, explained"}, {"matches"}, {"matches"})


@needs_mnist
def test_private_runs_and_the_program_on_the_data() -> None:
    """A few steps: both ways train, the private one by the trainer of this package."""
    pytest.importorskip("torch")
    stated = MNIST.paper_budget("MUSTow", 1e-5)
    short = replace(stated, noise_multiplier=2.0, steps=12, delta=1e-5)
    private = run_job(SimulationJob(("a",), short, range(1, 2), SHARED))
    assert 20 < private.first[0] < 90
    assert private.seconds[0] > 0
    program = run_job(SimulationJob(("b",), short, range(1, 2), SHARED, "silent"))
    assert 20 < program.first[0] < 90
    assert (len(program.losses), [at for at, _ in program.checked]) == (12, [10])


@needs_mnist
def test_the_whole_item_in_miniature(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")

    def shortened(job: SimulationJob) -> Runs:
        done = run_job(replace(job, budget=replace(job.budget, steps=2, delta=1e-5)))
        return replace(done, losses=(3.0,) * 300, checked=((10, 0.5),))

    monkeypatch.setattr(mnist, "run_job", shortened)
    monkeypatch.setattr(guarantees, "names_at", lambda _: ("Poisson", "MUSTow"))
    outcome = mnist.run(Settings(True, 1, SHARED, workers=1), quiet)
    assert [table.kind for table in outcome.tables] == ["paper", "paper", "guarantee", "equal"]
    sigma = [cell for cell in outcome.tables[0].cells if cell.column == "sigma"]
    assert [cell.verdict for cell in sigma] == ["matches"] * 5
    noise = {c.row: c.ours for c in outcome.tables[3].cells if c.column.startswith("noise")}
    poisson, must = noise["Poisson, epsilon 4, 60 steps"], noise["MUSTow, epsilon 4, 60 steps"]
    assert poisson is not None
    assert must is not None
    assert poisson < must
    assert len(outcome.pictures[0].figure().axes) == 2

"""On a GPU: the same clipped sums and the same noise deviation; skipped where there is none."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("torch finds no CUDA device", allow_module_level=True)

import mustdp as md
from mustdp.errors import NotCovered
from mustdp.noise.exact import GAUSSIAN, rounded
from mustdp.randomness.keys import NoiseSource, batch_key
from mustdp.training.networks.clipping import Clipper
from mustdp.training.networks.devices import full_precision
from mustdp.training.networks.graphs import PieceGraph
from mustdp.training.networks.layers import Dense, row_squares
from mustdp.training.networks.loaders import TrainingRecords
from mustdp.training.networks.noise import (
    Begun,
    StepNoise,
    check_device,
    random_words,
)
from mustdp.training.networks.trainer import Masks
from tests.training.networks import runs, zoo
from tests.training.networks.brute_force import (
    Case,
    bound,
    clipped_sum_one_by_one,
    relative_gap,
    trials,
)

COUNTS = [1, 3, 1, 2, 1, 1, 4, 1, 2]
GPU = torch.device("cuda", 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [*zoo.BOOKKEEPING, *zoo.RECORD_BY_RECORD])
def test_clipped_sums(make: Callable[[], Case]) -> None:
    torch.manual_seed(0)
    case = make()
    expected = clipped_sum_one_by_one(case, COUNTS, bound(0.5).inner)
    model, loss, inputs, target = case
    model.to(GPU)
    records, masks = TrainingRecords((*inputs, target), GPU), Masks(batch_key(1), GPU)
    clipper = Clipper(
        model, loss, trials(tuple(x.to(GPU) for x in inputs), target.to(GPU)), lambda: masks(0)
    )
    counts = torch.tensor(COUNTS, dtype=torch.float64, device=GPU)
    with full_precision(GPU):  # torch's default cuts what convolutions multiply to 10 bits
        found = clipper.sum([(records.take(np.arange(9)), counts)], masks(0), bound(0.5))
    assert relative_gap([g.cpu() for g in found.gradients], expected) < 2e-5


def test_noise() -> None:
    one, other = (torch.zeros(100_000, dtype=torch.int64, device=GPU) for _ in range(2))
    StepNoise(batch_key(), 2000.0).add(3, one)
    StepNoise(batch_key(), 2000.0).add(4, other)
    assert float(one.double().std()) == pytest.approx(2000.0, rel=0.015)
    assert abs(float(torch.dot(one.double(), other.double()))) / 4e11 < 0.015


def test_noise_that_was_begun_is_used_once() -> None:
    noise = StepNoise(batch_key(), 2000.0)
    noise.begin(3, 1000, GPU)
    one, again, other = (torch.zeros(1000, dtype=torch.int64, device=GPU) for _ in range(3))
    noise.add(3, one)
    noise.add(3, again)
    noise.begin(4, 1000, GPU)
    noise.add(5, other)
    rows = {tuple(x.tolist()) for x in (one, again, other)}
    assert len(rows) == 3


def test_more_values_in_doubt_than_are_fetched_at_once() -> None:
    words = random_words(bytes(range(32)), bytes(12), 200_000, GPU)
    for ratio in (3.0, 2.0**31 * 1.1):  # with the latter nearly all are
        expected, undecided = rounded(GAUSSIAN, words.cpu().numpy().view(np.uint64), ratio)
        found = Begun(lambda: words, ratio, NoiseSource(1)).finished().cpu().numpy()
        sure = np.setdiff1d(np.arange(len(found)), undecided)
        assert np.array_equal(found[sure], expected[sure])


def test_bits_and_integers_are_those_of_the_cpu() -> None:
    check_device(GPU)
    key, nonce, count = bytes(range(32)), bytes(12), 1_000_003
    words = random_words(key, nonce, count, GPU)
    there = random_words(key, nonce, count, torch.device("cpu"))
    assert torch.equal(words.cpu(), there)
    for ratio in (3.7, 2.0**26 * 1.1):
        expected, undecided = rounded(GAUSSIAN, there.numpy().view(np.uint64), ratio)
        found = Begun(lambda: words, ratio, NoiseSource(1)).finished().cpu().numpy()
        decided = np.ones(count, dtype=bool)
        decided[undecided] = False
        assert np.array_equal(found[decided], expected[decided])
        assert len(undecided) < count * 1e-4


def test_a_run_and_its_continuation(tmp_path: Any) -> None:
    whole = runs.trainer(compute=md.types.Compute("cuda"), seed=3).train()
    runs.trainer(compute=md.types.Compute("cuda"), seed=3, checkpoint=tmp_path / "run.pt").train(3)
    done = runs.trainer(
        compute=md.types.Compute("cuda"), seed=3, checkpoint=tmp_path / "run.pt"
    ).train()
    assert torch.allclose(runs.weights(done.model), runs.weights(whole.model), atol=1e-5)


def small_run(**options: Any) -> Any:
    torch.manual_seed(7)
    network = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    for p in network.parameters():
        torch.nn.init.normal_(p, std=0.3)
    return runs.trainer(network, compute=md.types.Compute("cuda"), seed=3, **options)


def test_a_graph_makes_the_steps_that_python_makes() -> None:
    as_graph, launched = small_run(), small_run()
    assert as_graph._clipper.graph is not None
    launched._clipper.graph = None
    calls = []
    whole = as_graph._clipper.graph.add

    def counted(*given: Any) -> None:
        calls.append(1)
        whole(*given)

    as_graph._clipper.graph.add = counted
    one, other = as_graph.train(), launched.train()
    assert len(calls) >= 2  # of six steps, those that are no trial
    assert torch.allclose(runs.weights(one.model), runs.weights(other.model), atol=1e-6)


def test_several_pieces_are_added_up_by_a_graph() -> None:
    compute = md.types.Compute("cuda", max_rows=8)
    found = []
    for used in (True, False):
        network = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
        with torch.no_grad():
            for p in network.parameters():
                p.copy_(torch.arange(p.numel()).sin().view_as(p))
        run: Any = runs.trainer(network, compute=compute, seed=3)
        assert run._clipper.graph is not None
        assert run._pieces._rows <= 8
        if not used:
            run._clipper.graph = None
        found.append(runs.weights(run.train().model))
    assert torch.allclose(*found, atol=1e-6)


def test_results_of_a_graph_leave_its_totals() -> None:
    run = small_run()
    graph = run._clipper.graph
    rows = run._records.take(np.arange(run._pieces._rows) % 60)
    graph.begin()
    graph.add(rows, torch.ones(len(rows.target), dtype=torch.float64, device=GPU))
    before = graph._flat.clone()
    assert float(before.abs().sum()) > 0
    graph.results(rows)
    assert torch.equal(graph._flat, before)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.eval(),
        lambda model: setattr(model[0], "weight", torch.nn.Parameter(model[0].weight.clone())),
        lambda model: setattr(torch.backends.cudnn, "deterministic", True),
        lambda model: setattr(model[0], "scale", 2.0),
    ],
)
def test_a_graph_is_not_used_once_a_setting_has_changed(change: Any) -> None:
    run = small_run()
    graph = run._clipper.graph
    rows = run._records.take(np.arange(run._pieces._rows) % 60)
    assert graph.takes(rows)
    try:
        change(run.model)
        assert not graph.takes(rows)
    finally:
        torch.backends.cudnn.deterministic = False


def test_a_graph_whose_places_differ_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = PieceGraph.results

    def with_an_odd_place(graph: PieceGraph, rows: Any) -> Any:
        first, *others = usual(graph, rows)
        return [first + torch.arange(len(first), device=GPU).eq(5), *others]

    monkeypatch.setattr(PieceGraph, "results", with_an_odd_place)
    assert small_run()._clipper.graph is None


def test_a_graph_that_goes_wrong_later_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run, usual = small_run(), PieceGraph.results

    def with_an_odd_place(graph: PieceGraph, rows: Any) -> Any:
        first, *others = usual(graph, rows)
        return [first + torch.arange(len(first), device=GPU).eq(5), *others]

    monkeypatch.setattr(PieceGraph, "results", with_an_odd_place)
    with pytest.raises(NotCovered, match="place in the batch"):
        run.train(1)


def test_models_and_rules_that_change_from_step_to_step_are_not_captured() -> None:
    assert small_run(clipping="quantile")._clipper.graph is None
    drops: Any = runs.trainer(compute=md.types.Compute("cuda"))  # it has a Dropout
    assert drops._clipper.graph is None
    users = small_run(units=list(range(60)))  # one record each, whose weights a graph would keep
    assert users._clipper.graph is None


@pytest.mark.parametrize("shape", [(5, 7), (3, 1025), (2, 9, 768), (6, 1)])
@pytest.mark.parametrize("scale", [1e-43, 1e-30, 1.0, 1e18])
def test_squares_are_bounds_from_above(shape: tuple[int, ...], scale: float) -> None:
    rows = (torch.randn(shape, generator=torch.Generator().manual_seed(1)) * scale).float()
    found = row_squares(rows.to(GPU)).cpu().flatten().tolist()
    for row, bound_ in zip(rows.reshape(-1, shape[-1]).tolist(), found, strict=True):
        exact = sum((Fraction(x) ** 2 for x in row), Fraction(0))
        assert exact <= Fraction(bound_) <= exact * (1 + Fraction(1, 2**40)) + Fraction(1, 2**240)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sizes_of_products_are_bounds_from_above(bias: bool, dtype: Any) -> None:
    generator = torch.Generator().manual_seed(2)
    given = torch.randn(3, 40, 6, generator=generator).to(dtype)
    errors = torch.randn(3, 40, 9, generator=generator).to(dtype)
    errors[1, 20:], given[1, 20:] = -errors[1, :20], given[1, :20]  # nothing but rounding is left
    share = Dense(torch.nn.Linear(6, 9, bias=bias), given.to(GPU), errors.to(GPU))
    squares, absolute = (x.tolist() for x in vars(share._products().sizes()).values())
    biases = share._biases.cpu()
    for k in range(3):
        a, d = ([[Fraction(x) for x in row] for row in x[k].tolist()] for x in (given, errors))
        exact: Any = sum(
            sum((d[t][i] * a[t][j] for t in range(40)), Fraction(0)) ** 2
            for i in range(9)
            for j in range(6)
        )
        exact += sum(Fraction(x) ** 2 for x in biases[k].tolist()) if bias else 0
        assert exact <= Fraction(squares[k])
        assert squares[k] - float(exact) <= 1e-9 * absolute[k]


def test_parts_of_a_piece_have_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mustdp.training.networks.layers._GRAM_ON_GPU", 20 * 64 * 16)
    given, errors = torch.randn(32, 64, 16, device=GPU), torch.randn(32, 64, 12, device=GPU)
    given, errors = given[:1].expand_as(given), errors[:1].expand_as(errors)
    squares = Dense(torch.nn.Linear(16, 12), given, errors)._products().sizes().squares
    assert bool((squares == squares[0]).all())

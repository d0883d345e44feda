"""User code that writes into what it is handed, or keeps it, changes nothing but its own copy.

A statistic that sorts in place, or divides by the maximum, would otherwise change what the next
statistics of the same release see, and one record then moves them by more than was charged for.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mustdp as md

N, M = 60, 40
DATA = np.column_stack([np.full(N, 1.0), np.linspace(0.0, 1.0, N)])


def divided_by_the_maximum(values: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
    values /= values.max()
    return 0.5


def zeros_everywhere(values: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
    values[:] = 0.0
    counts[:] = 1
    return 0.5


def through_its_base(values: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
    for array in (values, counts):
        owner: Any = array
        while owner is not None and isinstance(owner, np.ndarray):
            owner.flags.writeable = True
            owner[...] = 0
            owner = owner.base
    return 0.5


ATTACKS = (divided_by_the_maximum, zeros_everywhere, through_its_base)


def stated(m: int) -> float:
    return 1.0 / m


def replicates(statistics: list[Any], data: Any = DATA, **more: Any) -> NDArray[np.float64]:
    """Replicates with next to no noise, so that it shows what was computed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the seed, and what is said of these intervals
        found = md.private_bootstrap(
            data, statistics, lower=0, upper=10, design=md.wor(N, M), replicates=20,
            noise_multiplier=1e-6, delta=1e-3, seed=1, **more,
        )  # fmt: skip
    return found.replicates


def test_one_record_does_not_move_the_other_statistics_through_a_maximum() -> None:
    """The attack as it was found: a mean of 1.00 became .14 with one record of 10."""
    large = DATA.copy()
    large[0, 0] = 10.0
    attack = md.types.UserStatistic(divided_by_the_maximum, 10.0, average=True, columns=(0,))
    mean = md.types.Mean(columns=(0,))
    apart = replicates([attack, mean])[:, -1] - replicates([attack, mean], large)[:, -1]
    assert np.abs(apart).max() <= (10.0 - 1.0) / M + 1e-4


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize(
    ("attack", "where"),
    [
        *((one, "here") for one in ATTACKS),
        (through_its_base, "processes"),
        (through_its_base, "file"),
    ],
)
def test_a_statistic_that_writes_changes_no_other(
    attack: Callable[..., float], average: bool, where: str, tmp_path: Any
) -> None:
    data: Any = DATA.copy()
    more: dict[str, Any] = (
        {"execution": md.types.Execution(workers=2)} if where == "processes" else {}
    )
    if where == "file":
        data, more = tmp_path / "records.csv", {"columns": ("a", "b")}
        np.savetxt(data, DATA, delimiter=",", header="a,b", comments="", fmt="%.17g")
    rest = [
        md.types.Mean(columns=(0,)),
        md.types.Variance(columns=(1,)),
        "covariance",
        "regression",
    ]

    def harmless(values: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
        return 0.5

    given = [md.types.UserStatistic(one, stated, average=average) for one in (harmless, attack)]
    honest, attacked = (replicates([one, *rest, one], data, **more) for one in given)
    assert np.array_equal(honest, attacked)
    if where == "here":
        assert np.array_equal(data, DATA)


def test_a_statistic_that_writes_changes_none_on_a_cluster() -> None:
    distributed = pytest.importorskip("distributed")
    functions = (lambda values, counts: 0.5, through_its_base)
    given = [md.types.UserStatistic(one, stated, average=True) for one in functions]
    with distributed.Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None
    ) as client:
        parts = client.scatter([DATA[:30], DATA[30:]])
        source = md.data.open_partitioned(parts, client=client)
        trusting = md.types.Execution(insecure=True)
        both = [replicates([one, "covariance"], source, execution=trusting) for one in given]
        again = replicates([given[0], "covariance"], source, execution=trusting)
    assert np.array_equal(both[0], both[1])
    assert np.array_equal(both[0], again)


def test_a_statistic_is_handed_its_own_columns_only() -> None:
    """The array behind a view would show columns that the statistic does not read."""
    widths: list[int] = []

    def seen(values: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
        owner = values if values.base is None else values.base
        widths.append(np.size(owner) // len(values))
        return 0.5

    replicates([md.types.UserStatistic(seen, 1.0, average=True, columns=(0,))])
    assert set(widths) == {1}


def test_a_function_that_returns_one_buffer_every_time_gives_what_it_held_then() -> None:
    """The value on the subset is not overwritten by those on its halves."""
    buffer = np.zeros(1)

    def reused(values: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
        buffer[0] = counts.sum() / (2.0 * M)
        return buffer

    def fresh(values: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
        return float(counts.sum() / (2.0 * M))

    found = [replicates([md.types.UserStatistic(one, stated)]) for one in (reused, fresh)]
    assert np.array_equal(found[0], found[1])


def test_what_a_result_holds_does_not_change_afterwards() -> None:
    with pytest.warns(md.types.SeededRelease):
        found = md.private_bootstrap(
            DATA, "mean", columns="1", lower=0, upper=1, design=md.wor(N, M), replicates=20,
            noise_multiplier=1.0, delta=1e-3, seed=1,
        )  # fmt: skip
    for result in (found, pickle.loads(pickle.dumps(found))):
        held = result.replicates.copy()
        with pytest.raises(ValueError, match="read-only"):
            result.replicates[:] = 0.0
        with pytest.raises(ValueError, match="WRITEABLE"):
            result.replicates.flags.writeable = True
        assert np.array_equal(result.replicates, held)


def test_a_profile_that_writes_changes_no_other_mechanism() -> None:
    """Tables of epsilons are shared by all custom mechanisms of a process."""

    def coin(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(0.0, 0.75 - 0.25 * np.exp(epsilon))

    def attack(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        found = coin(epsilon)
        through_its_base(epsilon, np.ones(1, dtype=np.int64))
        return found

    def in_place(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        np.exp(epsilon, out=epsilon)
        epsilon *= -0.25
        epsilon += 0.75
        return np.maximum(epsilon, 0.0, out=epsilon)

    def spent(profile: Any) -> tuple[float, float]:
        plan = md.repeat(3, md.subsample(md.wor(10, 5), md.custom(profile)))
        bounds = md.account(plan).delta(0.5)
        return bounds.lower, bounds.upper

    honest = spent(coin)
    assert spent(attack) == honest
    assert spent(in_place) == honest
    assert spent(coin) == honest


def test_a_profile_that_returns_one_buffer_every_time_is_copied() -> None:
    buffers: dict[int, NDArray[np.float64]] = {}

    def coin(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(0.0, 0.75 - 0.25 * np.exp(epsilon))

    def reused(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        found = buffers.setdefault(epsilon.size, np.empty(epsilon.size))
        found[:] = coin(epsilon)
        return found

    epsilon = np.array([0.1, 0.2])
    first = md.custom(reused).evaluate(epsilon)
    held = first.copy()
    for buffer in buffers.values():
        buffer[:] = 0.0
    assert np.array_equal(first, held)


def test_answers_of_an_account_are_the_callers_own() -> None:
    """Neither the epsilons given nor the answers are shared with what is asked later."""
    found = md.account(md.repeat(3, md.subsample(md.wor(10, 5), md.gaussian(noise_multiplier=2.0))))
    epsilon = np.array([0.5, 1.0])
    curve = found.curve(epsilon)
    held = [np.array(one) for one in (curve.epsilon, curve.lower, curve.upper)]
    epsilon[:] = 0.0
    assert np.array_equal(curve.epsilon, held[0])
    for array in (curve.epsilon, curve.lower, curve.upper):
        if array.flags.writeable:
            array[:] = 0.0
    again = found.curve([0.5, 1.0])
    for now, before in zip((again.epsilon, again.lower, again.upper), held, strict=True):
        assert np.array_equal(now, before)


def test_laws_and_batches_are_read_only() -> None:
    scheme = md.must_ow(20, 8, 5)
    law = scheme.law()
    batch = next(iter(md.types.BatchStream(scheme, seed=1)))
    for array in (law.probabilities, law.weights, law.support, batch.indices, batch.counts):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


def test_data_are_left_as_they_are() -> None:
    """Nothing that reads a frame or an array writes into it, missing values included."""
    pandas = pytest.importorskip("pandas")
    values = np.column_stack([np.linspace(-5.0, 15.0, 50), np.tile([0.0, 1.0], 25)])
    frame = pandas.DataFrame(values.copy(), columns=["a", "b"])
    frame.loc[3, "a"] = np.nan
    copies = values.copy(), frame.copy()
    common: dict[str, Any] = {"lower": 0, "upper": 10, "noise_multiplier": 1.0, "delta": 1e-3}
    md.private_release(values, ["mean", "sd", "regression"], **common)
    md.private_release(frame, ["mean", "histogram"], missing="drop", **common)
    md.private_release(frame, ["mean", "median"], missing=2.0, **common)
    with pytest.warns(md.types.InferenceNote):
        md.private_bootstrap(
            md.types.Reading(frame, missing=2.0),
            ["covariance", "correlation"],
            design=md.wor(50, 20),
            replicates=10,
            **common,
        )
    assert np.array_equal(values, copies[0])
    assert frame.equals(copies[1])


def test_an_audit_sees_every_step_of_a_model_in_double_precision() -> None:
    """The weights before a step are a copy: those of a double model would change with it."""
    torch = pytest.importorskip("torch")
    n, steps = 20, 3
    budget = md.calibrated_budget(md.wor(n, n), noise_multiplier=1.0, steps=steps, delta=1e-5)

    class Trainer:
        """No noise and no clipping at all from the second step on."""

        def __init__(self, game: md.types.Game) -> None:
            game.model.double()
            self.game, self.done = game, 0

        def train(self, steps: int) -> None:
            self.done += 1
            if self.done > 1:
                with torch.no_grad():
                    rows = self.game.data[0].double()
                    next(iter(self.game.model.parameters())).add_(rows.sum(0, keepdim=True))

    found = md.audit(Trainer, budget, clip=1.0, runs=3, seed=1)
    assert found.right == found.guesses

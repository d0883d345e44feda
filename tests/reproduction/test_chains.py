"""Chains: many runs at once equal the runs one after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("sklearn")

import mustdp as md
from mustdp.randomness.keys import noise_generator
from mustdp.reproduction import simulation as chains_module
from mustdp.training.linear import models as estimator
from mustdp.training.linear.descent import descend

pytestmark = [
    pytest.mark.filterwarnings("ignore::mustdp.randomness.keys.SeededRelease"),
    pytest.mark.filterwarnings("ignore::mustdp.training.linear.descent.TakenAsPublic"),
]
R, N, D = 8, 60, 3
RNG = np.random.default_rng(4)
X = RNG.normal(size=(R, N, D))
TARGETS = {
    "regression": RNG.normal(size=(R, N)),
    "binary": RNG.integers(0, 2, (R, N)),
    "multinomial": RNG.integers(0, 3, (R, N)),
}
SCHEMES = [
    *(md.must_ow(N, 20, 15), md.poisson(N, 0.05), md.wor(N, N)),
    *(md.random_allocation(N, 5), md.random_allocation(N, 6, times=2)),
]


class SimulatedNoise:
    """The noise of chains in the place of the exact one."""

    def __init__(self, generator: np.random.Generator, deviation: float, clip: float) -> None:
        self.bound = clip
        self._generator, self._deviation = generator, deviation

    def released(self, total: NDArray[np.float64]) -> NDArray[np.float64]:
        noisy: NDArray[np.float64] = total + self._deviation * self._generator.standard_normal(
            total.shape
        )
        return noisy


def model_of(kind: str, **given: Any) -> Any:
    made = md.DPLinearRegression if kind == "regression" else md.DPLogisticRegression
    classes = {"binary": [0, 1], "multinomial": [0, 1, 2]}.get(kind)
    known = {} if classes is None else {"classes": classes}
    usual = {"noise_multiplier": 2.0, "delta": 1e-5, "steps": 12, "keep_losses": True}
    return made(**{**usual, **known, **given})


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: str(scheme.name))
@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_chains_equal_single_fits(
    kind: str, scheme: Any, fit_intercept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the noise of simulations in the place of the exact one, which chains do without."""

    def simulated(records: Any, recipe: Any, key: Any, on_step: Any, exact: Any) -> Any:
        noise = SimulatedNoise(noise_generator(key), recipe.deviation, recipe.max_grad_norm)
        return descend(records, recipe, key, on_step, noise)

    monkeypatch.setattr(estimator, "descend", simulated)
    model = model_of(kind, scheme=scheme, fit_intercept=fit_intercept)
    seeds = range(100, 100 + R)
    many = md.reproduction.fit_chains(model, X, TARGETS[kind], seeds)
    for chain, seed in enumerate(seeds):
        alone = model_of(kind, scheme=scheme, fit_intercept=fit_intercept, random_state=seed)
        alone.fit(X[chain], TARGETS[kind][chain])
        np.testing.assert_allclose(
            many.coefficients[chain], np.atleast_2d(alone.coef_), rtol=1e-9, atol=1e-11
        )
        np.testing.assert_allclose(
            many.intercepts[chain], np.atleast_1d(alone.intercept_), rtol=1e-9, atol=1e-11
        )
        np.testing.assert_allclose(many.losses[chain], alone.loss_curve_, rtol=1e-9)
        assert many.privacy == alone.privacy_


@pytest.mark.parametrize("kind", TARGETS)
def test_one_data_set_for_all(kind: str) -> None:
    model, y = model_of(kind), TARGETS[kind]
    shared = md.reproduction.fit_chains(model, X[0], y[0], [1, 2, 3])
    copied = md.reproduction.fit_chains(
        model, np.stack([X[0]] * 3), np.stack([y[0]] * 3), [1, 2, 3]
    )
    mixed = md.reproduction.fit_chains(model, X[0], np.stack([y[0]] * 3), [1, 2, 3])
    for other in (copied, mixed):
        np.testing.assert_allclose(shared.coefficients, other.coefficients, rtol=1e-12)
    assert len({tuple(map(float, row)) for row in shared.intercepts}) == 3


def test_groups_of_chains_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = md.reproduction.fit_chains(model_of("binary"), X, TARGETS["binary"], range(R))
    monkeypatch.setattr(chains_module, "_GATHERED", 1)
    alone = md.reproduction.fit_chains(model_of("binary"), X, TARGETS["binary"], range(R))
    np.testing.assert_allclose(whole.coefficients, alone.coefficients, rtol=1e-12)


def test_the_path_ends_where_the_chain_ends() -> None:
    many = md.reproduction.fit_chains(
        model_of("regression"), X, TARGETS["regression"], range(R), keep_path=True
    )
    assert many.coefficient_path is not None
    assert many.intercept_path is not None
    assert many.coefficient_path.shape == (R, 12, 1, D)
    assert np.array_equal(many.coefficient_path[:, -1], many.coefficients)
    assert np.array_equal(many.intercept_path[:, -1], many.intercepts)
    first = md.reproduction.fit_chains(
        model_of("regression", steps=1), X, TARGETS["regression"], range(R)
    )
    np.testing.assert_allclose(many.coefficient_path[:, 0], first.coefficients)


@pytest.mark.parametrize(
    ("rows", "targets", "seeds", "message"),
    [
        (X, TARGETS["binary"], range(3), "X must hold one data set for each of the 3 seeds"),
        (X[0], TARGETS["binary"], range(3), "y must have the shape"),
        (X[0, 0], TARGETS["binary"][0], [1], "X must have the shape"),
        (X[0] * np.nan, TARGETS["binary"][0], [1], "X must be finite"),
        (X[0], TARGETS["regression"][0] * np.nan, [1], "y must be finite"),
        (X[0], TARGETS["binary"][0], [], "seeds must hold at least one"),
        (X[0], TARGETS["binary"][0], [-1], "seeds must be"),
        ("rows", TARGETS["binary"][0], [1], "arrays of numbers"),
    ],
)
def test_chains_that_make_no_sense(rows: Any, targets: Any, seeds: Any, message: str) -> None:
    with pytest.raises(md.InvalidParameter, match=message):
        md.reproduction.fit_chains(model_of("regression"), rows, targets, seeds)


def test_seeds_say_it_all() -> None:
    with pytest.raises(md.InvalidParameter, match="random_state"):
        md.reproduction.fit_chains(
            model_of("regression", random_state=1), X, TARGETS["regression"], range(R)
        )
    with pytest.raises(md.InvalidParameter, match="model must be"):
        md.reproduction.fit_chains("model", X, TARGETS["regression"], range(R))  # type: ignore[arg-type]

"""Epochs, penalties, weights and sparse rows, each beside what it stands for."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import sparse

import mustdp as md
from mustdp.types import SeededRelease

N = 120


def problem() -> tuple[Any, Any]:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(N, 5)) * (rng.random((N, 5)) < 0.5)
    return X, (X @ [1.0, -2.0, 0.5, 0.0, 1.0] + rng.normal(size=N) > 0).astype(int)


def fitted(X: Any, y: Any, kind: Any = md.DPLogisticRegression, **options: Any) -> Any:
    """A seeded model; noise of nearly nothing unless it is asked for."""
    given: dict[str, Any] = {
        "noise_multiplier": 1e-6, "delta": 1e-5, "steps": 20, "random_state": 1, "m": 40, **options
    }  # fmt: skip
    weighted = {"sample_weight": given.pop("sample_weight", None)}
    if kind is md.DPLogisticRegression:
        given["classes"] = [0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededRelease)
        return kind(**given).fit(X, y, **weighted)


KINDS = pytest.mark.parametrize("kind", [md.DPLogisticRegression, md.DPLinearRegression])


@KINDS
def test_sparse_rows_are_the_same_rows(kind: Any) -> None:
    X, y = problem()
    dense = fitted(X, y, kind, noise_multiplier=1.0)
    for made in (sparse.csr_matrix(X), sparse.csc_array(X), sparse.coo_matrix(X)):
        other = fitted(made, y, kind, noise_multiplier=1.0)
        assert np.array_equal(other.coef_, dense.coef_)
        assert np.allclose(other.predict(made), dense.predict(X))


def by_hand(X: Any, y: Any, weights: Any, l2: float, steps: int, rate: float, clip: float) -> Any:
    """Clipped gradient descent on all records, as the definition says."""
    w, rows = np.zeros(6), np.hstack([X, np.ones((N, 1))])
    for _ in range(steps):
        errors = weights * (1 / (1 + np.exp(-rows @ w)) - y)
        gradients = errors[:, None] * rows
        norms = np.linalg.norm(gradients, axis=1)
        gradients *= np.minimum(1, clip / np.maximum(norms, 1e-300))[:, None]
        w = w - rate * (gradients.mean(0) + l2 * np.append(w[:5], 0.0))
    return w


@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_fit_beside_its_definition(l2: float, weighted: bool) -> None:
    X, y = problem()
    weights = np.random.default_rng(2).uniform(0, 4, N) if weighted else np.ones(N)
    given = {"sample_weight": weights} if weighted else {}
    model = fitted(X, y, m=N, l2=l2, steps=15, learning_rate=2.0, max_grad_norm=0.6, **given)
    expected = by_hand(X, y, weights, l2, 15, 2.0, 0.6)
    assert np.allclose([*model.coef_[0], *model.intercept_], expected, atol=1e-4)


@KINDS
def test_a_large_weight_moves_a_fit_by_no_more_than_is_charged(kind: Any) -> None:
    """One step from zero on all records: the sum moves by 2 C at most, whatever the weight."""
    X, y = problem()
    moved = []
    for large in (1.0, 1e9):
        weights = np.ones(N)
        weights[7] = large
        options = {"m": N, "steps": 1, "learning_rate": 1.0, "start": 0.5}
        model = fitted(X, y, kind, sample_weight=weights, **options)
        moved.append(np.append(np.ravel(model.coef_), model.intercept_) * N)
    distance = np.linalg.norm(moved[0] - moved[1])
    assert 1e-3 < distance <= 2.0


def test_weights_that_are_refused() -> None:
    X, y = problem()
    for bad in (np.ones(3), -np.ones(N), np.full(N, np.nan)):
        with pytest.raises(ValueError, match="sample_weight must be one finite"):
            fitted(X, y, sample_weight=bad)


def test_epochs_are_passes_over_the_data() -> None:
    X, y = problem()
    assert fitted(X, y, steps=None, epochs=2, m=30).n_iter_ == 8
    assert fitted(X, y, steps=None, m=30).n_iter_ == 100
    epoch = md.random_allocation(N, 5)
    assert fitted(X, y, steps=None, epochs=3, m=None, scheme=epoch).n_iter_ == 15


def test_poisson_by_name_says_what_it_takes_as_public() -> None:
    X, y = problem()
    with pytest.warns(md.types.TakenAsPublic, match=r"number of records .* md\.poisson"):
        model = fitted(X, y, scheme="poisson", m=30, noise_multiplier=1.0)
    assert model.privacy_.scheme == md.poisson(N, 0.25)
    assert model.privacy_.relation == "add_remove"

"""The models as people use them."""

from __future__ import annotations

import copy
import importlib
import math
import pickle
import sys
import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import mustdp as md
from mustdp import DPLinearRegression, DPLogisticRegression
from mustdp.types import SeededRelease

pytestmark = [
    pytest.mark.filterwarnings("ignore::mustdp.randomness.keys.SeededRelease"),
    pytest.mark.filterwarnings("ignore::mustdp.training.linear.descent.TakenAsPublic"),
]
N = 400


def line(seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2))
    return X, 1.0 + X @ [0.5, -0.25] + 0.1 * rng.normal(size=N)


def blobs(classes: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, N)
    angle = 2 * np.pi * y / classes
    X = 3 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + rng.normal(size=(N, 2))
    return X, y


def test_regression_finds_the_line() -> None:
    X, y = line()
    model = DPLinearRegression(
        keep_losses=True,
        delta=1e-5,
        noise_multiplier=1.0,
        max_grad_norm=2.0,
        m=200,
        steps=200,
        random_state=1,
    )
    assert model.fit(X, y) is model
    np.testing.assert_allclose(model.coef_, [0.5, -0.25], atol=0.05)
    assert model.intercept_ == pytest.approx(1.0, abs=0.05)
    assert model.coef_.shape == (2,)
    assert (model.n_iter_, model.n_features_in_) == (200, 2)
    assert model.loss_curve_.shape == (200,)
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    assert model.score(X, y) > 0.9
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)


@pytest.mark.parametrize(("classes", "shape"), [(2, (1, 2)), (4, (4, 2))])
def test_classification_finds_the_blobs(classes: int, shape: tuple[int, int]) -> None:
    X, y = blobs(classes)
    names = np.array(["red", "green", "blue", "grey"])[y]
    model = DPLogisticRegression(delta=1e-5, noise_multiplier=2.0, m=100, random_state=1).fit(
        X, names
    )
    assert model.coef_.shape == shape
    assert model.intercept_.shape == shape[:1]
    assert model.classes_.tolist() == sorted(set(names))
    assert model.score(X, names) > 0.95
    chances = model.predict_proba(X)
    assert chances.shape == (N, classes)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert (model.classes_[chances.argmax(axis=1)] == model.predict(X)).all()


def test_public_classes_need_not_occur() -> None:
    X, y = blobs(2)
    model = DPLogisticRegression(
        delta=1e-5, noise_multiplier=2.0, classes=[2, 0, 1], random_state=1
    ).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.coef_.shape == (3, 2)
    assert model.score(X, y) > 0.95
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_a_target_is_calibrated_and_certified() -> None:
    X, y = line()
    model = DPLinearRegression(epsilon=2.0, delta=1e-4, scheme="must-ow", b=100, m=50, steps=20)
    spent = model.fit(X, y).privacy_
    assert 1.5 < spent.epsilon.lower <= spent.epsilon.upper <= 2.0
    assert (spent.delta, spent.steps, spent.relation) == (1e-4, 20, "replace_one")
    assert spent.scheme == md.must_ow(N, 100, 50)
    noise = md.gaussian(noise_multiplier=spent.noise_multiplier)
    again = md.account(md.repeat(20, md.subsample(spent.scheme, noise)))
    assert again.epsilon(1e-4).upper == spent.epsilon.upper


def test_the_defaults_work_on_tiny_data() -> None:
    model = DPLogisticRegression(delta=1e-3).fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    assert model.privacy_.epsilon.upper <= 1.0
    assert model.privacy_.scheme == md.wor(3, 1)
    assert model.n_iter_ == 100


@pytest.mark.parametrize(
    ("given", "scheme", "relation"),
    [
        ({"scheme": md.poisson(N + 7, 0.1)}, md.poisson(N + 7, 0.1), "add_remove"),
        (
            {"scheme": "poisson", "m": 40, "relation": "replace_one"},
            md.poisson(N, 0.1),
            "replace_one",
        ),
        (
            {"scheme": md.random_allocation(N + 7, 2)},
            md.random_allocation(N + 7, 2),
            "add_remove",
        ),
        (
            {"scheme": md.random_allocation(N, 3, times=2)},
            md.random_allocation(N, 3, times=2),
            "add_remove",
        ),
        ({"scheme": md.shuffle(N, 100)}, md.shuffle(N, 100), "replace_one"),
        ({"scheme": "must-ww"}, md.must_ww(N, 80, 40), "replace_one"),
        ({"scheme": "wr", "m": 7, "relation": "add_remove"}, md.wr(N, 7), "add_remove"),
        ({"scheme": md.multistage(N, [("wor", 50), ("wr", 9)])}, md.must_ow(N, 50, 9), None),
    ],
)
def test_any_scheme(given: dict[str, Any], scheme: Any, relation: str | None) -> None:
    X, y = line()
    spent = (
        DPLinearRegression(delta=1e-5, noise_multiplier=5.0, steps=3, **given).fit(X, y).privacy_
    )
    assert spent.scheme == scheme
    assert spent.relation == (relation or "replace_one")


def test_without_a_seed_no_warning_and_never_the_same() -> None:
    X, y = line()
    model = DPLinearRegression(delta=1e-5, noise_multiplier=5.0, steps=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = model.fit(X, y).coef_, model.fit(X, y).coef_
    assert not np.array_equal(first, second)


@pytest.mark.filterwarnings("default::mustdp.randomness.keys.SeededRelease")
def test_a_seed_warns_and_repeats() -> None:
    X, y = line()
    model = DPLinearRegression(delta=1e-5, noise_multiplier=5.0, steps=3, random_state=4)
    with pytest.warns(SeededRelease, match="random_state") as heard:
        first = model.fit(X, y).coef_
    assert heard[0].filename == __file__
    with pytest.warns(SeededRelease):
        again = clone(model).fit(X, y).coef_
    assert np.array_equal(first, again)


def test_the_loss_curve_stays_behind_when_a_model_is_saved() -> None:
    X, y = line()
    model = DPLinearRegression(keep_losses=True, delta=1e-5, noise_multiplier=5.0, steps=3).fit(
        X, y
    )
    for saved in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert not hasattr(saved, "loss_curve_")
        assert saved.privacy_ == model.privacy_
        assert np.array_equal(saved.predict(X), model.predict(X))
    assert hasattr(model, "loss_curve_")
    assert "NOT" in str(DPLinearRegression.__doc__)
    assert not hasattr(model.set_params(keep_losses=False).fit(X, y), "loss_curve_")


def test_a_batch_without_records_has_no_loss() -> None:
    X, y = line()
    scheme = md.poisson(N, 1e-9)
    model = DPLinearRegression(
        delta=1e-5, scheme=scheme, noise_multiplier=1.0, steps=2, keep_losses=True
    ).fit(X, y)
    assert np.isnan(model.loss_curve_).all()
    assert np.isfinite(model.coef_).all()


def test_start_and_schedule() -> None:
    X, y = line()
    steps: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, "steps": 4, "random_state": 1}
    still = DPLinearRegression(start=-1.0, learning_rate=lambda step: 0.0, **steps).fit(X, y)
    assert still.coef_.tolist() == [-1.0, -1.0]
    assert still.intercept_ == -1.0
    linear = DPLinearRegression(learning_rate=0.1, schedule="linear", **steps).fit(X, y)
    spelt = DPLinearRegression(learning_rate=lambda t: 0.1 * (1 - t / 4), **steps).fit(X, y)
    np.testing.assert_allclose(linear.coef_, spelt.coef_)


def test_no_intercept() -> None:
    X, y = line()
    model = DPLinearRegression(delta=1e-5, noise_multiplier=5.0, steps=3, fit_intercept=False).fit(
        X, y
    )
    assert model.intercept_ == 0.0


def test_single_precision_data_stays_single() -> None:
    X, y = blobs(4)
    given: dict[str, Any] = {"noise_multiplier": 2.0, "delta": 1e-5, "random_state": 3, "steps": 20}
    single = DPLogisticRegression(**given).fit(X.astype(np.float32), y)
    double = DPLogisticRegression(**given).fit(X, y)
    np.testing.assert_allclose(single.coef_, double.coef_, rtol=1e-4, atol=1e-4)


def test_it_takes_part_in_scikit_learn() -> None:
    X, y = blobs(2)
    model = DPLogisticRegression(delta=1e-5, noise_multiplier=2.0, steps=30, random_state=1)
    assert cross_val_score(model, X, y, cv=3).mean() > 0.9


def test_too_little_noise_is_said_to_be_unbounded() -> None:
    X, y = line()
    model = DPLinearRegression(delta=1e-5, noise_multiplier=1e-6, steps=1).fit(X, y)
    assert math.isinf(model.privacy_.epsilon.upper)
    assert model.privacy_.as_dict()["epsilon"]["upper"] is None


def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for name in [name for name in sys.modules if name.startswith("mustdp.training.linear")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=r"scikit-learn.*\[train\]"):
        importlib.import_module("mustdp.training.linear.models")


def test_labels_that_the_data_decide_are_said_to_be_public() -> None:
    X, y = blobs(2)
    model = DPLogisticRegression(delta=1e-5, noise_multiplier=2.0, steps=2)
    with pytest.warns(md.types.TakenAsPublic, match="which labels occur"):
        model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(classes=[0, 1]).fit(X, y)


def test_a_seeded_fit_is_an_experiment_and_has_no_epsilon() -> None:
    X, y = line()
    seeded = DPLinearRegression(delta=1e-5, noise_multiplier=5.0, steps=3, random_state=4).fit(X, y)
    data = seeded.privacy_.as_dict()
    assert data["seeded"] is True
    assert "epsilon" not in data
    assert not seeded.privacy_.certified
    fresh = DPLinearRegression(delta=1e-5, noise_multiplier=5.0, steps=3).fit(X, y).privacy_
    assert fresh.certified
    assert fresh.as_dict()["epsilon"] == data["epsilon_without_seed"]
    assert "seeded" not in fresh.as_dict()


def test_a_private_number_of_records_is_not_compared_with_the_estimate() -> None:
    X, y = line()
    poisson: dict[str, Any] = {"delta": 1e-5, "noise_multiplier": 5.0, "steps": 2}
    for estimate in (N - 150, N, 3 * N):
        model = DPLinearRegression(scheme=md.poisson(estimate, 0.1), **poisson).fit(X, y)
        assert model.privacy_.scheme == md.poisson(estimate, 0.1)
    with pytest.raises(md.InvalidParameter, match="data must have the n = 399 records"):
        DPLinearRegression(scheme=md.poisson(N - 1, 0.1), relation="replace_one", **poisson).fit(
            X, y
        )
    with pytest.raises(md.InvalidParameter, match="at least half") as caught:
        DPLinearRegression(scheme=md.poisson(N // 4, 0.1), **poisson).fit(X, y)
    assert str(N) not in str(caught.value)

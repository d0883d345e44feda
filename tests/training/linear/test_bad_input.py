"""Bad input: refused with the argument and the value named, before any step, nothing lost."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

import mustdp as md
from mustdp import DPLinearRegression, DPLogisticRegression, InvalidParameter

pytestmark = pytest.mark.filterwarnings("ignore::mustdp.training.linear.descent.TakenAsPublic")
X = np.random.default_rng(0).normal(size=(20, 3))
Y = np.arange(20) % 2


def refuse(*_: object) -> None:
    raise AssertionError("a step was made")


PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"scheme": "bernoulli"}, "scheme must be one of .*'bernoulli'"),
    ({"scheme": 3}, "scheme must be one of .*3"),
    ({"scheme": "wor", "m": 21}, "m must be at most n = 20 .*21"),
    ({"scheme": "poisson", "m": 21, "relation": "replace_one"}, "m must be .* 20, got 21"),
    ({"epochs": 2, "steps": 3}, "steps must be left out beside epochs=2"),
    ({"epochs": 0}, "epochs must be"),
    ({"l2": -1.0}, "l2 must be"),
    ({"l2": float("nan")}, "l2 must be"),
    ({"l2": 1.0, "learning_rate": 1.0}, "l2 times the learning rate must be below 1"),
    ({"scheme": "must-ow", "b": 30, "m": 5}, "b must be at most n = 20.*30"),
    ({"scheme": "must-oo", "b": 4, "m": 5}, "m must be at most b = 4.*5"),
    ({"scheme": "wor", "b": 3}, "b must not be given for wor.*3"),
    ({"m": 0}, "m must be .*0"),
    ({"m": 2.5}, "m must be an integer.*2.5"),
    ({"scheme": "must-ow", "m": "5"}, "m must be an integer.*'5'"),
    ({"scheme": md.wor(21, 5)}, "data must have the n = 21 records .*, got 20"),
    ({"scheme": md.wor(20, 5), "m": 5}, "must not be given beside a scheme object"),
    ({"scheme": md.poisson(20, 0.0)}, "scheme must draw at least one record"),
    ({"steps": 0}, "steps must be .*0"),
    ({"steps": 1.0}, "steps must be an integer.*1.0"),
    ({"max_grad_norm": 0.0}, "max_grad_norm must be .*>= 1e-30.*0.0"),
    ({"max_grad_norm": float("nan")}, "max_grad_norm must be .*nan"),
    ({"max_grad_norm": "auto"}, "max_grad_norm must be .*'auto'"),
    ({"learning_rate": -0.1}, "learning_rate must be .*-0.1"),
    ({"schedule": "steep"}, "schedule must be one of .*'steep'"),
    ({"start": float("inf")}, "start must be .*inf"),
    ({"fit_intercept": "yes"}, "fit_intercept must be .*'yes'"),
    ({"on_step": 3}, "on_step must be a function.*3"),
    ({"noise_multiplier": 0.0}, "noise_multiplier must be .*0.0"),
    ({"noise_multiplier": float("nan")}, "noise_multiplier must be .*nan"),
    ({"noise_multiplier": 1.0, "epsilon": 1.0}, "exactly one of .*epsilon and noise_multiplier"),
    ({"epsilon": -1.0}, "epsilon must be .*-1"),
    ({"delta": 1.0}, "delta must be .*1.0"),
    ({"delta": None}, "delta must be given.*n = 20, 0.001 or less"),
    ({"keep_losses": 2.5}, "keep_losses must be"),
    ({"relation": "swap"}, "relation must be .*'swap'"),
    ({"random_state": 1.5}, "random_state must be .*1.5"),
]


@pytest.mark.parametrize("model", [DPLinearRegression, DPLogisticRegression])
@pytest.mark.parametrize(("given", "message"), PARAMETERS)
def test_parameters_that_make_no_sense(model: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        model(**{"on_step": refuse, "delta": 1e-4, **given}).fit(X, Y)


DATA: list[tuple[Any, Any, str]] = [
    (X[:, 0], Y, "2D array"),
    (X, Y[:-1], "inconsistent numbers of samples"),
    (np.where(X > 1, np.nan, X), Y, "NaN"),
    (np.where(X > 1, np.inf, X), Y, "infinity"),
    (X[:0], Y[:0], "0 sample"),
    (X, None, "y"),
    (X, np.where(Y == 1, np.nan, Y), "NaN"),
    ([["HIV positive", "b"]] * 20, Y, "X and y must be arrays of numbers"),
]


@pytest.mark.parametrize("model", [DPLinearRegression, DPLogisticRegression])
@pytest.mark.parametrize(("rows", "labels", "message"), DATA)
def test_data_that_makes_no_sense(model: Any, rows: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        model(on_step=refuse).fit(rows, labels)
    assert "HIV" not in "".join(traceback.format_exception_only(caught.value))
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("classes", "labels", "message"),
    [
        ([0, 1], [0, 1, 2, 1] * 5, r"y must hold labels of classes = \[0, 1\] only, got others"),
        ([0], Y, "classes must be a list of two or more"),
        ([0, 0, 1], Y, "classes must be a list of two or more"),
        (None, [1] * 20, "at least two classes"),
        (None, np.linspace(0, 1, 20), "Unknown label type"),
    ],
)
def test_labels_that_make_no_sense(classes: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DPLogisticRegression(classes=classes, on_step=refuse).fit(X, labels)


def test_a_failed_fit_leaves_the_earlier_one_alone() -> None:
    model = DPLogisticRegression(noise_multiplier=3.0, delta=1e-4, steps=2, classes=[0, 1]).fit(
        X, Y
    )
    before = {name: getattr(model, name) for name in ("coef_", "intercept_", "privacy_")}
    with pytest.raises(InvalidParameter):
        model.set_params(m=50).fit(X, Y)
    assert all(getattr(model, name) is value for name, value in before.items())


def test_predictions_check_their_rows_too() -> None:
    model = DPLinearRegression(noise_multiplier=3.0, delta=1e-4, steps=2).fit(X, Y)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        model.predict(X * np.nan)

"""Do the errors of a linear model quote the records it was given?

Validation in scikit-learn prints the array, or the entry that is no number, and a message goes into
logs and reports. Looked at is all that is printed: the error, its causes and its contexts.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import sparse

import mustdp as md

N = 12
#: A number and a text that occur nowhere but in the data.
NUMBER, TEXT = 271828.5, "HIV positive"
ROWS = np.random.default_rng(0).normal(size=(N, 3))
LABELS = np.arange(N) % 2
pytestmark = [
    pytest.mark.filterwarnings("ignore::mustdp.training.linear.descent.TakenAsPublic"),
    pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning"),
]


class Unreadable:
    """Something that says what it holds when it is read."""

    shape, ndim = (N, 3), 2

    def __len__(self) -> int:
        return N

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise ValueError(f"Input X contains {TEXT}")

    def __repr__(self) -> str:
        return TEXT


def frame() -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"a": [NUMBER] * N, "b": [TEXT] * N, "c": [1.0] * N})


def series() -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.Series([NUMBER] * N)


BAD_ROWS: dict[str, Any] = {
    "one axis": np.full(N, NUMBER),
    "no axis": np.float64(NUMBER),
    "a number": NUMBER,
    "a text": TEXT,
    "none": None,
    "three axes": np.full((N, 3, 2), NUMBER),
    "complex": np.full((N, 3), complex(NUMBER, 1.0)),
    "complex list": [[complex(NUMBER, 1.0)] * 3] * N,
    "objects": np.array([[TEXT, NUMBER, None]] * N, dtype=object),
    "dictionaries": [[{TEXT: NUMBER}, 1.0, 2.0]] * N,
    "a dictionary": {TEXT: [NUMBER] * N},
    "texts": [[TEXT, "b", "c"]] * N,
    "bytes": np.array([[TEXT.encode()] * 3] * N),
    "ragged": [[NUMBER, 1.0], [NUMBER]] * (N // 2),
    "sparse": sparse.csr_array(np.where(ROWS > 0, np.nan, NUMBER)),
    "missing": np.where(ROWS > 0, np.nan, NUMBER),
    "infinite": np.where(ROWS > 0, np.inf, NUMBER),
    "fewer rows": np.full((N - 1, 3), NUMBER),
    "no rows": np.empty((0, 3)),
    "no columns": np.empty((N, 0)),
    "a huge integer": [[10**400 + 271828, 1.0, 2.0]] * N,
    "unreadable": Unreadable(),
    "a frame with text": frame,
    "a series": series,
}
BAD_TARGETS: dict[str, Any] = {
    **{k: v for k, v in BAD_ROWS.items() if k not in ("one axis", "a series")},
    "complex, one axis": np.full(N, complex(NUMBER, 1.0)),
    "texts, one axis": [TEXT, "other"] * (N // 2),
    "objects, one axis": np.array([TEXT, NUMBER, None] * (N // 3), dtype=object),
    "missing, one axis": np.array([np.nan, NUMBER] * (N // 2)),
    "infinite, one axis": np.array([np.inf, NUMBER] * (N // 2)),
    "missing object": np.array([None, TEXT] * (N // 2), dtype=object),
    "fewer": np.full(N - 1, NUMBER),
}
MODELS = {"linear": md.DPLinearRegression, "logistic": md.DPLogisticRegression}


def chain_of(problem: BaseException | None) -> Iterator[BaseException]:
    """The error with all causes and contexts, those that are not shown included."""
    seen: list[BaseException | None] = [problem]
    while seen:
        link = seen.pop()
        if link is not None:
            yield link
            seen += [link.__cause__, link.__context__]


def check_quiet(call: Any, *given: Any) -> None:
    """A call may succeed or be refused, but what it prints quotes no value."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        caught: Exception | None = None
        try:
            call(*given)
        except Exception as problem:
            caught = problem
    links = list(chain_of(caught))
    texts = [f"{link} {link!r} {link.args!r} {vars(link)!r}" for link in links]
    texts += ["".join(traceback.format_exception(link)) for link in links]
    for text in (*texts, *(str(one.message) for one in warned)):
        for secret in ("271828", TEXT):
            assert secret not in text
    if caught is None:
        return
    assert links == [caught]
    assert isinstance(caught, md.MustdpError)
    assert "\n" not in str(caught)


def given(value: Any) -> Any:
    """The value, or what a function makes, which skips where pandas is missing."""
    return value() if callable(value) else value


def fitted(name: str) -> Any:
    model = MODELS[name](noise_multiplier=3.0, delta=1e-4, steps=1)
    return model.fit(ROWS, LABELS)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("case", BAD_ROWS)
def test_rows_are_not_quoted(name: str, case: str, tmp_path: Any) -> None:
    rows = given(BAD_ROWS[case])
    model = MODELS[name](noise_multiplier=3.0, delta=1e-4, steps=1)
    with pytest.raises(md.MustdpError):  # each of them is refused
        model.fit(rows, LABELS)
    check_quiet(model.fit, rows, LABELS)
    ledger = tmp_path / "ledger"
    md.Ledger.open(ledger, epsilon=10.0, delta=1e-3).close()
    check_quiet(model.set_params(ledger=ledger).fit, rows, LABELS)
    check_quiet(lambda: md.reproduction.fit_chains(model, rows, LABELS, seeds=[1]))
    made = fitted(name)
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(made, method):
            check_quiet(getattr(made, method), rows)
    check_quiet(made.score, rows, LABELS)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("case", BAD_TARGETS)
def test_targets_are_not_quoted(name: str, case: str) -> None:
    targets = given(BAD_TARGETS[case])
    model = MODELS[name](noise_multiplier=3.0, delta=1e-4, steps=1)
    check_quiet(model.fit, ROWS, targets)
    check_quiet(lambda: md.reproduction.fit_chains(model, ROWS, targets, seeds=[1]))
    if name == "logistic":
        check_quiet(model.set_params(classes=[0, 1]).fit, ROWS, targets)
        check_quiet(model.set_params(classes=["a", "b"]).fit, ROWS, targets)
    check_quiet(fitted(name).score, ROWS, targets)
    check_quiet(fitted(name).score, ROWS, LABELS, targets)


@pytest.mark.parametrize("name", MODELS)
def test_names_of_columns_are_not_quoted_either(name: str) -> None:
    """A file that was read without its header has values for names."""
    pandas = pytest.importorskip("pandas")
    model = MODELS[name](noise_multiplier=3.0, delta=1e-4, steps=1)
    model.fit(pandas.DataFrame(ROWS, columns=["a", "b", "c"]), LABELS)
    check_quiet(model.predict, pandas.DataFrame(ROWS, columns=["a", TEXT, str(NUMBER)]))


@pytest.mark.parametrize("case", ["one axis", "a series", "texts", "complex"])
def test_what_is_wrong_is_said_all_the_same(case: str) -> None:
    words = {"one axis": "2D", "a series": "2D", "texts": "numbers", "complex": "real"}
    rows = given(BAD_ROWS[case])
    with pytest.raises(md.InvalidParameter, match=words[case]):
        md.DPLinearRegression(delta=1e-4).fit(rows, LABELS)

"""Bad input of every kind is refused, naming the argument, the value and what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mustdp as md
from tests.seams import scheme_from_description

NAMED: dict[str, tuple[Callable[..., md.types.Scheme], dict[str, Any]]] = {
    "poisson": (md.poisson, {"n": 100}),
    "wor": (md.wor, {"n": 100, "m": 20}),
    "wr": (md.wr, {"n": 100, "m": 20}),
    "must_ow": (md.must_ow, {"n": 100, "b": 50, "m": 20}),
    "must_ww": (md.must_ww, {"n": 100, "b": 50, "m": 20}),
    "must_wo": (md.must_wo, {"n": 100, "b": 50, "m": 20}),
    "must_oo": (md.must_oo, {"n": 100, "b": 50, "m": 20}),
}
NOT_SIZES = [
    0,
    -1,
    1.0,
    2.5,
    float("nan"),
    float("inf"),
    True,
    np.True_,
    "10",
    b"10",
    None,
    [5],
    np.array([5, 6]),
    1j,
    2**53 + 1,
    10**400,
]
NOT_RATES = [-0.1, 1.1, float("nan"), float("inf"), -float("inf"), "0.5", None, True, [0.5], 1j]


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 40 else f"{text[:8]}…"


@pytest.mark.parametrize("value", NOT_SIZES, ids=shown)
@pytest.mark.parametrize(
    ("name", "argument"),
    [(name, argument) for name, (_, good) in NAMED.items() for argument in good],
)
def test_sizes(name: str, argument: str, value: Any) -> None:
    make, good = NAMED[name]
    arguments = {"rate": 0.1, **good} if name == "poisson" else good
    with pytest.raises(md.InvalidParameter) as refusal:
        make(**{**arguments, argument: value})
    message = str(refusal.value)
    assert message.startswith(f"{argument} must be an integer from 1 to {2**53}, got ")
    assert str(value) in message or repr(value) in message


@pytest.mark.parametrize("rate", NOT_RATES, ids=shown)
def test_rates(rate: Any) -> None:
    with pytest.raises(md.InvalidParameter) as refusal:
        md.poisson(100, rate)
    message = str(refusal.value)
    assert message == f"rate must be a finite number >= 0 and <= 1, got {rate!r}"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: md.wor(10, 11), "m must be at most n = 10 when drawn without replacement, got 11"),
        (lambda: md.must_ow(10, 11, 3), "b must be at most n = 10 when drawn without"),
        (lambda: md.must_wo(10, 4, 5), "m must be at most b = 4 when drawn without .* got 5"),
        (lambda: md.must_oo(10, 11, 5), "b must be at most n = 10 .* got 11"),
        (lambda: md.must_oo(10, 4, 5), "m must be at most b = 4 .* got 5"),
        (
            lambda: md.multistage(10, [("wr", 7), ("wor", 8)]),
            "size of stage 2 must be at most size of stage 1 = 7 .* got 8",
        ),
        (lambda: md.multistage(10, [("wor", 11)]), "size of stage 1 must be at most n = 10 .* 11"),
    ],
)
def test_stages_that_ask_for_more_than_there_is(make: Any, message: str) -> None:
    with pytest.raises(md.InvalidParameter, match=message):
        make()


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], r"stages must be a non-empty list of .* got \(\)"),
        (7, "stages must be a list of pairs .* got 7"),
        (None, "stages must be a list of pairs .* got None"),
        ("wor", "stage 1 must be a .* pair .* got 'w'"),
        (["wor"], "stage 1 must be a .* pair .* got 'wor'"),
        ([("wor", 3), ("wr",)], r"stage 2 must be a .* pair .* got \('wr',\)"),
        ([("wor", 3, 4)], "stage 1 must be a .* pair"),
        ([("WOR", 3)], "kind of stage 1 must be one of 'wor', 'wr', got 'WOR'"),
        ([(3, "wor")], "kind of stage 1 must be one of 'wor', 'wr', got 3"),
        ([("wr", 3), ("wr", 0)], "size of stage 2 must be an integer from 1 .* got 0"),
        ([("wr", True)], "size of stage 1 must be an integer from 1 .* got True"),
        ([("wr", 2.0)], "size of stage 1 must be an integer from 1 .* got 2.0"),
    ],
)
def test_lists_of_stages(stages: Any, message: str) -> None:
    with pytest.raises(md.InvalidParameter, match=message):
        md.multistage(10, stages)


def test_the_class_itself_checks_too() -> None:
    with pytest.raises(md.InvalidParameter, match=r"stages must be a non-empty list .* got 3"):
        md.types.Multistage(5, 3)  # type: ignore[arg-type]
    with pytest.raises(md.InvalidParameter, match="rate must be a finite number"):
        md.types.Poisson(5, float("nan"))


@pytest.mark.parametrize("scheme", [md.poisson(10, 0.5), md.wr(10, 4)], ids=str)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group": 0}, "group must be an integer from 1 to 10, got 0"),
        ({"group": 11}, "group must be an integer from 1 to 10, got 11"),
        ({"group": 1.0}, "group must be an integer from 1 to 10, got 1.0"),
        ({"tail": float("nan")}, "tail must be a finite number >= 0 and < 1, got nan"),
        ({"tail": -1e-9}, "tail must be a finite number >= 0 and < 1, got -1e-09"),
        ({"tail": 1.0}, "tail must be a finite number >= 0 and < 1, got 1.0"),
        ({"tail": "0"}, "tail must be a finite number >= 0 and < 1, got '0'"),
    ],
)
def test_arguments_of_the_law(scheme: md.types.Scheme, arguments: Any, message: str) -> None:
    with pytest.raises(md.InvalidParameter, match=message):
        scheme.law(**arguments)


@pytest.mark.parametrize("rng", [7, "7", np.random, np.random.PCG64(1), float("nan")], ids=shown)
def test_generators(rng: Any) -> None:
    with pytest.raises(md.InvalidParameter, match=r"rng must be a numpy.random.Generator or None"):
        md.wr(10, 4).draw(rng)


def test_integers_of_any_type_are_welcome() -> None:
    scheme = md.must_ow(np.int64(100), np.uint8(50), np.int32(20))  # type: ignore[arg-type]
    assert scheme == md.must_ow(100, 50, 20)
    assert type(scheme.n) is int
    assert md.poisson(10, np.float32(0.5)).rate == 0.5  # type: ignore[arg-type]
    assert md.poisson(10, 1).rate == 1.0


@pytest.mark.parametrize("name", NAMED)
def test_descriptions_are_read_back(name: str) -> None:
    make, good = NAMED[name]
    scheme = make(**good, rate=0.3) if name == "poisson" else make(**good)
    assert scheme_from_description(scheme.describe()) == scheme


@pytest.mark.parametrize(
    "description",
    [
        None,
        {},
        [],
        "wr",
        {"scheme": "wr", "n": 10},
        {"scheme": "wr", "n": 10, "rate": 0.1},
        {"scheme": "poisson", "n": 10, "stages": [["wr", 3]]},
        {"scheme": "wor", "n": 10, "stages": [["wr", 3]]},
        {"scheme": "wr", "n": 10, "stages": [["wr", 3]], "extra": 1},
        {"scheme": "wr", "n": "10", "stages": [["wr", 3]]},
        {"scheme": "wr", "n": 10, "stages": [["wr"]]},
        {"scheme": "wr", "n": 10, "stages": None},
        {"scheme": "poisson", "n": 10, "rate": float("nan")},
        {"scheme": ["poisson"], "n": 10, "rate": 0.5},
    ],
    ids=shown,
)
def test_damaged_descriptions_are_refused(description: Any) -> None:
    with pytest.raises(md.InvalidParameter, match="must be"):
        scheme_from_description(description)

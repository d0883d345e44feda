"""Every public object that answers questions, its questions, and eight threads that ask at once.

What a thread hears is compared, to the last bit, with what another copy of the object answers when
it is asked alone.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import mustdp as md

THREADS = 8
STEP = md.subsample(md.must_ow(60, 12, 3), md.gaussian(noise_multiplier=3.0))


class Asked(NamedTuple):
    """How an object is made, and what it is asked."""

    make: Callable[[], Any]
    questions: Mapping[str, Callable[[Any], Any]]
    picklable: bool = True


def exact(value: Any) -> Any:
    """The same for equal answers and for no others."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, float):
        return value.hex()
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, tuple(exact(getattr(value, f.name)) for f in fields(value))
    if isinstance(value, Mapping):
        return tuple((key, exact(one)) for key, one in value.items())
    if isinstance(value, tuple | list):
        return tuple(map(exact, value))
    return repr(value)


def _account(**options: Any) -> Any:
    return md.account(md.repeat(10, STEP), **{"accuracy": 0.02, **options})


def _family() -> Any:
    step = md.subsample(md.wor(30, 3), md.gaussian(noise_multiplier=3.0))
    return md.account(md.repeat(3, step), composition="family", accuracy=0.05)


def _drawn(scheme: Any) -> Any:
    batch = scheme.draw(np.random.default_rng(5))
    return batch.indices, batch.counts


def _batches(design: Any) -> Any:
    return [(rank, one.indices, one.counts) for rank, one in design.draws(3, 0, 6)]


def _ledger() -> md.Ledger:
    ledger = md.Ledger()
    ledger.step(STEP, 25)
    ledger.step(md.laplace(shift=0.5))
    return ledger


def _ledger_file() -> Any:
    folder = tempfile.mkdtemp()
    ledger = md.Ledger.open(Path(folder) / "a.ledger", epsilon=9, delta=1e-6)
    for _ in range(3):
        ledger.charge(STEP)
    return ledger


def _bootstrap() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return md.private_bootstrap(
            np.linspace(0, 1, 300), ["mean", "median"], lower=0, upper=1, design=md.wor(300, 30),
            replicates=20, noise_multiplier=5.0, delta=1e-5, seed=1,
        )  # fmt: skip


_ACCOUNT: dict[str, Callable[[Any], Any]] = {
    "epsilon": lambda one: one.epsilon(1e-5),
    "smaller delta": lambda one: one.epsilon(1e-9),
    "delta": lambda one: one.delta(0.5),
}
_VIEWS: dict[str, Callable[[Any], Any]] = {
    "curve": lambda one: one.curve([0.1, 0.5, 2.0]),
    "renyi": lambda one: one.renyi([2.0, 8.0]),
    "tradeoff": lambda one: one.tradeoff([0.01, 0.5]),
}
_SCHEME: dict[str, Callable[[Any], Any]] = {
    "law": lambda one: one.law(),
    "law of a group": lambda one: one.law(3),
    "distinct": lambda one: one.expected_distinct,
    "draw": _drawn,
    "one step": lambda one: md.one_step(one, md.gaussian(noise_multiplier=2.0), [0.1, 1.0]).upper,
}
_MECHANISM: dict[str, Callable[[Any], Any]] = {
    "one step": lambda one: md.one_step(md.wor(50, 5), one, [0.1, 1.0]).upper,
    "account": lambda one: md.account(md.repeat(3, md.subsample(md.wr(50, 5), one))).epsilon(1e-4),
    "shown": repr,
}
OBJECTS: dict[str, Asked] = {
    "account": Asked(_account, _ACCOUNT),
    # Views share tables, so that the order of different ones shows in the last bit.
    **{name: Asked(_account, {name: view}) for name, view in _VIEWS.items()},
    "account of a family": Asked(_family, {"epsilon": lambda one: one.epsilon(1e-5)}),
    "paper's account": Asked(lambda: _account(method="paper"), {
        "epsilon": lambda one: one.epsilon(1e-5), "delta": lambda one: one.delta(0.5),
    }),
    "poisson": Asked(lambda: md.poisson(500, 0.02), _SCHEME),
    "must-ow": Asked(lambda: md.must_ow(200, 40, 12), _SCHEME),
    "multistage": Asked(lambda: md.multistage(60, [("wor", 30), ("wr", 12), ("wr", 6)]), _SCHEME),
    "gaussian": Asked(lambda: md.gaussian(noise_multiplier=1.5), _MECHANISM),
    "laplace": Asked(lambda: md.laplace(shift=0.4), _MECHANISM),
    "design": Asked(lambda: md.estimation.double_bootstrap(90, b=30, m=20, subsets=3, reuse=2), {
        "draws": _batches, "shown": repr,
    }),
    "calibration": Asked(
        lambda: md.calibrate(md.wor(500, 20), steps=50, epsilon=1.0, delta=1e-5), {
            "noise": lambda one: one.noise_multiplier,
            "again": lambda one: md.account(one.plan).epsilon(1e-5),
            "shown": repr,
        },
    ),
    "comparison": Asked(
        lambda: md.compare(n=30, m=3, b=9, steps=3, noise_multiplier=4.0, delta=1e-3), {
            "rows": lambda one: one.rows, "shown": str,
        },
    ),
    "ledger": Asked(_ledger, {
        "epsilon": lambda one: one.epsilon(1e-5), "delta": lambda one: one.delta(0.5),
        "text": lambda one: one.to_json(), "steps": lambda one: one.steps,
    }),
    "ledger file": Asked(_ledger_file, {
        "spent": lambda one: one.spent(), "left": lambda one: one.left(),
        "fixed": lambda one: one.standing().fixed, "steps": lambda one: one.steps,
    }, picklable=False),
    "bootstrap": Asked(_bootstrap, {
        "table": str, "data": lambda one: one.as_dict(), "median": lambda one: one["median"],
    }),
}  # fmt: skip


def alone(asked: Asked) -> dict[str, Any]:
    """The answers of a fresh object to one asker."""
    made = asked.make()
    return {name: exact(ask(made)) for name, ask in asked.questions.items()}


def asked_by_threads(asked: Asked, rng: random.Random, rounds: int = 1) -> tuple[int, list[str]]:
    """How many answers eight threads got from one fresh object, and which of them were wrong."""
    expected, made = alone(asked), asked.make()
    wrong: list[str] = []
    start = threading.Barrier(THREADS)
    orders = [rng.sample(list(asked.questions) * rounds, len(asked.questions) * rounds)
              for _ in range(THREADS)]  # fmt: skip

    def ask(order: list[str]) -> None:
        start.wait()
        for name in order:
            try:
                if exact(asked.questions[name](made)) != expected[name]:
                    wrong.append(f"{name}: another answer")
            except Exception as problem:
                wrong.append(f"{name}: {problem!r}")

    threads = [threading.Thread(target=ask, args=(order,)) for order in orders]
    with switching_often():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return sum(map(len, orders)), wrong


@contextmanager
def switching_often() -> Iterator[None]:
    """Let the interpreter change threads a few hundred times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(2e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)

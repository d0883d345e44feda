"""What no theorem covers, and what is no number, is refused with a reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import mustdp as md
from tests.seams import replace_attained, replace_certified_curve

NOISE = md.gaussian(noise_multiplier=3.0)
STEP = md.subsample(md.wor(200, 20), NOISE)
SMALL = md.subsample(md.wor(10, 3), md.laplace(shift=0.5))
POISSON = md.poisson(100, 0.1)
CUSTOM = md.custom(lambda e: 0.1 * np.exp(-np.asarray(e)))


@pytest.mark.parametrize(
    "build",
    [
        # reuse under add_remove
        lambda: md.account(
            md.subsample(md.wor(50, 10), md.repeat(2, md.subsample(md.wr(10, 5), NOISE))),
            relation="add_remove",
        ),
        # another stage inside Poisson sampling
        lambda: md.subsample(POISSON, STEP),
        lambda: md.subsample(POISSON, md.repeat(3, STEP)),
        # n of n - 1 records
        lambda: md.account(md.subsample(md.wor(20, 20), NOISE), relation="add_remove"),
        lambda: md.account(md.subsample(md.must_oo(20, 20, 20), NOISE), relation="add_remove"),
        # what a custom profile does not say
        lambda: md.account(md.subsample(POISSON, CUSTOM), relation="replace_one").delta(0.1),
        lambda: md.account(
            md.subsample(POISSON, md.repeat(2, CUSTOM)), relation="replace_one"
        ).delta(0.1),
        lambda: md.account(
            md.subsample(md.wor(200, 100), md.subsample(POISSON, CUSTOM)), relation="replace_one"
        ),
        lambda: md.account(
            md.subsample(md.wor(200, 100), md.subsample(POISSON, NOISE)), relation="add_remove"
        ),
        # section 4 outside its theorem
        lambda: md.account(STEP, relation="add_remove", method="one-slope"),
        lambda: md.account(
            md.subsample(POISSON, NOISE), relation="replace_one", method="one-slope"
        ),
        lambda: md.account(
            md.subsample(md.wor(50, 10), md.repeat(2, NOISE)), method="one-slope"
        ),
    ],
)  # fmt: skip
def test_not_covered(build: Callable[[], object]) -> None:
    with pytest.raises(md.NotCovered):
        build()


@pytest.mark.parametrize(
    "build",
    [
        lambda: md.subsample(md.wor(200, 20), md.subsample(md.wr(21, 5), NOISE)),
        lambda: md.subsample(md.wor(200, 20), md.repeat(2, md.subsample(md.wr(200, 5), NOISE))),
        lambda: md.subsample(md.wor(200, 201), NOISE),
        lambda: md.subsample("wor", NOISE),  # type: ignore[call-overload]
        lambda: md.subsample(md.wor(200, 20), "gaussian"),  # type: ignore[call-overload]
        lambda: md.repeat(3, md.wor(200, 20)),  # type: ignore[arg-type]
        lambda: md.sequence(),
        lambda: md.sequence(STEP, None),  # type: ignore[arg-type]
        lambda: md.account(STEP, relation="replace-one"),
        lambda: md.account(STEP, accuracy=0.0),
        lambda: md.account(STEP, accuracy=float("nan")),
        lambda: md.account(STEP, method="exact"),
        lambda: md.account(STEP, method="section4"),  # a word of the command line only
        lambda: md.gaussian(noise_multiplier=0.0),
        lambda: md.gaussian(noise_multiplier=float("nan")),
        lambda: md.gaussian(noise_multiplier=-1.0),
        lambda: md.gaussian(noise_multiplier=float("inf")),
        lambda: md.gaussian(),
        lambda: md.laplace(noise_multiplier=1.0, shift=1.0),
        lambda: md.one_step(md.wor(10, 2), NOISE, 1.0, group=11),
    ],
)
def test_invalid(build: Callable[[], object]) -> None:
    with pytest.raises(md.InvalidParameter):
        build()


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, 2.0, 1e-26, float("nan"), True, "1e-5", None])
def test_deltas(delta: float, steps: int) -> None:
    account = md.account(md.repeat(steps, STEP))
    with pytest.raises(md.InvalidParameter, match="delta"):
        account.epsilon(delta)
    with pytest.raises(md.InvalidParameter, match="delta"):
        account.certified_epsilon(delta)


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("epsilon", [-1e-9, 501.0, float("nan"), float("inf"), None, "1"])
def test_epsilons(epsilon: float, steps: int) -> None:
    account = md.account(md.repeat(steps, STEP))
    with pytest.raises(md.InvalidParameter, match="epsilon"):
        account.delta(epsilon)
    with pytest.raises(md.InvalidParameter, match="epsilon"):
        account.curve([0.1, epsilon])


def test_views_check_their_arguments() -> None:
    account = md.account(md.repeat(5, STEP))
    for orders in ([1.0], [0.5], [float("nan")], []):
        with pytest.raises(md.InvalidParameter, match="orders"):
            account.renyi(orders)
    for fpr in ([-0.1], [1.1], [float("nan")]):
        with pytest.raises(md.InvalidParameter, match="fpr"):
            account.tradeoff(fpr)


def test_contradicting_bounds_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the attained value came out above the certified one, no number would be trusted."""
    account = md.account(md.repeat(5, STEP))
    replace_attained(monkeypatch, "best", lambda self, question: (1e3, "broken"))
    with pytest.raises(md.NumericalFailure, match="contradict"):
        account.epsilon(1e-5)
    with pytest.raises(md.NumericalFailure, match="contradict"):
        account.delta(1.0)


def test_an_account_reads_its_relation_as_text_too() -> None:
    """A relation that is only equal to its name must not be taken for the other one."""
    for relation in ("replace_one", "add_remove"):
        by_hand = md.types.Account(STEP, relation, 1e-3, "certified")  # type: ignore[arg-type]
        assert by_hand.relation is md.types.Relation.read(relation)
        assert by_hand.delta(0.5) == md.account(STEP, relation=relation).delta(0.5)
    with pytest.raises(md.InvalidParameter, match="relation"):
        md.types.Account(STEP, "swap", 1e-3, "certified")  # type: ignore[arg-type]


def test_bounds_that_contradict_each_other_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = md.repeat(2, SMALL)
    replace_attained(monkeypatch, "best", lambda self, question: (9.0, "aligned"))
    with pytest.raises(md.NumericalFailure, match="contradict"):
        md.account(plan).delta(0.1)
    with pytest.raises(md.NumericalFailure, match="contradict"):
        md.account(plan).epsilon(1e-3)
    replace_attained(monkeypatch, "curve", lambda self, eps, smallest: np.full(eps.size, 0.9))
    replace_certified_curve(monkeypatch, lambda self, eps, smallest: np.full(eps.size, 0.5))
    with pytest.raises(md.NumericalFailure, match="contradict"):
        md.account(plan).curve([0.1, 0.2])


def test_a_draw_of_everything_hidden_in_a_sequence_is_refused() -> None:
    everything = md.subsample(md.wor(10, 10), md.gaussian(shift=1.0))
    for plan in (
        everything,
        md.repeat(3, everything),
        md.sequence(SMALL, everything),
        md.repeat(2, md.sequence(SMALL, md.repeat(2, everything))),
    ):
        with pytest.raises(md.NotCovered, match="add_remove"):
            md.account(plan, relation="add_remove")
        assert md.account(plan, relation="replace_one").steps >= 1


def test_more_records_of_one_person_than_there_are() -> None:
    for inner in (NOISE, md.repeat(5, md.subsample(md.wor(4, 2), NOISE))):
        with pytest.raises(md.InvalidParameter, match="group must be an integer from 1 to 2"):
            md.account(md.subsample(md.wr(2, 4), inner), group=3, relation="replace_one").epsilon(
                1e-6
            )

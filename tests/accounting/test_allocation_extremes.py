"""Random allocation at any noise: bounds or a refusal, never a failure, and no collapses."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

import mustdp as md
from mustdp.accounting.epochs.add_remove import AllocationProfile
from mustdp.accounting.epochs.observed import maximum_pair
from mustdp.accounting.epochs.replace_one import ReplacedProfile

BOTH = ("add_remove", "replace_one")


def _account(
    z: float,
    bins: int,
    relation: str,
    *,
    epochs: int = 1,
    times: int = 1,
    group: int = 1,
    accuracy: float | None = None,
) -> md.types.Account:
    epoch = md.random_allocation(10**7, bins, times)
    plan = md.repeat(epochs, md.subsample(epoch, md.gaussian(noise_multiplier=z)))
    return md.account(plan, relation=relation, group=group, accuracy=accuracy)


@pytest.mark.parametrize(
    ("z", "bins", "relation", "more"),
    [
        (0.052, 3, "add_remove", {}),
        (0.075, 500, "replace_one", {}),
        (0.045, 1460, "replace_one", {}),
        (0.05, 10**6, "add_remove", {}),
        (1e-9, 3, "add_remove", {}),
        (1e-9, 10**6, "add_remove", {}),
        (1e-9, 10**6, "replace_one", {}),
        (1e-9, 1, "replace_one", {}),
        (1e9, 10**6, "add_remove", {}),
        (1e9, 10, "replace_one", {}),
        (7.76e-6, 360, "replace_one", {"times": 10}),
        (4.47e-8, 121, "replace_one", {"times": 2}),
        (3.2e-7, 211, "add_remove", {"group": 3, "epochs": 50}),
        (1.19e-7, 40214, "replace_one", {"epochs": 3}),
        (0.0751, 1000, "replace_one", {"group": 3}),
    ],
)
def test_no_noise_ends_in_a_failure(
    z: float, bins: int, relation: str, more: dict[str, int]
) -> None:
    accounted = _account(z, bins, relation, **more)
    for found in (accounted.epsilon(1e-5), accounted.epsilon(0.999), accounted.delta(500.0)):
        assert 0.0 <= found.lower <= found.upper
        if math.isinf(found.upper) or (found.lower, found.upper) == (0.0, 1.0):
            assert found.coarse  # nothing is known, and it says so
            assert found.numerical_gap == found.upper - found.lower
    with pytest.raises(md.InvalidParameter):
        accounted.epsilon(1e-300)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("delta", [1e-5, 1e-6])
def test_bounds_of_neighbouring_noises_are_close_and_in_order(relation: str, delta: float) -> None:
    noises = np.arange(0.735, 0.7601, 0.005)
    found = [_account(float(z), 59, relation).epsilon(delta) for z in noises]
    for less, more in itertools.pairwise(found):
        assert more.upper <= less.upper
        assert more.lower <= less.lower + less.numerical_gap
        # What more noise gives away, less noise does.
        assert more.lower <= less.upper
    for bounds in found:
        assert bounds.upper - bounds.lower <= 1e-3 * bounds.upper


@pytest.mark.parametrize(("z", "bins"), [(0.052, 3), (0.075, 500), (0.0573, 2)])
def test_with_hardly_any_noise_the_largest_batch_tells_all(z: float, bins: int) -> None:
    found = _account(z, bins, "add_remove").epsilon(1e-5)
    assert found.upper - found.lower <= 1e-3 * found.upper
    # One batch of many, its Gaussian noise as it is, and no more hidden than in which one it is.
    alone = md.account(md.gaussian(noise_multiplier=z), relation="add_remove").epsilon(1e-5)
    assert alone.lower - math.log(bins) - 1.0 <= found.upper <= alone.upper


def test_a_block_whose_two_hulls_do_not_meet_is_scanned_as_a_whole() -> None:
    profile = AllocationProfile(1.0 / 0.745, 59, 59, backward=False)
    for number in range(10):
        block = profile._block(number)
        assert np.all(block.lower >= block.upper * (1.0 - 4e-3))
        assert np.all(block.lower <= block.upper)


def test_where_one_kind_of_sum_fails_the_other_serves() -> None:
    profile = ReplacedProfile(2.0, 10**6, 10**6)
    for epsilon in (1.84, 1.86, 1.95):
        upper = float(profile(np.array([epsilon]))[0])
        assert 0.99 * upper <= profile.attained(epsilon) <= upper


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize(("z", "bins", "delta"), [(0.745, 59, 1e-5), (0.5, 10**6, 1e-12)])
def test_one_epoch_has_the_accuracy_that_was_asked_for(
    relation: str, z: float, bins: int, delta: float
) -> None:
    found = _account(z, bins, relation).epsilon(delta)
    assert not found.coarse
    assert found.numerical_gap == found.upper - found.lower <= 1e-3 * found.upper


def test_finer_tables_serve_accuracies_that_the_first_ones_do_not() -> None:
    first = _account(0.745, 59, "add_remove").epsilon(1e-5)
    finer = _account(0.745, 59, "add_remove", accuracy=2e-5).epsilon(1e-5)
    assert first.lower <= finer.lower <= finer.upper <= first.upper
    assert finer.numerical_gap == finer.upper - finer.lower <= 2e-5 * finer.upper
    assert finer.numerical_gap < first.numerical_gap


def test_what_tables_cannot_give_is_refused_or_said() -> None:
    with pytest.raises(md.NumericalFailure, match="could not be brought below"):
        _account(0.0634, 708, "replace_one", accuracy=1e-3).epsilon(0.5)
    found = _account(0.0634, 708, "replace_one").epsilon(0.5)
    assert found.coarse
    assert found.numerical_gap == found.upper - found.lower


@pytest.mark.parametrize("relation", BOTH)
def test_many_epochs_say_how_far_off_tables_are(relation: str) -> None:
    found = _account(1.0, 100, relation, epochs=3).epsilon(1e-5)
    assert found.numerical_gap == found.upper - found.lower
    assert not found.coarse
    coarse = _account(0.06, 50, "replace_one", epochs=2).delta(100.0)
    assert coarse.upper - coarse.lower <= 4e-3 * coarse.upper or coarse.coarse


def test_a_record_in_several_bins_has_its_numerical_part_estimated() -> None:
    found = _account(2.0, 50, "add_remove", times=3).epsilon(1e-5)
    assert 0.0 < found.numerical_gap < found.upper - found.lower
    assert not found.coarse


@pytest.mark.parametrize("batches", [1, 3])
def test_far_moves_are_seen_nearer_by_in_proportion(batches: int) -> None:
    pair = maximum_pair("far", 5, 200.0, 199.5, moved=batches)
    # As many Gaussian releases that are moved by the difference tell no less.
    shift = 0.5 * math.sqrt(batches)
    assert pair.attained(0.0) <= math.erf(shift / math.sqrt(8.0))
    assert maximum_pair("far", 5, 200.0, 100.0, moved=batches).attained(500.0) > 0.99


def test_many_epochs_with_hardly_any_noise_attain_no_less_than_one() -> None:
    one, several = (_account(1e-6, 159, "add_remove", epochs=count) for count in (1, 10))
    assert one.delta(10.0).lower > 0.999
    assert several.delta(10.0).lower > 0.999


def test_the_largest_of_several_moved_batches() -> None:
    x = np.linspace(-6.0, 12.0, 4001)
    head = norm.cdf(x)
    with_record, without = norm.cdf(x - 3.0) ** 2 * head**3, head**5
    best = float(np.max((1.0 - with_record) - np.exp(0.4) * (1.0 - without)))
    found = maximum_pair("largest", 5, 3.0, 0.0, moved=2).attained(0.4)
    assert best * (1.0 - 1e-5) <= found <= best * (1.0 + 1e-5)

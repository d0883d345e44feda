"""A record in several distinct bins of an epoch: the right law, near misses, portions of it."""

from __future__ import annotations

import json
from itertools import combinations, product

import numpy as np
import pytest

import mustdp as md
from mustdp.sampling.epochs import BinRange, distinct_bins, epoch_from_description
from tests.sampling.chi_square import ACCEPT, REJECT, p_value

BINS, TIMES = 5, 2
PAIRS = tuple(combinations(range(BINS), TIMES))


def where(batches: tuple[md.types.Batch, ...], record: int) -> tuple[int, ...]:
    return tuple(k for k, batch in enumerate(batches) if record in batch.indices)


def rows(count: int, bins: int, times: int, seed: int) -> list[tuple[int, ...]]:
    drawn = distinct_bins(count, bins, times, np.random.default_rng(seed))
    return [tuple(sorted(row)) for row in drawn.tolist()]


def test_every_set_of_bins_is_equally_likely() -> None:
    law = dict.fromkeys(PAIRS, 1 / len(PAIRS))
    assert p_value(rows(20_000, BINS, TIMES, 1), law) > ACCEPT
    rng = np.random.default_rng(2)
    start = rng.integers(BINS, size=20_000)
    consecutive = [tuple(sorted((int(k), int((k + 1) % BINS)))) for k in start]
    assert p_value(consecutive, law) < REJECT
    again = [tuple(sorted(pair)) for pair in rng.integers(BINS, size=(20_000, 2)).tolist()]
    assert p_value(again, law) < REJECT
    # Where a bin is taken already, the next one instead: distinct, and not uniform.
    nearly = [tuple(sorted((a, b if a != b else (b + 1) % BINS))) for a, b in again]
    assert p_value(nearly, law) < REJECT


def test_sets_of_three_and_of_all_but_one() -> None:
    for times in (3, BINS - 1):
        sets = tuple(combinations(range(BINS), times))
        drawn = rows(20_000, BINS, times, times)
        assert p_value(drawn, dict.fromkeys(sets, 1 / len(sets))) > ACCEPT
    assert set(rows(50, BINS, BINS, 1)) == {tuple(range(BINS))}


def test_many_bins_are_looked_up_in_a_table() -> None:
    bins, times = 80, 70
    drawn = distinct_bins(10_000, bins, times, np.random.default_rng(3))
    assert all(len(set(row)) == times for row in drawn.tolist())
    missing = [bin for row in drawn.tolist() for bin in sorted(set(range(bins)) - set(row))[:1]]
    # The smallest of the 10 bins that are missing, as for a uniform set of 10.
    law = {0: 10 / 80, 1: 70 / 80 * 10 / 79}
    law[2] = 1.0 - sum(law.values())
    assert p_value([min(bin, 2) for bin in missing], law) > ACCEPT
    assert p_value([min(bin, 2) for bin in missing], {0: 0.1, 1: 0.1, 2: 0.8}) < REJECT


def test_two_records_are_independent() -> None:
    epoch, rng = md.random_allocation(4, 3, times=2), np.random.default_rng(4)
    drawn = [epoch.draw(rng) for _ in range(5000)]
    sets: list[tuple[int, ...]] = list(combinations(range(3), 2))
    law = dict.fromkeys(product(sets, sets), 1 / 9)
    assert p_value([(where(one, 0), where(one, 3)) for one in drawn], law) > ACCEPT
    # Two records that always share their bins.
    assert p_value([(where(one, 0), where(one, 0)) for one in drawn], law) < REJECT


def test_a_record_is_in_so_many_batches_and_at_most_once_in_one() -> None:
    epoch = md.random_allocation(40, 7, times=3)
    drawn = list(epoch.batches(3, epochs=2))
    for part in (drawn[:7], drawn[7:]):
        assert sorted(i for batch in part for i in batch.rows()) == sorted(list(range(40)) * 3)
        assert all(np.all(np.diff(batch.indices) > 0) for batch in part)
        assert all(set(batch.counts) <= {1} for batch in part)
    assert drawn[:7] != drawn[7:]
    assert epoch.expected_size == 40 * 3 / 7
    assert epoch.eta == pytest.approx(3 / 7)


def test_one_bin_is_drawn_as_ever() -> None:
    """The batches of a seed are a promise; these were drawn before there were several bins."""
    whole = BinRange(10, 4, 1, 0, 4, lambda: np.random.default_rng(5))
    bins = np.random.default_rng(5).integers(4, size=10, dtype=np.uint32)
    for number in range(4):
        assert whole.batch(number).indices.tolist() == np.flatnonzero(bins == number).tolist()


def test_descriptions_say_how_many_where_it_is_not_one() -> None:
    epoch = md.random_allocation(9, 4, times=3)
    assert epoch.describe() == {"scheme": "allocation", "n": 9, "bins": 4, "times": 3}
    assert epoch_from_description(json.loads(json.dumps(epoch.first(2).describe()))) == (
        epoch.first(2)
    )
    assert "times" not in md.random_allocation(9, 4).describe()
    with pytest.raises(md.InvalidParameter, match="description"):
        epoch_from_description({"scheme": "shuffle", "n": 9, "m": 3, "times": 2})


@pytest.mark.parametrize("times", [0, 5, 2.5, float("nan"), True])
def test_only_as_many_as_there_are(times: float) -> None:
    with pytest.raises(md.InvalidParameter, match="times"):
        md.random_allocation(9, 4, times=times)  # type: ignore[arg-type]

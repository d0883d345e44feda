"""Epochs: every record once, the right law, and streams that go on anywhere."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from itertools import product

import numpy as np
import pytest

import mustdp as md
from mustdp.randomness.keys import EPOCHS, Substreams
from mustdp.sampling.epochs import BinRange, epoch_from_description, portion_of
from mustdp.types import BatchStream
from tests.sampling.chi_square import ACCEPT, REJECT, p_value, p_value_of_counts

EPOCHS_OF_TWELVE: list[md.types.Epoch] = [md.random_allocation(12, 5), md.shuffle(12, 5)]
BINS = 3


def bins_of(batches: tuple[md.types.Batch, ...], *records: int) -> tuple[int, ...]:
    where = {int(i): k for k, batch in enumerate(batches) for i in batch.indices}
    return tuple(where[record] for record in records)


@pytest.mark.parametrize("epoch", EPOCHS_OF_TWELVE, ids=str)
def test_every_record_is_in_one_batch_of_every_epoch(epoch: md.types.Epoch) -> None:
    drawn = list(epoch.batches(3, epochs=2))
    assert len(drawn) == 2 * epoch.bins
    for part in (drawn[: epoch.bins], drawn[epoch.bins :]):
        assert sorted(i for batch in part for i in batch.rows()) == list(range(12))
    assert drawn[: epoch.bins] != drawn[epoch.bins :]
    assert all(set(batch.counts) <= {1} for batch in drawn)


def test_shuffled_batches_have_their_size() -> None:
    assert [batch.size for batch in md.shuffle(12, 5).draw()] == [5, 5, 2]


def test_allocation_has_the_joint_law_of_two_records() -> None:
    epoch, rng = md.random_allocation(6, BINS), np.random.default_rng(11)
    seen = [bins_of(epoch.draw(rng), 0, 4) for _ in range(6000)]
    law = dict.fromkeys(product(range(BINS), repeat=2), 1 / BINS**2)
    assert p_value(seen, law) > ACCEPT
    # Shuffling keeps records apart, and one bin a little heavier is another law.
    shuffled = md.shuffle(6, 2)
    assert p_value([bins_of(shuffled.draw(rng), 0, 4) for _ in range(6000)], law) < REJECT
    chances = np.array([0.30, 0.35, 0.35])
    heavier: dict[tuple[int, ...], float] = {
        pair: float(chances[list(pair)].prod()) for pair in law
    }
    assert p_value(seen, heavier) < REJECT


def test_sizes_of_bins_are_multinomial() -> None:
    epoch, rng = md.random_allocation(4, 2), np.random.default_rng(12)
    seen = Counter(epoch.draw(rng)[0].size for _ in range(5000))
    binomial = dict(enumerate(np.array([1, 4, 6, 4, 1]) / 16))
    assert p_value_of_counts(seen, binomial) > ACCEPT
    assert p_value_of_counts(seen, dict(enumerate(np.array([1, 5, 6, 3, 1]) / 16))) < REJECT


def test_records_of_different_epochs_are_independent() -> None:
    stream = md.random_allocation(1, 2).batches(5, epochs=8000)
    first = [batch.size for batch in stream][::2]
    pairs = list(zip(first[::2], first[1::2], strict=True))
    assert p_value(pairs, dict.fromkeys(product((0, 1), repeat=2), 0.25)) > ACCEPT


@pytest.mark.parametrize(("key", "times"), [(None, 1), (9, 1), (9, 3)])
def test_portions_are_the_whole(key: int | None, times: int) -> None:
    from mustdp.randomness.keys import batch_key

    n, bins, held = 3000, 17, 400
    generators = Substreams(batch_key(key), EPOCHS)
    whole = BinRange(n, bins, times, 0, bins, lambda: generators.at(4))
    for number in range(bins):
        first, stop = portion_of(n * times, bins, number, held)
        assert first <= number < stop
        part = BinRange(n, bins, times, first, stop, lambda: generators.at(4))
        assert part.batch(number) == whole.batch(number)
    assert portion_of(n, bins, 16) == (0, bins)


@pytest.mark.parametrize(
    "epoch", [*EPOCHS_OF_TWELVE, md.random_allocation(12, 5, times=2)], ids=str
)
def test_streams_go_on_and_split(epoch: md.types.Epoch) -> None:
    whole = list(epoch.batches(7, epochs=3))
    stream = epoch.batches(7, epochs=3)
    head = [next(stream) for _ in range(4)]
    state = json.loads(json.dumps(stream.state))
    assert head + list(BatchStream.restore(state, epoch)) == whole
    assert head + list(pickle.loads(pickle.dumps(stream))) == whole
    ranks = epoch.batches(7, epochs=3).split(2)
    numbered = sorted((k, b.rows().tolist()) for rank in ranks for k, b in rank.numbered())
    assert [rows for _, rows in numbered] == [b.rows().tolist() for b in whole]
    with pytest.raises(md.InvalidParameter, match="state"):
        BatchStream.restore(state, md.random_allocation(13, 5))


def test_descriptions_are_read_back() -> None:
    for epoch in (
        *EPOCHS_OF_TWELVE,
        md.random_allocation(9, 4).first(3),
        md.shuffle(9, 4).first(1),
    ):
        assert epoch_from_description(json.loads(json.dumps(epoch.describe()))) == epoch
    for wrong in ({}, {"scheme": "allocation", "n": 5}, {"scheme": "shuffle", "n": 5, "bins": 2}):
        with pytest.raises(md.InvalidParameter, match="description"):
            epoch_from_description(wrong)


def test_only_released_batches_are_drawn() -> None:
    epoch = md.random_allocation(100, 5).first(2)
    assert len(epoch.draw()) == 2
    with pytest.raises(md.InvalidParameter, match="first 2 batches"):
        epoch.batches(1).batch(3)

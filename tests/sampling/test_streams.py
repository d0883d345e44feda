"""Streams: reproducible, restartable in the middle, and the same for any number of workers."""

from __future__ import annotations

import copy
import json
import pickle
import sys
import threading
from collections.abc import Callable
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustdp as md
from mustdp.types import BatchStream
from tests.sampling.chi_square import ACCEPT, REJECT, p_value
from tests.sampling.exact_laws import Counts, joint_law
from tests.seams import digest


def bad(value: Any) -> Any:
    """Something that the type checker would have refused."""
    return value


SCHEMES: list[md.types.Scheme] = [
    md.poisson(1000, 0.02),
    md.wor(1000, 20),
    md.wr(1000, 20),
    md.must_ow(1000, 50, 20),
    md.must_ww(1000, 50, 20),
    md.multistage(1000, [("wr", 90), ("wor", 50), ("wr", 20)]),
]
SCHEME = SCHEMES[3]


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_a_seed_reproduces_the_stream(scheme: md.types.Scheme) -> None:
    first, second = (list(scheme.batches(7, count=30)) for _ in range(2))
    assert first == second
    assert len(first) == 30
    assert first != list(scheme.batches(8, count=30))
    assert all(a != b for a, b in pairwise(first))


def test_without_a_seed_the_entropy_is_fresh_and_known() -> None:
    one, two = SCHEME.batches(), SCHEME.batches()
    assert one.key != two.key
    assert one.seed is None
    assert next(one) == SCHEME.batches(one.key).batch(0)
    assert one.remaining is None


def test_any_batch_can_be_had_at_once() -> None:
    stream = SCHEME.batches(3)
    listed = list(islice(SCHEME.batches(3), 12))
    assert [stream.batch(t) for t in (11, 0, 5, 5)] == [listed[t] for t in (11, 0, 5, 5)]
    assert stream.position == 0
    stream.batch(2**53 - 1)
    assert next(stream) == listed[0]


@given(st.integers(0, 40), st.integers(1, 9), st.integers(1, 4), st.integers(0, 45))
@settings(max_examples=60, deadline=None)
def test_shards_make_up_the_unsplit_stream(
    count: int, workers: int, again: int, already: int
) -> None:
    whole = dict(SCHEME.batches(11, count=count).numbered())
    stream = SCHEME.batches(11, count=count)
    shared = dict(islice(stream.numbered(), already))
    for shard in stream.split(workers):
        for part in shard.split(again):
            remaining = part.remaining
            found = list(part.numbered())
            assert len(found) == remaining
            assert not shared.keys() & dict(found).keys()
            shared.update(found)
    assert shared == whole
    assert list(whole) == list(range(count))


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("stop_after", [0, 1, 17])
def test_a_stream_goes_on_where_it_stopped(scheme: md.types.Scheme, stop_after: int) -> None:
    straight = list(scheme.batches(5, count=25))
    stream = scheme.batches(5, count=25)
    before = list(islice(stream, stop_after))
    restored = BatchStream.restore(json.loads(json.dumps(stream.state)), scheme)
    assert restored.scheme == scheme
    assert restored.state == stream.state
    assert before + list(restored) == straight


def test_a_shard_goes_on_where_it_stopped() -> None:
    shard = SCHEME.batches(5, count=50).shard(1, 3)
    before = list(islice(shard, 4))
    after = list(BatchStream.restore(json.loads(json.dumps(shard.state))))
    assert before + after == list(SCHEME.batches(5, count=50).shard(1, 3))


def test_exhausted_and_empty_streams_can_be_saved() -> None:
    for stream in (SCHEME.batches(1, count=0), SCHEME.batches(1, count=3)):
        list(stream)
        assert list(BatchStream.restore(stream.state)) == []
        assert stream.remaining == 0
    far = SCHEME.batches(1, count=2).shard(0, 2**53).shard(0, 2**53)
    assert len(list(far)) == 1
    assert list(BatchStream.restore(far.state)) == []


def test_streams_travel_to_other_processes() -> None:
    stream = SCHEME.batches(9, count=9)
    next(stream)
    sent = pickle.loads(pickle.dumps(stream))
    assert list(sent) == list(stream)


def test_batches_of_a_stream_have_the_law() -> None:
    """Fresh counters for each batch must not spoil the joint law over many of them."""
    scheme = md.must_ow(4, 3, 3)
    vectors: list[Counts] = [
        tuple(np.bincount(batch.rows(), minlength=4).tolist())
        for batch in scheme.batches(19, count=20_000)
    ]
    assert p_value(vectors, joint_law(scheme)) > ACCEPT
    assert p_value(vectors, joint_law(md.wr(4, 3))) < REJECT
    law = joint_law(scheme)
    pairs = list(zip(vectors[0::2], vectors[1::2], strict=True))
    product = {(a, b): law[a] * law[b] for a in law for b in law}
    assert p_value(pairs, product) > ACCEPT


def test_a_seed_shares_nothing_with_numpy_generators_of_that_seed() -> None:
    """Noise drawn from the same seed, or from its spawned children, is not the batches' noise."""
    raw = SCHEME.batches(4)._generators.at(0).integers(2**63, size=4).tolist()
    source = np.random.SeedSequence(4)
    for child in (source, *source.spawn(5)):
        for bits in (np.random.PCG64, np.random.Philox):
            theirs = np.random.Generator(bits(child)).integers(2**63, size=4).tolist()
            assert not set(raw) & set(theirs)


def test_batches_share_no_random_numbers() -> None:
    generators = SCHEME.batches(4)._generators
    words = [
        generators.at(t).integers(2**63, size=500).tolist() for t in (0, 1, 2, 3, 2**32, 2**52)
    ]
    assert len({word for some in words for word in some}) == 6 * 500


def resealed(state: dict[str, Any]) -> dict[str, Any]:
    """A state with a right checksum over wrong contents."""
    body = {key: value for key, value in state.items() if key != "checksum"}
    return {**body, "checksum": digest(body, "state")[:16]}


STATE = SCHEME.batches(5, count=25).state


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (None, "state must be what BatchStream.state gives"),
        ([], "state must be"),
        ({}, "state must be"),
        ({**STATE, "format": "other"}, "state must be"),
        ({**STATE, "version": 2}, "version of the state must be 1, got 2"),
        ({**STATE, "version": True}, "version of the state must be 1, got True"),
        ({**STATE, "extra": 1}, "exactly .* got a difference in extra"),
        ({k: v for k, v in STATE.items() if k != "seed"}, "got a difference in seed"),
        ({**STATE, "position": 3}, "undamaged"),
        ({**STATE, "seed": "0" * 31 + "6"}, "undamaged"),
        ({**STATE, "checksum": "0" * 16}, "undamaged"),
        ({**STATE, "scheme": md.wr(10, 3).describe()}, "undamaged"),
        ({**STATE, "scheme": {1, 2}}, "plain JSON"),
        (resealed({**STATE, "position": -1}), "position must be an integer from 0 .* got -1"),
        (resealed({**STATE, "position": 2.5}), "position must be an integer .* got 2.5"),
        (resealed({**STATE, "stride": 0}), "stride must be an integer from 1 .* got 0"),
        (resealed({**STATE, "stop": "9"}), "stop must be an integer .* got '9'"),
        (resealed({**STATE, "seed": 7}), "seed of the state must be 32 hexadecimal .* got 7"),
        (resealed({**STATE, "seed": "x" * 32}), "seed of the state must be 32 hexadecimal"),
        (resealed({**STATE, "seed": "0x" + "1" * 30}), "seed of the state must be 32 hexadecimal"),
        (resealed({**STATE, "scheme": {"scheme": "wr", "n": 10}}), "description must be"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_state_that_is_not_ours_is_refused(state: object, message: str) -> None:
    with pytest.raises(md.InvalidParameter, match=message):
        BatchStream.restore(state)


def test_a_state_of_another_scheme_is_refused() -> None:
    with pytest.raises(md.InvalidParameter, match=r"state must be that of .*size=21.* got one of"):
        BatchStream.restore(STATE, md.must_ow(1000, 50, 21))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SCHEME.batches(-1), "seed must be an integer from 0 .* got -1"),
        (lambda: SCHEME.batches(bad(1.5)), "seed must be an integer .* got 1.5"),
        (lambda: SCHEME.batches(True), "seed must be an integer .* got True"),
        (lambda: SCHEME.batches(2**128), "seed must be an integer"),
        (lambda: SCHEME.batches(1, count=-1), "count must be an integer from 0 .* got -1"),
        (lambda: SCHEME.batches(1, count=bad("3")), "count must be an integer .* got '3'"),
        (lambda: SCHEME.batches(1).batch(-1), "number must be an integer from 0 .* got -1"),
        (lambda: SCHEME.batches(1, count=4).batch(4), "number must be an integer from 0 to 3"),
        (lambda: SCHEME.batches(1).shard(3, 3), "worker must be an integer from 0 to 2, got 3"),
        (lambda: SCHEME.batches(1).shard(0, 0), "of must be an integer from 1 .* got 0"),
        (lambda: SCHEME.batches(1).split(0), "workers must be an integer from 1 .* got 0"),
        (lambda: BatchStream(bad(3)), "scheme must be a mustdp scheme, got 3"),
    ],
)
def test_bad_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(md.InvalidParameter, match=message):
        call()


@pytest.mark.parametrize(
    "scheme",
    [md.wor(300, 20), md.must_ow(300, 40, 20), md.poisson(300, 0.1), md.random_allocation(300, 6)],
    ids=lambda scheme: scheme.name,
)
@pytest.mark.parametrize("seed", [None, 3])
def test_threads_that_draw_from_one_stream_get_every_batch_once(
    scheme: Any, seed: int | None
) -> None:
    """Threads inside of one generator at once would repeat batches, or mix them."""
    stream = BatchStream(scheme, seed, stop=240)
    expected = list(copy.copy(stream).numbered())
    found: list[tuple[int, md.types.Batch]] = []

    def draw() -> None:
        found.extend(stream.numbered())

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=draw) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    found.sort(key=lambda one: one[0])
    assert [number for number, _ in found] == list(range(240))
    for (_, batch), (_, known) in zip(found, expected, strict=True):
        assert batch == known


def _pickled(stream: BatchStream) -> BatchStream:
    sent: BatchStream = pickle.loads(pickle.dumps(stream))
    return sent


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, _pickled])
def test_a_copy_is_a_stream_of_its_own(copied: Callable[[BatchStream], BatchStream]) -> None:
    """It begins where the stream is, and drawing from either moves the other nowhere."""
    stream = md.wor(300, 20).batches(count=9)
    next(stream)
    other = copied(stream)
    mine = [next(stream), next(stream)]
    assert other.position == 1
    assert [next(other), next(other)] == mine
    assert stream.remaining == 6
    assert copied(md.wor(300, 20).batches()).remaining is None

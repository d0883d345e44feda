"""Batches: frozen, equal as multisets, and strict about what they are made of."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import mustdp as md


def batch(indices: object, counts: object) -> md.types.Batch:
    return md.types.Batch(indices, counts)  # type: ignore[arg-type]


def test_a_batch_keeps_copies() -> None:
    indices, counts = np.array([3, 1]), np.array([2, 1])
    made = md.types.Batch(indices, counts)
    indices[0] = 7
    assert made.indices.tolist() == [3, 1]
    assert made.rows().tolist() == [3, 3, 1]
    assert (made.size, made.distinct) == (3, 2)
    with pytest.raises(ValueError, match="read-only"):
        made.counts[0] = 5


def test_batches_are_equal_as_multisets() -> None:
    assert batch([3, 1], [2, 1]) == batch([1, 3], [1, 2])
    assert batch([3, 1], [2, 1]) != batch([3, 1], [1, 2])
    assert batch([3, 1], [2, 1]) != batch([3], [2])
    assert batch([], []) == batch([], [])
    assert batch([], []) != [1]


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))]
)
def test_a_copied_batch_is_frozen_too(again: object) -> None:
    made = batch([3, 1], [2, 1])
    copied = again(made)  # type: ignore[operator]
    assert copied == made
    assert not copied.indices.flags.writeable
    assert not copied.counts.flags.writeable


@pytest.mark.parametrize(
    ("indices", "counts", "message"),
    [
        ([1, 1], [1, 1], "indices must be distinct"),
        ([1, 2], [1], "counts must hold one entry for each of the 2 indices, got 1"),
        ([-1, 2], [1, 1], "indices must be .* integers >= 0, got -1"),
        ([1, 2], [1, 0], "counts must be .* integers >= 1, got 0"),
        ([1.0, 2.0], [1, 1], "indices must be .* integers"),
        ([1, 2], [True, True], "counts must be .* integers"),
        ([[1, 2]], [1, 1], "indices must be a one-dimensional list"),
        ([[1], [2, 3]], [1, 1], "indices must be a one-dimensional list"),
        ("12", [1, 1], "indices must be"),
        (None, [1], "indices must be"),
        ([2**63], [1], r"below 2\*\*63"),
    ],
)
def test_what_is_no_batch_is_refused(indices: object, counts: object, message: str) -> None:
    with pytest.raises(md.InvalidParameter, match=message):
        batch(indices, counts)


def test_a_batch_cannot_be_hashed() -> None:
    with pytest.raises(TypeError):
        hash(batch([1], [1]))

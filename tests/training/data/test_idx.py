"""The idx format."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from mustdp import InvalidParameter
from tests.seams import read_idx, write_idx


@given(arrays(np.uint8, array_shapes(max_dims=3, max_side=5, min_side=0)))
def test_what_was_written_is_read(array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
    assert np.array_equal(read_idx(write_idx(array), "test"), array)


@given(st.binary(max_size=40))
def test_any_other_bytes_are_refused_or_read_whole(content: bytes) -> None:
    with contextlib.suppress(InvalidParameter):
        assert write_idx(read_idx(content, "test")) == content


def test_sizes_that_no_array_has() -> None:
    many_axes = bytes([0, 0, 8, 200]) + bytes(4 * 200)
    huge = bytes([0, 0, 8, 4]) + bytes(4) + b"\xff" * 12
    for content in (many_axes, huge):
        with pytest.raises(InvalidParameter, match="labels must"):
            read_idx(content, "labels")


@pytest.mark.parametrize("cut", [0, 3, 6, -1])
def test_a_file_that_was_cut_off(cut: int) -> None:
    whole = write_idx(np.arange(6, dtype=np.uint8).reshape(2, 3))
    with pytest.raises(InvalidParameter, match="labels must"):
        read_idx(whole[:cut], "labels")

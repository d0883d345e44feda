"""The 8 x 8 handwritten digits that come with scikit-learn: the embedded example."""

from __future__ import annotations

import numpy as np

from mustdp.extras import required
from mustdp.training.data.dataset import DataSet, split_in_order


def load_digits() -> DataSet:
    """1,797 digits, pixels scaled to [0, 1]; the first 1,347 for training, the last 450 to test.

    The order is that of the source, in which writers follow one another, so that most test digits
    are by writers who are not in the training records.
    """
    bunch = required("sklearn.datasets", "the digits").load_digits()
    return split_in_order(
        "digits",
        np.asarray(bunch.data, dtype=np.float64) / 16.0,
        np.asarray(bunch.target, dtype=np.int64),
        tuple(map(str, range(10))),
        tuple(f"pixel {row},{column}" for row in range(8) for column in range(8)),
    )

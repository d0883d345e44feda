"""The kinds of arrays this package works with, and the rounding of their numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Unit roundoff of double precision: one operation is off by at most this fraction of its result.
ROUNDOFF = 2.0**-53

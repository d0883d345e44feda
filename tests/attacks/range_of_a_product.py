"""The attack of Mironov 2012: could this value have come out of a multiplication by the scale?

Noise in floating point is ``scale * g`` with g a double. Not every double is such a product. A sum
of zero leaves all released values among them, any other sum leaves some of them outside.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def products(values: NDArray[np.float64], scale: float) -> NDArray[np.bool_]:
    """Whether there is a double whose product with ``scale`` is the value, for every value."""
    around = values / scale
    near = [np.nextafter(around, -np.inf), around, np.nextafter(around, np.inf)]
    found: NDArray[np.bool_] = np.any([scale * x == values for x in near], axis=0)
    return found

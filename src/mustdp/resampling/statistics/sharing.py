"""Several blocks in one release: how far the noise of each must be raised so that z stays z.

The contract of a block is that noise of standard deviation ``z * reach`` gives noise multiplier
z. It must hold for the *whole* vector. Let swapping one copy move block b by c_b, with ``c_b <= 2
* own_b`` for its own bound own_b, and let the noise on it be ``z * reach_b``. Measured in units
of the noise, the vector moves by ``sqrt(sum_b (c_b / (z * reach_b))^2)``, and the shift of noise
multiplier z is 2/z. So what is needed is

    sum_b (c_b / (2 * reach_b))^2 <= 1      whatever is swapped.                             (*)

*Shares.* With shares w_b > 0, ``sum_b w_b^2 <= 1``, and ``reach_b = own_b / w_b``, the sum in (*)
is at most ``sum_b (own_b / reach_b)^2 = sum_b w_b^2 <= 1``. For Poisson subsets, one copy more or
less moves block b by at most own_b, the shift is 1/z, and the same two lines hold without the
factors 2.

A query may also prove (*) directly, when its blocks cannot all move farthest at once
(``moments.py``). Parts that satisfy (*) each can be shared once more: dividing every reach of
part i by w_i multiplies part i's sum by w_i^2 <= 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.numerics import checks
from mustdp.numerics.cost import Cost, check_cost
from mustdp.resampling.statistics.query import Block

#: Bytes for every coordinate of a release (places, lattice, noise, matrices), and for its totals,
#: with and without noise, on every subset.
_PER_COORDINATE, _PER_TOTAL = 160, 32


def block(label: str, width: int, reach: float, divisor: float = 1.0, shift: float = 0.0) -> Block:
    """A block whose reach is a positive number; what over- or underflowed is refused."""
    if not 0.0 < reach < math.inf:
        raise NumericalFailure(f"the reach of {label} came out as {reach!r}")
    return Block(label, width, reach, divisor, shift)


def enlarged(one: Block, share: float) -> Block:
    """The block with its reach divided by ``share`` (w_b above), a number in (0, 1]."""
    return block(one.label, one.width, one.reach / share, one.divisor, one.shift)


def shares(name: str, weights: Sequence[float] | None, count: int) -> tuple[float, ...]:
    """Shares w_i with ``sum w_i^2 = 1``, proportional to ``weights``; equal ones for None."""
    if weights is None:
        return (1.0 / math.sqrt(count),) * count
    given = checks.reals(name, weights, at_least=0.0)
    if given.size != count:
        raise InvalidParameter(f"{name} must have {count} entries, got {given.size}")
    largest = float(given.max())
    if not given.min() > 0.0:
        raise InvalidParameter(f"{name} must be numbers > 0, got {float(given.min())!r}")
    scaled = given / largest
    found = scaled / math.sqrt(float(scaled @ scaled))
    if not found.min() > 1e-9:
        raise InvalidParameter(
            f"{name} must not differ by more than a factor of about 1e9, got {weights!r}"
        )
    return tuple(float(share) for share in found)


def check_held(argument: str, width: int, releases: int) -> None:
    """Refuse ``releases`` vectors of ``width`` coordinates that do not fit into memory."""
    size = float(width) * (_PER_COORDINATE + _PER_TOTAL * float(releases))
    check_cost(argument, f"a release of {releases} x {width} numbers", Cost(bytes=size))

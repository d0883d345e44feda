"""How much shorter than C a record is clipped, so that rounding cannot carry it beyond C.

The sum that is released differs from the sum of the clipped contributions in real arithmetic by E
at most: by the rounding of products and sums in double precision, and by the rounding to a lattice.
Contributions are clipped to C' <= C - 2 E. Replacing a record that was drawn j >= 1 times then
moves the sum by 2 j C' + 2 E <= 2 j C at most, adding one by j C' + 2 E <= j C, and the plan's
noise multiplier is what it was. C' depends on sizes that are settled before the first step and on
nothing in the data. The derivation is in docs/derivations/clipping.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.numerics import checks
from mustdp.training.networks.rounding import gamma

#: Bounds C that are taken: no weight and no weighted product underflows or overflows in between.
SMALLEST_CLIP, LARGEST_CLIP = 1e-30, 1e30
#: By how much the terms of a record may cancel before it is scaled down further, at most.
_CANCELLATION = 2**10
#: Share of C that the rounding of sums should not exceed; the above is reduced for it, but not
#: below what terms of random signs at some hundred places come to.
_AIM, _USUAL = 2.0**-10, 16
#: Share of C that rounding may take in all; beyond it the sizes are refused.
_MOST = 2.0**-7
#: The lattice is finer than the noise by this factor, unless the integers would not fit.
_BELOW_NOISE = 2.0**-24
#: Sums are integers below this on the lattice, so that doubles hold them exactly.
_INTEGERS = 2.0**52
#: The noise has at most so many steps, which is as fine as it can be made exactly.
_FINEST = 2.0**-32


@dataclass(frozen=True)
class Workload:
    """The most that one step may ask for, whatever the data are.

    ``copies`` are records with their counts, over all processes; ``terms`` products are added up
    in one entry of the sum over a piece of the batch; ``pieces`` are added up by one process.
    """

    copies: int
    terms: int
    pieces: int
    parameters: int
    processes: int = 1


@dataclass(frozen=True)
class Bound:
    """What a contribution is scaled down to, and the lattice its sum is rounded to.

    ``inner`` is C', ``cancellation`` the largest ratio of absolute size to C', ``step`` a power of
    two and ``error`` the E that all of it was derived from.
    """

    clip: float
    inner: float
    cancellation: float
    step: float
    error: float
    workload: Workload

    def check(self, terms: int, pieces: int) -> None:
        """Refuse a step that asks for more than the error was derived for."""
        most = self.workload
        if not (terms <= most.terms and pieces <= most.pieces):
            raise NumericalFailure(
                "a step is larger than the bound on its rounding was derived for, with more than "
                f"{most.terms} terms in a sum or {most.pieces} pieces; all records must have the "
                "shape of those the model was tried on. Nothing of it was released"
            )

    def check_size(self, copies: int) -> None:
        """Refuse a batch of more records than the error was derived for."""
        if not copies <= self.workload.copies:
            raise NumericalFailure(
                f"a batch has more than the {self.workload.copies} records that the bound on its "
                "rounding was derived for. Nothing of it was released"
            )


def check_clip(clip: object) -> float:
    """The bound C as a number in the range that the arithmetic is proven for."""
    return checks.real("clip", clip, at_least=SMALLEST_CLIP, at_most=LARGEST_CLIP)


def bound_for(clip: float, deviation: float, workload: Workload) -> Bound:
    """The bound for contributions of norm ``clip`` under noise of this deviation."""
    relative = gamma(workload.terms + workload.pieces + 3) * workload.copies
    cancellation = float(_CANCELLATION)
    while cancellation > 1.0 and cancellation * relative > (
        _AIM if cancellation > _USUAL else _MOST / 2.0
    ):
        cancellation /= 2.0
    step = _step(clip, deviation, workload)
    in_lattice = workload.processes * math.sqrt(workload.parameters) * step / 2.0
    error = (cancellation * relative * clip + in_lattice) * (1.0 + 2.0**-40)
    if not error <= _MOST * clip:
        raise InvalidParameter(
            f"rounding could move the sum by {error / clip:.2g} times clip, which leaves too "
            f"little of it: batches of up to {workload.copies} records and "
            f"{workload.parameters} parameters are too many; smaller batches or max_rows help"
        )
    inner = (clip - 2.0 * error) * (1.0 - 2.0**-48)
    return Bound(clip, inner, cancellation, step, error, workload)


def _step(clip: float, deviation: float, workload: Workload) -> float:
    """The lattice: far below the noise, fine enough for many parameters, and fit for integers."""
    among = workload.processes * math.sqrt(workload.parameters)
    fine = min(deviation * _BELOW_NOISE, clip * 2.0**-12 / among)
    fits = max(2.0 * workload.copies * clip / _INTEGERS, deviation * _FINEST)
    if fine <= fits:
        return 2.0 ** math.ceil(math.log2(fits))
    return 2.0 ** max(math.floor(math.log2(fine)), math.ceil(math.log2(fits)))

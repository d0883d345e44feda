"""Named pairs for plans that reuse a subset: what an observer sees who adds the releases up.

The data holder's pair is the aligned (reversed, symmetric) one of ``amplification/attained.py`` in
every release. With Gaussian noise of equal size in all R releases, their sum over sqrt(R) is one
Gaussian release in which the record counts T times, T = the copies summed over the releases, with
shift s / sqrt(R). Adding up is post-processing, so what this pair attains is attained by the plan.
Where the releases differ, or the noise is not Gaussian, the observer looks at the first one alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mustdp.accounting.plan import Atom, Plan, Subsample, atoms
from mustdp.mechanisms.mechanism import Gaussian, Mechanism
from mustdp.numerics.checks import frozen
from mustdp.sampling.law import MultiplicityLaw
from mustdp.sampling.scheme import Multistage

FloatArray = NDArray[np.float64]

#: Entries of a law of copies below this are dropped; with at most 1e6 of them, 1e-34 in all.
_SMALLEST = 1e-40
_DROPPED = 1e-34
_LARGEST_SUPPORT = 4000
_RELATIVE_ERROR = 1e-11


@dataclass(frozen=True, eq=False)
class Observed:
    """One noisy release, equivalent to what the observer keeps of a plan."""

    mechanism: Mechanism
    releases: int
    law: MultiplicityLaw


class _TooWide(Exception):
    """The law of the copies has too many values to be useful."""


def observe(atom: Subsample) -> Observed:
    """The sum of all releases on a subset if that is one release again, else the first of them."""
    leaves = set(_leaves(atom))
    leaf = next(iter(leaves))
    if len(leaves) == 1 and isinstance(leaf, Gaussian):
        try:
            law = _sum_law(atom, 1)
        except _TooWide:
            pass
        else:
            kept = frozen(np.array(law))
            total = MultiplicityLaw(0, kept, _DROPPED, _RELATIVE_ERROR)
            return Observed(leaf, _releases(atom), total)
    return _first(atom)


def _first(atom: Subsample) -> Observed:
    """The first release: the stages on the way to it make one multistage scheme."""
    scheme, inner = atom.scheme, _first_atom(atom.inner)
    while isinstance(inner, Subsample):
        if isinstance(scheme, Multistage) and isinstance(inner.scheme, Multistage):
            scheme = Multistage(scheme.n, scheme.stages + inner.scheme.stages)
        inner = _first_atom(inner.inner)
    return Observed(inner, 1, scheme.law(1, _SMALLEST))


def _first_atom(plan: Plan) -> Atom:
    return next(iter(atoms(plan)))


def _leaves(plan: Plan) -> list[Mechanism]:
    found: list[Mechanism] = []
    for atom in atoms(plan):
        found += _leaves(atom.inner) if isinstance(atom, Subsample) else [atom]
    return found


def _releases(plan: Plan) -> int:
    return sum(
        count * (_releases(atom.inner) if isinstance(atom, Subsample) else 1)
        for atom, count in atoms(plan).items()
    )


@lru_cache(maxsize=1024)
def _sum_law(plan: Plan, group: int) -> tuple[float, ...]:
    """Law of the copies of ``group`` entries summed over all releases of ``plan``."""
    if group == 0:
        return (1.0,)
    total = np.ones(1)
    for atom, count in atoms(plan).items():
        if isinstance(atom, Subsample):
            law = atom.scheme.law(group, _SMALLEST)
            one = np.zeros(1)
            for size, weight in zip(law.values.tolist(), law.probabilities, strict=True):
                inner = np.array(_sum_law(atom.inner, size))
                one, inner = _same_length(one, weight * inner)
                one = one + inner
        else:
            one = np.zeros(group + 1)
            one[group] = 1.0
        total = _trimmed(np.convolve(total, _power(one, count)))
    return tuple(total.tolist())


def _same_length(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    size = max(a.size, b.size)
    return np.pad(a, (0, size - a.size)), np.pad(b, (0, size - b.size))


def _power(law: FloatArray, count: int) -> FloatArray:
    """The law of a sum of ``count`` independent copies, by repeated squaring."""
    result = np.ones(1)
    while True:
        if count & 1:
            result = _trimmed(np.convolve(result, law))
        count >>= 1
        if not count:
            return result
        law = _trimmed(np.convolve(law, law))


def _trimmed(law: FloatArray) -> FloatArray:
    """Drop negligible entries at the end: mass that is not counted."""
    kept = np.flatnonzero(law > _SMALLEST)
    law = law[: int(kept[-1]) + 1] if kept.size else law[:1]
    if law.size > _LARGEST_SUPPORT:
        raise _TooWide
    return law

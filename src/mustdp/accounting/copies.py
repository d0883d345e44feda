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

from mustdp.accounting.plan import Atom, Plan, Subsample, atoms
from mustdp.errors import NotCovered
from mustdp.mechanisms.mechanism import Gaussian, Mechanism
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.checks import frozen
from mustdp.sampling.law import MultiplicityLaw
from mustdp.sampling.scheme import Multistage

#: Entries at the ends of a law of copies below this are dropped, and what was dropped is counted.
_SMALLEST = 1e-40
_LARGEST_SUPPORT = 40_000
_LARGEST_RANGE = 20_000_000


@dataclass(frozen=True, eq=False)
class Observed:
    """One noisy release, equivalent to what the observer keeps of a plan."""

    mechanism: Mechanism
    releases: int
    law: MultiplicityLaw


class _TooWide(Exception):
    """The law of the copies has too many values to be useful."""


def observe(atom: Subsample, group: int = 1) -> Observed:
    """The sum of all releases on a subset if that is one release again, else the first of them."""
    leaves = set(mechanisms(atom))
    leaf = next(iter(leaves))
    if len(leaves) == 1 and isinstance(leaf, Gaussian):
        try:
            law = _sum_law(atom, group)
        except _TooWide:
            pass
        else:
            kept = frozen(law.weights.copy())
            total = MultiplicityLaw(law.first, kept, law.cut, law.relative_error)
            return Observed(leaf, _releases(atom), total)
    return _first(atom, group)


def _first(atom: Subsample, group: int) -> Observed:
    """The first release: the stages on the way to it make one multistage scheme."""
    scheme, inner = atom.scheme, _first_atom(atom.inner)
    while isinstance(inner, Subsample):
        if isinstance(scheme, Multistage) and isinstance(inner.scheme, Multistage):
            scheme = Multistage(scheme.n, scheme.stages + inner.scheme.stages)
        inner = _first_atom(inner.inner)
    if not isinstance(inner, Mechanism):
        raise NotCovered("an epoch on a subset is not covered")
    return Observed(inner, 1, scheme.law(group, _SMALLEST))


def _first_atom(plan: Plan) -> Atom:
    return next(iter(atoms(plan)))


def mechanisms(plan: Plan) -> list[Mechanism]:
    """All mechanisms that a plan releases from."""
    found: list[Mechanism] = []
    for atom in atoms(plan):
        found += [atom] if isinstance(atom, Mechanism) else mechanisms(atom.inner)
    return found


def _releases(plan: Plan) -> int:
    return sum(
        count * (_releases(atom.inner) if isinstance(atom, Subsample) else 1)
        for atom, count in atoms(plan).items()
    )


@lru_cache(maxsize=1024)
def _sum_law(plan: Plan, group: int) -> _Copies:
    """Law of the copies of ``group`` entries summed over all releases of ``plan``."""
    total = _Copies(0, np.ones(1))
    if group == 0:
        return total
    for atom, count in atoms(plan).items():
        if isinstance(atom, Subsample):
            law = atom.scheme.law(group, _SMALLEST)
            one = _mixture(
                [
                    (float(weight), _sum_law(atom.inner, int(size)))
                    for size, weight in zip(law.support, law.weights, strict=True)
                ],
                law,
            )
        else:
            one = _Copies(group, np.ones(1))
        total = _sum(total, _power(one, count))
    return total


@dataclass(frozen=True, eq=False)
class _Copies:
    """Probabilities of ``first, first + 1, …`` copies, with their errors as in a law."""

    first: int
    weights: FloatArray
    cut: float = 0.0
    relative_error: float = 0.0


def _mixture(parts: list[tuple[float, _Copies]], outer: MultiplicityLaw) -> _Copies:
    first = min(law.first for _, law in parts)
    last = max(law.first + law.weights.size for _, law in parts)
    if last - first > _LARGEST_RANGE:
        raise _TooWide
    mixed = np.zeros(last - first)
    for weight, law in parts:
        start = law.first - first
        mixed[start : start + law.weights.size] += weight * law.weights
    cut = outer.cut + sum(weight * law.cut for weight, law in parts)
    error = outer.relative_error + max(law.relative_error for _, law in parts)
    return _trimmed(_Copies(first, mixed, cut, error + (len(parts) + 1) * ROUNDOFF))


def _sum(a: _Copies, b: _Copies) -> _Copies:
    if min(a.weights.size, b.weights.size) > _LARGEST_SUPPORT:
        raise _TooWide
    error = a.relative_error + b.relative_error
    error += (min(a.weights.size, b.weights.size) + 1) * ROUNDOFF
    weights = np.convolve(a.weights, b.weights)
    return _trimmed(_Copies(a.first + b.first, weights, a.cut + b.cut, error))


def _power(law: _Copies, count: int) -> _Copies:
    """The law of a sum of ``count`` independent copies, by repeated squaring."""
    result = _Copies(0, np.ones(1))
    while True:
        if count & 1:
            result = _sum(result, law)
        count >>= 1
        if not count:
            return result
        law = _sum(law, law)


def _trimmed(law: _Copies) -> _Copies:
    """Drop negligible entries at both ends; what they held is cut."""
    kept = np.flatnonzero(law.weights > _SMALLEST)
    start, stop = (int(kept[0]), int(kept[-1]) + 1) if kept.size else (0, 1)
    dropped = float(law.weights[:start].sum() + law.weights[stop:].sum()) * 1.001
    weights = law.weights[start:stop]
    return _Copies(law.first + start, weights, law.cut + dropped, law.relative_error)

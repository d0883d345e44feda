"""Renyi moments of a plan with nothing left out: bounds by joint convexity.

For neighbours P, Q write M_a = E_Q (dP/dQ)^a = e^{(a-1) D_a}. M_a is jointly convex in (P, Q). A
stage couples the two batches so that, given that J copies were drawn, they differ in J entries
(docs/derivations/one-step.md); so M_a of a draw is at most E M_a(J copies). Both sides share the
part of weight rho_0 in which none was drawn, so by Minkowski's inequality it is at most

    rho_0^{1-a} (sum_j rho_j M_a(j copies against none)^{1/a})^a

as well. M_a of steps is at most the product, and the moments of noise are known:

    Gaussian   (a-1) D_a = a (a-1) d^2 / 2
    Laplace    e^{(a-1) D_a} = (a e^{(a-1) d} + (a-1) e^{-a d}) / (2a-1)

This forgets the amplification of small losses, but bounds the large ones: how it completes what a
dominating pair says about the small ones is in docs/derivations/composition.md.
"""

from __future__ import annotations

import numpy as np

from mustdp.accounting.copies import mechanisms
from mustdp.accounting.plan import Atom, Plan, Subsample, atoms
from mustdp.mechanisms.mechanism import AdditiveNoise, Gaussian, Laplace
from mustdp.mechanisms.relation import Relation, moves
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.sampling.scheme import Multistage, Poisson

#: The mass that a law may leave out here; it is counted with the most copies there are.
_TAIL = 1e-300
#: Relative rounding of a few products and logarithms, generously.
_ROOM = 1e-13


def log_moments(atom: Atom, orders: FloatArray, relation: Relation, group: int) -> FloatArray:
    """log M_a at orders a > 1 of one atom for ``group`` records that differ; inf if not known."""
    if isinstance(atom, Subsample):
        moved = moves(atom.scheme, relation)
    else:
        moved = 2.0 if relation == Relation.REPLACE_ONE else 1.0
    return _of(atom, orders, np.array([float(group)]), moved)[:, 0]


def _of(plan: Plan, orders: FloatArray, copies: FloatArray, moved: float) -> FloatArray:
    """The same for each order (rows) and number of copies (columns)."""
    total = np.zeros((orders.size, copies.size))
    for atom, count in atoms(plan).items():
        if isinstance(atom, Subsample):
            columns = [_drawn(atom, orders, int(special), moved) for special in copies]
            total = total + count * np.stack(columns, axis=1)
        elif isinstance(atom, Gaussian | Laplace):
            shift = atom.shift_for(moved)
            total = total + count * _noise(atom, orders[:, None], copies * shift)
        else:
            return np.full(total.shape, np.inf)
    return total * (1.0 + _ROOM)


def _noise(noise: Gaussian | Laplace, a: FloatArray, distance: FloatArray) -> FloatArray:
    """(a-1) D_a of noise moved by a distance."""
    if isinstance(noise, Gaussian):
        return np.asarray(0.5 * a * (a - 1.0) * np.square(distance))
    ratio = (a + (a - 1.0) * np.exp(-(2.0 * a - 1.0) * distance)) / (2.0 * a - 1.0)
    return np.asarray((a - 1.0) * distance + np.log(ratio) + 8.0 * ROUNDOFF)


def _drawn(atom: Subsample, orders: FloatArray, special: int, moved: float) -> FloatArray:
    """log M_a of a draw that takes some of so many records: the smaller of the two bounds."""
    if special == 0:
        return np.zeros(orders.size)
    scheme = atom.scheme
    law = scheme.law(special, _TAIL)
    copies = np.append(law.support, float(scheme.m if isinstance(scheme, Multistage) else special))
    error = law.relative_error + (law.support.size + 16.0) * ROUNDOFF
    with np.errstate(divide="ignore"):
        # The last weight is for what the law left out, with the most copies there are.
        weights = np.log(np.append(law.weights * (1.0 + error), law.cut))
    found = _log_sum(_of(atom.inner, orders, copies, moved), weights)
    if law.zero > 0.0:
        empty = isinstance(scheme, Poisson) and moved == 2.0
        ball = empty and all(
            isinstance(one, AdditiveNoise) and one.in_a_ball for one in mechanisms(atom.inner)
        )
        apart = _of(atom.inner, orders, copies, 1.0 if ball else moved) / orders[:, None]
        shared = -(orders - 1.0) * np.log(law.zero * (1.0 - error))
        found = np.minimum(found, orders * _log_sum(apart, weights) + shared)
    return found


def _log_sum(logs: FloatArray, weights: FloatArray) -> FloatArray:
    """log of sum e^{weight + log} along each row, rounded up, at least 0."""
    terms = np.where(np.isneginf(weights), -np.inf, logs + weights)
    top = terms.max(axis=1)
    whole = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
    return np.asarray(np.maximum(whole, 0.0) + 4.0 * ROUNDOFF * (8.0 + np.abs(top)))

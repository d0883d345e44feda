"""Totals in whole steps of a lattice, and the noise of a design's releases, exact on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mustdp.accounting.plan import Plan
from mustdp.calibration.budget import NoisyPlan, PrivacySpent, plan_with_noise
from mustdp.errors import NumericalFailure
from mustdp.estimation.bootstrap.designs import Design
from mustdp.estimation.bootstrap.query import (
    Block,
    Halves,
    Joint,
    LinearQuery,
    Query,
    Shape,
    Statistic,
)
from mustdp.mechanisms.contract import Mechanism
from mustdp.mechanisms.mechanism import gaussian
from mustdp.noise.lattice import LARGEST_INTEGER, Lattice, lattice_for
from mustdp.noise.release import LatticeNoise, release
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.randomness.noise_bits import NoiseSource
from mustdp.sampling.schemes import Scheme

# The noise of a design's releases: settled (``calibration/budget.py``) for the design's plan.
#
# The plan says no more than what is proved of the statistics. If all contributions lie in a ball
# of the reach and are added up, its noise is given as a multiplier, which the accountant takes to
# say just that. Otherwise (moments, averages over pairs, functions of a user's own) only the
# distance of any two results is bounded, by twice the reach, and the noise is given as the shift
# of one copy. One number for each subset is all there is to hide where the width of the release is
# one: a total is one integer on one lattice, and so is its noise. What was assumed is compared
# with the query that is run.


@dataclass(frozen=True)
class _Apart:
    """A design of which only the distance of any two results is known."""

    design: Design

    @property
    def scheme(self) -> Scheme:
        return self.design.scheme

    def plan(self, mechanism: Mechanism, /) -> Plan:
        return self.design.plan(gaussian(shift=mechanism.shift_for(2.0)))


def settle_design(
    design: Design,
    *,
    shape: Shape | None = None,
    delta: float | None = None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    relation: str | None = None,
) -> NoisyPlan:
    """Settle the noise of one release of all statistics together on every subset.

    Exactly one of ``epsilon`` and ``noise_multiplier`` is given. Without a ``shape`` contributions
    are taken to be in a ball, as those of a clipped sum are.
    """
    known = Shape(in_a_ball=True) if shape is None else shape
    return plan_with_noise(
        design if known.in_a_ball else _Apart(design),
        delta=delta,
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        relation=relation,
        dimension=1 if known.one_number else None,
    )


def shape_of(wanted: Sequence[Statistic], poisson: bool, *, charged: bool) -> Shape:
    """What is known of all statistics together, before any data are read.

    A ledger counts releases of any dimension; what is ``charged`` to one is settled like that.
    """
    shapes = [statistic.shape(poisson) for statistic in wanted]
    single = len(shapes) == 1 and shapes[0].one_number and not charged
    return Shape(all(shape.in_a_ball for shape in shapes), single)


def check_shape(shape: Shape, query: Joint, privacy: PrivacySpent) -> None:
    """Refuse a query that has not the shape for which its noise was settled, if it was charged."""
    if privacy.plan is None:
        return
    adds_up = all(isinstance(part, LinearQuery) and part.within_reach for part in query.queries)
    if (shape.in_a_ball and not adds_up) or (shape.one_number and query.width != 1):
        raise NumericalFailure(
            f"the noise was settled for {shape!r}, which a release of width {query.width} is not; "
            "nothing was released"
        )


# Totals in whole steps of a lattice, and noise that is exact on it.
#
# Every coordinate of a total has a lattice of its own, which follows from the noise and from
# public sizes. What a record contributes is cut to it towards zero and added up in integers, so
# that the sum is exact in any order and on any machine; a total that is no sum of contributions is
# rounded to it. Integers below 2^52 are exact as doubles, which is how they travel.
#
# *What that does to the reach.* Cutting towards zero shortens contributions, which costs nothing
# where the reaches bound the contributions themselves. Elsewhere, and where a total is rounded,
# one copy can move a coordinate by up to one step g more. Write ||c||^2 = sum_b (|c_b| / (2
# reach_b))^2 over blocks b, which is at most 1 (``statistics/sharing.py``). The further movement e
# has ||e||^2 <= sum_b w_b g_b^2 / (4 reach_b^2), w_b the width of block b; so all reaches are
# enlarged by the factor 1 + ||e||. A total that is no sum is computed in floating point; for that
# a further 2^-20 is added.


#: What floating point may do to a total that is not added up exactly, relative to its reach.
_COMPUTED = 2.0**-20


@dataclass(frozen=True)
class SteppedQuery(Query):
    """A joint query whose totals are counted in steps of a lattice for each coordinate."""

    query: Joint
    lattices: tuple[Lattice, ...]
    blocks: tuple[Block, ...] = field(init=False)
    labels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", self.query.blocks)
        object.__setattr__(self, "labels", self.query.labels)

    @cached_property
    def _per_step(self) -> FloatArray:
        return np.array([1.0 / lattice.step for lattice in self.lattices])

    @property
    def halved(self) -> bool:
        """As the query itself."""
        return self.query.halved

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """The totals in steps: integers, as doubles."""
        found, start = [], 0
        for query, own in self.query.apart(values):
            per_step = self._per_step[start : start + query.width]
            start += query.width
            if isinstance(query, LinearQuery):
                found.append(query.steps(own, counts, per_step))
            else:
                found.append(np.rint(query.total(own, counts, halves) * per_step))
        return np.concatenate(found)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """Of the query itself."""
        return self.query.estimate(vectors)


@dataclass(frozen=True)
class ExactRelease:
    """A query in steps and the noise of each of its coordinates."""

    stepped: SteppedQuery
    noise: tuple[LatticeNoise, ...]

    @property
    def deviations(self) -> FloatArray:
        """Standard deviation of the noise on every coordinate of the released vectors."""
        deviations: FloatArray = np.array([one.scale for one in self.noise])
        deviations /= self.stepped.query.divisors
        return deviations

    def released(self, totals: FloatArray, source: NoiseSource) -> FloatArray:
        """The released vectors behind totals in steps."""
        if not np.all(np.abs(totals) < LARGEST_INTEGER):
            raise NumericalFailure(
                "a statistic is not finite on some subset, or larger than its stated bounds allow; "
                "nothing was released"
            )
        noisy = release(totals.astype(np.int64), self.noise, source)
        return self.stepped.query.restored(noisy)


def exact_release(query: Joint, noise_multiplier: float, copies: int) -> ExactRelease:
    """Lattices and noise for totals over at most ``copies`` entries."""
    lattices = [
        lattice_for(noise_multiplier * one.reach_of_total, reach=one.reach_of_total, records=copies)
        for one in query.blocks
    ]
    factor = _enlargement(query, lattices)
    noise = [
        LatticeNoise(noise_multiplier * one.reach_of_total * factor, lattice)
        for one, lattice in zip(query.blocks, lattices, strict=True)
    ]
    each = tuple(
        one for one, block in zip(noise, query.blocks, strict=True) for _ in range(block.width)
    )
    return ExactRelease(SteppedQuery(query, tuple(one.lattice for one in each)), each)


def _enlargement(query: Joint, lattices: list[Lattice]) -> float:
    """What all reaches are multiplied by; see above."""
    parts = query.queries
    if all(isinstance(part, LinearQuery) and part.within_reach for part in parts):
        return 1.0
    squares = math.fsum(
        one.width * (lattice.step / (2.0 * one.reach_of_total)) ** 2
        for one, lattice in zip(query.blocks, lattices, strict=True)
    )
    computed = 0.0 if query.linear else _COMPUTED
    return (1.0 + math.sqrt(squares) + computed) * (1.0 + 2.0**-40)

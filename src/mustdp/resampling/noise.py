"""The noise of a design's releases: settled (``calibration/settle.py``) for the design's plan.

The plan says no more than what is proved of the statistics. If all contributions lie in a ball of
the reach and are added up, its noise is given as a multiplier, which the accountant takes to say
just that. Otherwise (moments, averages over pairs, functions of a user's own) only the distance of
any two results is bounded, by twice the reach, and the noise is given as the shift of one copy.
One number for each subset is all there is to hide where the width of the release is one: a total
is one integer on one lattice, and so is its noise. What was assumed is compared with the query
that is run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mustdp.accounting.plan import Plan
from mustdp.calibration.settle import PaperStatement, Settled, Spent, settle_noise
from mustdp.errors import NumericalFailure
from mustdp.mechanisms.mechanism import AdditiveNoise, gaussian
from mustdp.resampling.designs import Design
from mustdp.resampling.statistics.joint import Joint
from mustdp.resampling.statistics.public import Shape
from mustdp.resampling.statistics.query import LinearQuery
from mustdp.resampling.statistics.statistic import Statistic
from mustdp.sampling.scheme import Scheme

PAPER = "per-query epsilon' of the MUST paper with the sensitivity of n records: not a guarantee"


@dataclass(frozen=True)
class _Apart:
    """A design of which only the distance of any two results is known."""

    design: Design

    @property
    def scheme(self) -> Scheme:
        return self.design.scheme

    def plan(self, mechanism: AdditiveNoise, /) -> Plan:
        return self.design.plan(gaussian(shift=mechanism.shift_for(2.0)))


def settle_design(
    design: Design,
    *,
    queries: int = 1,
    shape: Shape | None = None,
    delta: float | None = None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    epsilon_prime: float | None = None,
    relation: str | None = None,
) -> Settled:
    """Settle the noise of one release of all ``queries`` together on every subset.

    Exactly one of ``epsilon``, ``noise_multiplier`` and ``epsilon_prime`` is given. Without a
    ``shape`` contributions are taken to be in a ball, as those of a clipped sum are.
    """
    known = Shape(in_a_ball=True) if shape is None else shape
    paper = None if epsilon_prime is None else paper_statement(design, epsilon_prime, queries)
    found = settle_noise(
        design if known.in_a_ball else _Apart(design),
        delta=delta,
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        paper=paper,
        relation=relation,
        dimension=1 if known.one_number else None,
    )
    if paper is not None and design.poisson:
        # The paper divides by the random size of the subset; no sensitivity is known for that.
        return replace(found, plan=None)
    return found


def shape_of(wanted: Sequence[Statistic], poisson: bool, *, charged: bool) -> Shape:
    """What is known of all statistics together, before any data are read.

    A ledger counts releases of any dimension; what is ``charged`` to one is settled like that.
    """
    shapes = [statistic.shape(poisson) for statistic in wanted]
    single = len(shapes) == 1 and shapes[0].one_number and not charged
    return Shape(all(shape.in_a_ball for shape in shapes), single)


def check_shape(shape: Shape, query: Joint, privacy: Spent) -> None:
    """Refuse a query that has not the shape for which its noise was settled, if it was charged."""
    if privacy.plan is None:
        return
    adds_up = all(isinstance(part, LinearQuery) and part.within_reach for part in query.queries)
    if (shape.in_a_ball and not adds_up) or (shape.one_number and query.width != 1):
        raise NumericalFailure(
            f"the noise was settled for {shape!r}, which a release of width {query.width} is not; "
            "nothing was released"
        )


def paper_statement(design: Design, epsilon_prime: float, queries: int = 1) -> PaperStatement:
    """The paper's noise for the epsilon' of one query on one subset.

    [Z] experiment 1 takes the sensitivity of a statistic of all n records where the subset has m:
    with D the sensitivity on m records the formula is given D m / n, and half of D is what one
    record contributes, z = sigma / (D / 2). ``queries`` that are released together share it.
    """
    return PaperStatement(
        epsilon_prime, design.size / design.n, 2.0 / math.sqrt(queries), PAPER, "classical"
    )

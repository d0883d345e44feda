"""What the certificate of a scheme costs, estimated from the widths of its stages' laws.

A stage asks the profiles inside it for every multiplicity that its law gives a record. Around plain
noise that is a formula. Around further stages a profile is a certificate itself: at as many points
as the loss is looked at, and from the third stage on at the points of a table, for every group size
that can enter. So the cost is the sum over stages of (group sizes that enter) x (points) x
(multiplicities). The seconds for each were measured on one core (MUSTww of 1000 of 1000 twice: 2.8
s; with a third such stage: 65 s) and are right within a factor of three.

Where two stages are so wide that their certificate would take minutes (MUSTww of 50 records with
b = m = 10000), the first one tells fewer multiplicities apart: neighbours count as the largest of
them, which is looser by a few percent, holds all the same, and takes seconds.
"""

from __future__ import annotations

from functools import lru_cache

from mustdp.amplification.mixed_slope import MOST_GROUPS
from mustdp.numerics.cost import Cost
from mustdp.sampling.law import stage_law
from mustdp.sampling.stage import Stage

#: Points at which a loss is looked at, and those of one table of a stage inside others.
_LOOKS, _TABLE = 3000, 1671
#: Seconds for a value of noise, and for one read off tables.
_PLAIN, _TABULATED = 2e-7, 1.2e-6
#: Bytes of the tangents of one profile, kept for every law that asks for it.
_TANGENTS = 4202 * 8
#: A certificate of two stages is to take no more seconds than this.
_SOON = 20.0


@lru_cache(maxsize=256)
def certificate_cost(
    n: int, stages: tuple[Stage, ...], tail: float, outer: int = MOST_GROUPS
) -> Cost:
    """The cost of certifying a loss of ``stages`` on ``n`` records around additive noise.

    ``outer`` is how many multiplicities the first stage may tell apart.
    """
    seconds, held = 0.0, 0.0
    population, entering, largest = n, 1, 1
    for level, stage in enumerate(stages):
        # Laws are widest where half of the entries are special.
        widest = stage_law(stage, population, min(largest, max(1, population // 2)), tail)
        groups = min(MOST_GROUPS if level else outer, widest.positive.size)
        points = _LOOKS if level < 2 else _TABLE
        seconds += entering * points * groups * (_PLAIN if level < 2 else _TABULATED)
        if 0 < level < len(stages) - 1:
            held += entering * groups * _TANGENTS
        law = stage_law(stage, population, largest, tail)
        largest = max(1, int(law.positive_values[-1])) if law.positive.size else 1
        entering = groups if level == 0 else largest
        population = stage.size
    return Cost(seconds, held)


def outer_groups(n: int, stages: tuple[Stage, ...], tail: float) -> int:
    """How many multiplicities the first stage may tell apart for an answer in seconds.

    As many as ever, where fewer would not bring that about.
    """
    fewer = (MOST_GROUPS >> k for k in range(4))
    soon = (g for g in fewer if certificate_cost(n, stages, tail, g).seconds <= _SOON)
    return next(soon, MOST_GROUPS)

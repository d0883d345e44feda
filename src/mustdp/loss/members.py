"""Which losses stand for a family of pairs in a composition: where to look, refine and join.

Whatever is chosen here covers the whole family, so the bound holds; the choice decides how tight
it is. Cells are judged where the composition passes: around the path from the answer, after all
steps, to zero before the first.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from mustdp.amplification.cells import PairFamily
from mustdp.loss.cover import Cover, make_tests
from mustdp.loss.discrete import DiscreteLoss
from mustdp.loss.dots import DominatingPair, connect
from mustdp.loss.placed import placed_points
from mustdp.loss.points import Scouted, few_points
from mustdp.loss.recursion import Window
from mustdp.loss.strategy import Attained

#: Excess of a cell over the attained ends, in units of one step's gain, that is not worth refining.
_TOLERANCE = 0.002
#: How far from the path cells are judged, in its deviations there.
_ASIDE = np.linspace(-2.5, 2.5, 9)
#: Cells that are looked at in any case.
_FEWEST_CELLS = 48


def chosen_members(
    family: PairFamily | None,
    pair: DominatingPair,
    seen: Scouted,
    low: Attained,
    window: Window,
    near: float,
    deviation: float,
    *,
    points: int,
    more_cells: float,
    most: int,
) -> list[DiscreteLoss]:
    """The losses of one atom's family, refined and joined; of its single pair without one.

    ``low`` is what the steps attain and how, ``near`` the epsilon at the end of its path, and
    ``deviation`` that of all steps. Profiles are evaluated at ``points`` places, ``more_cells``
    are looked at beyond a few, and at most ``most`` losses are returned.
    """
    if family is None or not low.snapshots:
        places = few_points(window.spacing, seen.deviation, window.up, points)
        if family is None:
            return [connect(pair, window.spacing, places)]
        cover = Cover(family, window.spacing, places)
        return cover.losses(cover.profiles(family.cells()))
    judged, allowed = [], []
    for share in low.marks:
        width = deviation * math.sqrt(share * (1.0 - share) + 0.02)
        judged.append(near * share + _ASIDE * width)
        allowed.append(_TOLERANCE * np.exp(np.square(_ASIDE) / 4.0))
    tests_at = partial(make_tests, low.snapshots, judged, allowed, window.spacing)
    places = placed_points(pair, window.spacing, window.up, points, tests_at)
    cover, tests = Cover(family, window.spacing, places), tests_at(places)
    most_cells = int(_FEWEST_CELLS + more_cells / family.cell_cost)
    rows = cover.refined(family.ends(), tests, min(family.most_cells, most_cells))
    return cover.losses(cover.joined(family.ends(), tests, rows, most, 0.1))

"""What a family of pairs says on the way: at other numbers of steps, and at many epsilons.

The recursion of ``loss/recursion.py`` goes through all numbers of steps on its way to the last, and
holds an upper bound of delta at every epsilon of its window after each. Its cells were chosen for
the last step, so what is read off before is a little looser than an account of its own, and as
certified.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from mustdp.accounting.family import family_bounds
from mustdp.accounting.plan import Atom
from mustdp.errors import Contradiction, NumericalFailure
from mustdp.loss.questions import EpsilonAt
from mustdp.loss.recursion import Recursion, delta_at, epsilon_at
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Along:
    """Certified epsilons by number of steps, and deltas at the epsilons that were asked about."""

    epsilon: Mapping[int, float]
    delta: FloatArray


def family_along(
    atom: Atom,
    steps: int,
    relation: Relation,
    *,
    delta: float,
    counts: Collection[int],
    epsilon: FloatArray,
    dimension: int | None,
    work: float,
) -> Along | None:
    """Epsilons at ``delta`` after each of ``counts`` steps, deltas at ``epsilon`` after ``steps``.

    None where the family is not worked through step by step, or fails.
    """
    found: dict[int, float] = {}
    profile: list[FloatArray] = []

    def watch(recursion: Recursion) -> None:
        if recursion.steps in counts:
            found[recursion.steps] = epsilon_at(recursion, delta)
        if recursion.steps == steps:
            profile.append(np.array([delta_at(recursion, float(e)) for e in epsilon]))

    last = max(steps, *counts)
    try:
        family_bounds(
            [(atom, last)], relation, EpsilonAt(delta), dimension=dimension, work=work, watch=watch
        )
    except Contradiction:
        raise
    except NumericalFailure:  # one pair per step stands by itself
        return None
    return Along(found, profile[0]) if profile else None

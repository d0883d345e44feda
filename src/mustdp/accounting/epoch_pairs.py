"""Both sides of one epoch: random allocation is exact, shuffling is bounded from both sides.

Shuffling, from above: given the order the record is in one batch, so that by joint convexity an
epoch is no worse than one Gaussian release. From below: the maximum of the batches
(``loss/maximum.py``), for the others at the opposite end of the record's range (*crowded* where its
place may be left empty, *aligned* where it is filled) or in the middle.
"""

from __future__ import annotations

from mustdp.accounting.allocated import AllocationProfile, ReplacedProfile, TabulatedPair
from mustdp.accounting.atom_profiles import GroupProfile
from mustdp.accounting.plan import InEpoch
from mustdp.errors import NotCovered
from mustdp.loss.convex_tables import OutcomePair
from mustdp.loss.dots import DominatingPair
from mustdp.loss.maximum import maximum_pair
from mustdp.loss.pairs import ConcretePair
from mustdp.mechanisms.mechanism import Gaussian
from mustdp.mechanisms.relation import Relation, moves
from mustdp.sampling.epochs import Epoch, RandomAllocation

#: What one epoch contributes: shift, dominating pair, attained pairs by name.
Sides = tuple[float, DominatingPair, dict[str, ConcretePair]]


def epoch_sides(atom: InEpoch, relation: Relation, method: str) -> Sides:
    """The shift, the dominating pair and the attained pairs of one epoch."""
    if method != "certified":
        raise NotCovered(f"method {method!r} does not cover epochs")
    epoch, mechanism = atom.epoch, atom.inner
    if not isinstance(epoch, RandomAllocation):
        return _shuffled(epoch, mechanism, relation)
    if relation == Relation.ADD_REMOVE:
        return _allocated(epoch, mechanism)
    if not mechanism.in_a_ball:
        raise NotCovered(
            "random allocation under replace_one needs a noise multiplier: a stated shift says "
            "how far swapping a record moves the result, not how far leaving it out does"
        )
    shift = mechanism.shift_for(2.0)
    profile = ReplacedProfile(0.5 * shift, epoch.bins, epoch.steps)
    pair = TabulatedPair("symmetric", profile, profile)
    return shift, DominatingPair.of(profile), {"symmetric": pair}


def _allocated(epoch: RandomAllocation, mechanism: Gaussian) -> Sides:
    shift = mechanism.shift_for(1.0)
    ahead = AllocationProfile(shift, epoch.bins, epoch.steps, backward=False)
    behind = AllocationProfile(shift, epoch.bins, epoch.steps, backward=True)
    families: dict[str, ConcretePair] = {
        "aligned": TabulatedPair("aligned", ahead, behind),
        "reversed": TabulatedPair("reversed", behind, ahead),
    }
    return shift, DominatingPair(ahead, behind), families


def _shuffled(epoch: Epoch, mechanism: Gaussian, relation: Relation) -> Sides:
    shift = mechanism.shift_for(moves(epoch, relation))
    drawn = min(1.0, epoch.steps * epoch.expected_size / epoch.n)

    def seen(name: str, a: float, b: float) -> OutcomePair:
        return maximum_pair(name, epoch.steps, a * shift, b * shift, 1.0 - drawn)

    moved = {"aligned": (1.0, 0.0), "reversed": (0.0, 1.0)}
    if relation == Relation.REPLACE_ONE:
        moved["symmetric"] = (0.5, -0.5)
    elif mechanism.in_a_ball:
        moved |= {"crowded": (2.0, 1.0), "crowded, reversed": (1.0, 2.0)}
    families: dict[str, ConcretePair] = {name: seen(name, *to) for name, to in moved.items()}
    return shift, DominatingPair.of(GroupProfile(mechanism.profiles(shift))), families

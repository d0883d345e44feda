"""Both sides of one epoch: random allocation is exact, shuffling is bounded from both sides.

Shuffling, from above: given the order the record is in one batch, so that by joint convexity an
epoch is no worse than one Gaussian release. From below: the maximum of the batches
(``loss/maximum.py``) for the others at the opposite end of the record's range and its place left
empty (*crowded*); or the whole epoch, as if it had been allocated, for the others in the middle, or
all like the record that takes its place.
"""

from __future__ import annotations

from mustdp.accounting.allocated import AllocationProfile, TabulatedPair
from mustdp.accounting.atom_profiles import GroupProfile
from mustdp.accounting.plan import InEpoch
from mustdp.accounting.replaced import ReplacedPair, ReplacedProfile
from mustdp.errors import NotCovered
from mustdp.loss.dots import DominatingPair
from mustdp.loss.maximum import maximum_pair
from mustdp.loss.pairs import ConcretePair
from mustdp.mechanisms.mechanism import Gaussian
from mustdp.mechanisms.relation import Relation, moves
from mustdp.sampling.epochs import Epoch, RandomAllocation

#: Shuffled epochs with less noise are seen through their largest batch alone, which is quick.
_MOST_TABULATED = 1.0
#: Swapped records that move a batch further are seen through the largest batch as well.
_LITTLE_NOISE = 4.0
#: What one epoch contributes: shift, dominating pair, attained pairs by name.
Sides = tuple[float, DominatingPair, dict[str, ConcretePair]]


def epoch_sides(atom: InEpoch, relation: Relation, method: str, group: int = 1) -> Sides:
    """The shift, the dominating pair and the attained pairs of one epoch.

    Several records of one person may all be in one batch: given where they are, they move the
    batches of an epoch by ``group`` shifts at most, so that by joint convexity an epoch is no worse
    than one Gaussian release on such a group. What one record attains, the group attains too.
    """
    if group > 1:
        shift, _, families = epoch_sides(atom, relation, method)
        whole = atom.inner.shift_for(2.0 if relation == Relation.REPLACE_ONE else 1.0)
        together = GroupProfile(atom.inner.profiles(group * max(shift, whole)))
        return shift, DominatingPair.of(together), families
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
    attained: dict[str, ConcretePair] = {"symmetric": ReplacedPair(profile)}
    if shift > _LITTLE_NOISE:
        # One batch decides, and its cells are too many to be added up.
        name, elsewhere = "symmetric, largest", 1.0 - epoch.steps / epoch.bins
        attained[name] = maximum_pair(name, epoch.steps, 0.5 * shift, -0.5 * shift, elsewhere)
    return shift, DominatingPair.of(profile), attained


def _allocated(epoch: RandomAllocation, mechanism: Gaussian) -> Sides:
    shift = mechanism.shift_for(1.0)
    ahead, behind = _directions(epoch, shift)
    return shift, DominatingPair(ahead, behind), _orders(ahead, behind)


def _directions(epoch: Epoch, shift: float) -> tuple[AllocationProfile, AllocationProfile]:
    """Both directions of one batch of many being moved by ``shift``."""
    return (
        AllocationProfile(shift, epoch.bins, epoch.steps, backward=False),
        AllocationProfile(shift, epoch.bins, epoch.steps, backward=True),
    )


def _orders(ahead: AllocationProfile, behind: AllocationProfile) -> dict[str, ConcretePair]:
    return {
        "aligned": TabulatedPair("aligned", ahead, behind),
        "reversed": TabulatedPair("reversed", behind, ahead),
    }


def _shuffled(epoch: Epoch, mechanism: Gaussian, relation: Relation) -> Sides:
    shift = mechanism.shift_for(moves(epoch, relation))
    drawn = min(1.0, epoch.steps * epoch.expected_size / epoch.n)
    families: dict[str, ConcretePair] = {}

    def see(name: str, a: float, b: float) -> None:
        families[name] = maximum_pair(name, epoch.steps, a * shift, b * shift, 1.0 - drawn)

    if epoch.n == epoch.bins * epoch.expected_size and shift <= _MOST_TABULATED:
        # The record is in every batch equally often, and nobody else is seen: as if allocated.
        families |= _orders(*_directions(epoch, shift))
    else:
        see("aligned", 1.0, 0.0)
        see("reversed", 0.0, 1.0)
    if relation == Relation.REPLACE_ONE:
        see("symmetric", 0.5, -0.5)
    elif mechanism.in_a_ball:
        see("crowded", 2.0, 1.0)
        see("crowded, reversed", 1.0, 2.0)
    return shift, DominatingPair.of(GroupProfile(mechanism.profiles(shift))), families

"""Both sides of one epoch: random allocation is exact, shuffling is bounded from both sides.

A record in several bins, or up to four records in one each, are bounded from both sides too:
above by allocations one after another, below by what the sum of all batches tells
(``several_bins.py``). Other groups are charged as one Gaussian release.

Shuffling, from above: ``epochs/shuffling.py``. From below: the maximum of the batches
(``epochs/observed.py``) for the others at the opposite end of the record's range and its place left
empty (*crowded*); or the whole epoch, as if it had been allocated, for the others in the middle, or
all like the record that takes its place.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import cast

from mustdp.accounting.epochs.add_remove import AllocationProfile, TabulatedPair
from mustdp.accounting.epochs.observed import maximum_pair
from mustdp.accounting.epochs.replace_one import FewBatches, ReplacedPair, ReplacedProfile
from mustdp.accounting.epochs.several_bins import MOST as MOST_PATTERNS
from mustdp.accounting.epochs.several_bins import (
    MOST_RECORDS,
    Link,
    Pattern,
    SeenSum,
    chained,
    least,
    links,
    mixed,
    patterns,
    whole_weights,
)
from mustdp.accounting.epochs.shuffling import shuffled_pair
from mustdp.accounting.epochs.terms import MixedTerm
from mustdp.accounting.plan import InEpoch
from mustdp.accounting.pld.discretise import ConcretePair, DominatingPair
from mustdp.errors import NotCovered
from mustdp.mechanisms.mechanism import AdditiveNoise, Gaussian, GroupProfile, Proof, has_proof
from mustdp.mechanisms.relation import Relation, moves
from mustdp.sampling.epochs import Epoch, RandomAllocation

#: Shuffled epochs with less noise are seen through their largest batch alone, which is quick.
_MOST_TABULATED = 1.0
#: Records that move a batch further are seen through the largest batch as well.
_LITTLE_NOISE = 4.0
#: Beyond this the largest batch tells all there is, and sums of all of them are beyond any grid.
_HARDLY_ANY_NOISE = 20.0
#: Epochs of at most so many batches are bounded as if it were known how many are moved, and how
#: far, too: for several records, for several that are swapped, and for one.
_FEW_BINS, _FEW_SWAPPED, _FEWEST_BINS = 128, 32, 6
#: More than two records that are swapped, move a batch this far and share so few batches are
#: bounded so alone: chains take minutes there, and three records in 8 batches at a noise multiplier
#: of 0.5 have epsilon 122 by them and 49 without.
_FAR_SWAPPED, _FEW_FAR = 3.0, 10
#: Several records that are swapped and move a batch further are charged as one release.
_FARTHEST_SWAPPED = 5.0
#: Bins of one record beyond this are not counted.
_MOST_TIMES = 1_000_000
#: What one epoch contributes: shift, dominating pair, attained pairs by name.
Sides = tuple[float, DominatingPair, dict[str, ConcretePair]]


def on_grids(atom: InEpoch, group: int) -> bool:
    """Whether the dominating pair of an epoch is found on grids."""
    epoch = atom.epoch
    return isinstance(epoch, RandomAllocation) and not _as_one_release(epoch, group)


def _as_one_release(epoch: RandomAllocation, group: int) -> bool:
    """Whether several records are charged as one release that all of them move."""
    return group > 1 and (group > MOST_RECORDS or epoch.times > 1)


def epoch_sides(
    atom: InEpoch, relation: Relation, method: str, group: int = 1, fine: float = 1.0
) -> Sides:
    """The shift, the dominating pair and the attained pairs of one epoch.

    Where these are found on grids, they are ``fine`` times as fine as usual.
    """
    if method != "certified":
        raise NotCovered(f"method {method!r} does not cover epochs")
    epoch, mechanism = atom.epoch, cast("Gaussian", atom.inner)
    if not isinstance(epoch, RandomAllocation):
        if group > 1:
            return _together(atom, relation, group)
        return _shuffled(epoch, atom.inner, relation)
    if relation == Relation.REPLACE_ONE and not mechanism.in_a_ball:
        raise NotCovered(
            "random allocation under replace_one needs a noise multiplier: a stated shift says "
            "how far swapping a record moves the result, not how far leaving it out does"
        )
    if _as_one_release(epoch, group):
        return _together(atom, relation, group)
    if group > 1 or epoch.times > 1:
        return _several(epoch, mechanism, relation, group, fine)
    if relation == Relation.ADD_REMOVE:
        return _allocated(epoch, mechanism, fine)
    shift = mechanism.shift_for(2.0)
    profile = ReplacedProfile(0.5 * shift, epoch.bins, epoch.steps, fine)
    attained: dict[str, ConcretePair] = {"symmetric": ReplacedPair(profile)}
    if shift > _LITTLE_NOISE:
        # One batch decides, and its cells are too many to be added up.
        attained |= _largest(epoch, {"symmetric, largest": (0.5 * shift, -0.5 * shift)})
    largest = FewBatches.noisier(0.5 * shift, epoch.bins, epoch.steps)
    if largest is not None:
        noisier = ReplacedProfile(largest, epoch.bins, epoch.steps, fine)
        attained["symmetric, noisier"] = ReplacedPair(noisier)
    return shift, DominatingPair.of(profile), attained


def _together(atom: InEpoch, relation: Relation, group: int) -> Sides:
    """Several records of one person may always be in the same batches.

    Given where they are, ``group`` shifts in every batch of theirs is the most that they move an
    epoch, so that by joint convexity it is no worse than one Gaussian release that is moved by all
    of that. What one record attains, the group attains too.
    """
    shift, _, families = epoch_sides(atom, relation, "certified")
    whole = atom.inner.shift_for(2.0 if relation == Relation.REPLACE_ONE else 1.0)
    most = group * max(shift, whole) * math.sqrt(atom.epoch.times) * (1.0 + 1e-15)
    return shift, DominatingPair.of(GroupProfile(atom.inner.profiles(most))), families


def _several(
    epoch: RandomAllocation, mechanism: Gaussian, relation: Relation, group: int, fine: float
) -> Sides:
    """Several batches of an epoch are moved, by one record or by several."""
    if epoch.times > _MOST_TIMES:
        raise NotCovered.refusing("times", f"must be at most {_MOST_TIMES}", epoch.times)
    swapped = relation == Relation.REPLACE_ONE
    shift = mechanism.shift_for(moves(epoch, relation))
    if shift > _HARDLY_ANY_NOISE:
        return _hardly_hidden(epoch, mechanism, shift, group, swapped=swapped)

    @cache
    def allocated(link: Link) -> DominatingPair:
        if swapped:
            return _swapped_link(link, mechanism, shift, fine)
        return _link(link, mechanism, shift, fine)

    def above(epoch: RandomAllocation) -> DominatingPair:
        found = patterns(epoch, group)

        def chain(of: tuple[Pattern, ...]) -> DominatingPair:
            farthest = shift * math.sqrt(max(one.square for one in of))
            return chained(links(of, epoch.steps), farthest, allocated, fine)

        few = _FEWEST_BINS if group == 1 else _FEW_SWAPPED if swapped else _FEW_BINS
        if len(found) == 1 or epoch.steps > few:
            return chain(found)
        known = mixed(found, lambda one: chain((replace(one, chance=1.0),)), swapped=swapped)
        fewest = epoch.bins == epoch.steps <= _FEWEST_BINS
        far = group > 2 and shift > _FAR_SWAPPED and epoch.bins <= _FEW_FAR
        if swapped and group > 1 and (fewest or far):
            # In so few batches moves of random size tell more, and take longest.
            return known
        return least(chain(found), known)

    if swapped and group > 1 and shift > _FARTHEST_SWAPPED:
        # Chains would take minutes and save little.
        farthest = group * shift * (1.0 + 1e-15)
        dominating = DominatingPair.of(GroupProfile(mechanism.profiles(farthest)))
    else:
        # The whole epoch tells no less than its beginning.
        dominating = above(epoch.first(epoch.bins))
        if epoch.steps < epoch.bins and epoch.times < MOST_PATTERNS:
            dominating = least(above(epoch), dominating)
    seen = SeenSum(patterns(epoch, group), shift, epoch.steps, swapped=swapped, fine=fine)
    if swapped:
        return shift, dominating, {"symmetric": seen.pair("symmetric")}
    families: dict[str, ConcretePair] = {
        "aligned": seen.pair("aligned"),
        "reversed": seen.pair("reversed", exchanged=True),
    }
    return shift, dominating, families


def _hardly_hidden(
    epoch: RandomAllocation, mechanism: Gaussian, shift: float, group: int, *, swapped: bool
) -> Sides:
    """Several moved batches and hardly any noise: charged as one release that they all move.

    The largest batch of a whole epoch tells of one record in each of its bins; of several records
    it tells no less.
    """
    found = patterns(epoch.first(epoch.bins), group)
    farthest = shift * math.sqrt(max(one.square for one in found)) * (1.0 + 1e-15)
    dominating = DominatingPair.of(GroupProfile(mechanism.profiles(farthest)))
    ends = {"aligned, largest": (shift, 0.0), "reversed, largest": (0.0, shift)}
    if swapped:
        ends = {"symmetric, largest": (0.5 * shift, -0.5 * shift)}
    if epoch.steps == epoch.bins:
        return shift, dominating, _largest(epoch, ends, epoch.times)
    return shift, dominating, _largest(epoch, ends) if epoch.times == 1 else {}


def _link(link: Link, mechanism: Gaussian, shift: float, fine: float) -> DominatingPair:
    """One allocation of a chain under add_remove, of a move of random size."""
    if link.certain:
        return DominatingPair.of(GroupProfile(mechanism.profiles(link.most * shift)))
    inside = link.inside
    weights = tuple(chance / inside for chance in link.chances)
    term = None if link.alike else MixedTerm(shift, weights)
    # Rounded down: with fewer bins it is more often in these.
    farthest, bins = link.most * shift, link.steps / inside * (1.0 - 1e-13)
    bins = max(bins, float(link.steps))
    return DominatingPair(
        AllocationProfile(farthest, bins, link.steps, backward=False, term=term, fine=fine),
        AllocationProfile(farthest, bins, link.steps, backward=True, term=term, fine=fine),
    )


def _swapped_link(link: Link, mechanism: Gaussian, shift: float, fine: float) -> DominatingPair:
    """One allocation of a chain under replace_one, of a move of random size."""
    if link.certain:
        return DominatingPair.of(GroupProfile(mechanism.profiles(link.most * shift)))
    # Rounded down: with fewer bins it is more often in these.
    bins = max(link.steps / link.inside * (1.0 - 1e-13), float(link.steps))
    if link.alike:
        return DominatingPair.of(ReplacedProfile(0.5 * link.most * shift, bins, link.steps, fine))
    weights = whole_weights(link.chances)
    return DominatingPair.of(ReplacedProfile(0.5 * shift, bins, link.steps, fine, weights))


def _allocated(epoch: RandomAllocation, mechanism: Gaussian, fine: float) -> Sides:
    shift = mechanism.shift_for(1.0)
    ahead, behind = _directions(epoch.bins, epoch.steps, shift, fine)
    attained = _orders(ahead, behind) if shift <= _HARDLY_ANY_NOISE else {}
    if shift > _LITTLE_NOISE:
        ends = {"aligned, largest": (shift, 0.0), "reversed, largest": (0.0, shift)}
        attained |= _largest(epoch, ends)
    return shift, DominatingPair(ahead, behind), attained


def _largest(
    epoch: Epoch, moved: dict[str, tuple[float, float]], batches: int = 1
) -> dict[str, ConcretePair]:
    """Pairs seen through the largest batch, by how far P and Q move those of the record."""
    elsewhere = 1.0 - epoch.steps / epoch.bins
    return {
        name: maximum_pair(name, epoch.steps, *ends, elsewhere, batches)
        for name, ends in moved.items()
    }


def _directions(
    bins: float, steps: int, shift: float, fine: float = 1.0
) -> tuple[AllocationProfile, AllocationProfile]:
    """Both directions of one batch of many being moved by ``shift``."""
    return (
        AllocationProfile(shift, bins, steps, backward=False, fine=fine),
        AllocationProfile(shift, bins, steps, backward=True, fine=fine),
    )


def _orders(ahead: AllocationProfile, behind: AllocationProfile) -> dict[str, ConcretePair]:
    return {
        "aligned": TabulatedPair("aligned", ahead, behind),
        "reversed": TabulatedPair("reversed", behind, ahead),
    }


def _shuffled(epoch: Epoch, mechanism: AdditiveNoise, relation: Relation) -> Sides:
    shift = mechanism.shift_for(moves(epoch, relation))
    if not has_proof(mechanism, Proof.GAUSSIAN):
        if relation != Relation.REPLACE_ONE:
            raise NotCovered.refusing(
                "relation",
                "must be {replace_one} for shuffled batches with noise that is not Gaussian",
                f"{{{relation.value}}}",
                mentions=tuple(Relation),
            )
        # From below one would need the law of many batches, which is known for Gaussian noise.
        return shift, shuffled_pair(epoch, mechanism, relation), {}
    drawn = min(1.0, epoch.steps * epoch.expected_size / epoch.n)
    families: dict[str, ConcretePair] = {}

    def see(name: str, a: float, b: float) -> None:
        families[name] = maximum_pair(name, epoch.steps, a * shift, b * shift, 1.0 - drawn)

    full = int(epoch.n // epoch.expected_size)
    if shift <= _MOST_TABULATED:
        # The record is in every full batch equally often, and no other record is seen: as if
        # allocated.
        # A smaller last batch is not looked at.
        bins, steps = epoch.n / epoch.expected_size, min(epoch.steps, full)
        families |= _orders(*_directions(bins, steps, shift))
    else:
        see("aligned", 1.0, 0.0)
        see("reversed", 0.0, 1.0)
    if relation == Relation.REPLACE_ONE:
        see("symmetric", 0.5, -0.5)
    elif mechanism.in_a_ball:
        see("crowded", 2.0, 1.0)
        see("crowded, reversed", 1.0, 2.0)
    return shift, shuffled_pair(epoch, mechanism, relation), families

"""What one atom of a plan contributes: its dominating pair, and the concrete pairs it attains."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from mustdp.accounting.atom_profiles import (
    GroupProfile,
    OneSlopeProfile,
    ReusedProfile,
    SubsampledProfile,
)
from mustdp.accounting.composed_profiles import group_profiles
from mustdp.accounting.copies import mechanisms, observe
from mustdp.accounting.epoch_pairs import epoch_sides, on_grids
from mustdp.accounting.plan import Atom, InEpoch, Subsample
from mustdp.accounting.replaced import ReplacedProfile
from mustdp.amplification.stages import DEPTH, TAIL, staged_inside
from mustdp.errors import NotCovered
from mustdp.limits import LARGEST_EPSILON
from mustdp.loss.dots import DominatingPair, Profile
from mustdp.loss.pairs import ConcretePair, family_pair
from mustdp.mechanisms.mechanism import AdditiveNoise, Gaussian, Mechanism
from mustdp.mechanisms.relation import Relation, default_relation, moves
from mustdp.numerics.checks import frozen
from mustdp.sampling.epochs import RandomAllocation
from mustdp.sampling.law import MultiplicityLaw, stage_law
from mustdp.sampling.scheme import Multistage, Poisson, Scheme

_LAW_TAIL = 1e-40


@dataclass(frozen=True, eq=False)
class AtomPairs:
    """Both sides of one atom.

    ``dominating`` is worse than every pair of neighbours at once. ``families`` are pairs of output
    distributions that neighbours really have, by name. ``exact`` says that but for numerics the two
    would meet, also in compositions. Where either is found on grids, ``at`` makes both anew on
    grids this many times as fine, up to ``finest``.
    """

    shift: float | None
    dominating: DominatingPair
    families: Mapping[str, ConcretePair]
    exact: bool = False
    at: Callable[[float], AtomPairs] | None = None
    finest: float = math.inf

    @property
    def directions(self) -> dict[str, Profile]:
        """The upper profiles by direction: one if both orders of the neighbours share it."""
        ahead, behind = self.dominating.forward, self.dominating.backward
        return {"both": ahead} if self.dominating.self_dual else {"remove": ahead, "add": behind}


def atom_pairs(atom: Atom, relation: Relation, method: str, group: int = 1) -> AtomPairs:
    """The dominating pair and the attained pairs of one atom for ``group`` records that differ."""
    if isinstance(atom, Mechanism):
        return _plain(atom, relation, group)
    if isinstance(atom, InEpoch):
        return _epoch(atom, relation, method, group)
    if isinstance(atom.inner, Mechanism):
        deep = isinstance(atom.scheme, Multistage) and len(atom.scheme.reduced) > 2
        # The tables of many stages are too large to be kept.
        make = _subsampled.__wrapped__ if deep else _subsampled
        return make(atom.scheme, atom.inner, relation, method, group)
    return _nested(atom, relation, method, group)


def _epoch(
    atom: InEpoch, relation: Relation, method: str, group: int, fine: float = 1.0
) -> AtomPairs:
    sides = epoch_sides(atom, relation, method, group, fine)
    at = partial(_epoch, atom, relation, method, group) if on_grids(atom, relation, group) else None
    exact = group == 1 and isinstance(atom.epoch, RandomAllocation) and atom.epoch.times == 1
    profile = sides[1].forward
    finest = profile.finest if isinstance(profile, ReplacedProfile) else math.inf
    return AtomPairs(*sides, exact=exact, at=at, finest=finest)


def subsampled_pair(
    scheme: Scheme, mechanism: Mechanism, relation: Relation, group: int = 1
) -> DominatingPair:
    """What dominates a mechanism on one draw: the certificate, or its two directions."""
    if relation == Relation.REPLACE_ONE:
        return DominatingPair.of(SubsampledProfile(scheme, mechanism, relation, group=group))
    return DominatingPair(
        SubsampledProfile(scheme, mechanism, relation, "remove", group),
        SubsampledProfile(scheme, mechanism, relation, "add", group),
    )


def _plain(mechanism: Mechanism, relation: Relation, group: int) -> AtomPairs:
    """A release on all records: one copy moves the sum by 2 C, or by C under add_remove."""
    shift = mechanism.shift_for(2.0 if relation == Relation.REPLACE_ONE else 1.0)
    dominating = DominatingPair.of(GroupProfile(mechanism.profiles(shift), group))
    law = MultiplicityLaw(group, frozen(np.ones(1)), 0.0, 0.0)
    families = _families(mechanism, law, shift, 1)
    # Additive noise in one dimension is as bad as in any.
    return AtomPairs(shift, dominating, families, exact=isinstance(mechanism, Gaussian))


@lru_cache(maxsize=8)
def _subsampled(
    scheme: Scheme, mechanism: Mechanism, relation: Relation, method: str, group: int
) -> AtomPairs:
    """Kept for the next account of the same atom: other step counts look at the same points."""
    shift = mechanism.shift_for(moves(scheme, relation))
    law, poisson = scheme.law(group, _LAW_TAIL), isinstance(scheme, Poisson)
    if method == "one-slope":
        if poisson != (relation == Relation.ADD_REMOVE):
            raise NotCovered.refusing(
                "relation",
                f"must be {{{default_relation(scheme).value}}} for {scheme.name} with {{method}} "
                "one-slope, the paper's theorem",
                f"{{{relation.value}}}",
                mentions=(*Relation, "method"),
            )
        dominating = DominatingPair.of(OneSlopeProfile(law, mechanism.profiles(shift)))
    else:
        dominating = subsampled_pair(scheme, mechanism, relation, group)
    families = _families(mechanism, law, shift, 1)
    if relation == Relation.ADD_REMOVE:
        families.pop("symmetric", None)
    elif poisson and isinstance(mechanism, AdditiveNoise) and mechanism.in_a_ball:
        families = {name: pair for name, pair in families.items() if name == "symmetric"}
    return AtomPairs(shift, dominating, families)


def _nested(atom: Subsample, relation: Relation, method: str, group: int) -> AtomPairs:
    """A subset that several releases share: compose inside, amplify outside."""
    scheme = atom.scheme
    if relation != Relation.REPLACE_ONE:
        raise NotCovered.refusing(
            "relation",
            "must be {replace_one} for a subset that is reused: for {add_remove} no theorem here "
            "bounds the composition inside",
            "{add_remove}",
            mentions=tuple(Relation),
        )
    if method != "certified":
        raise NotCovered(f"method {method!r} does not cover a subset that is reused")
    if isinstance(scheme, Poisson) and not all(
        isinstance(mechanism, AdditiveNoise) for mechanism in mechanisms(atom.inner)
    ):
        raise NotCovered(
            "a custom profile does not say what leaving a record out does, which Poisson sampling "
            "under replace_one needs; use a fixed-size scheme"
        )
    inner = group_profiles(atom.inner, LARGEST_EPSILON + 2 * DEPTH)
    if isinstance(scheme, Multistage):
        law = stage_law(scheme.reduced[0], scheme.n, group, TAIL)
        inside = staged_inside(scheme, inner, LARGEST_EPSILON)
    else:
        law, inside = scheme.law(group), inner
    seen = observe(atom, group)
    shift = seen.mechanism.shift_for(2.0)
    families = _families(seen.mechanism, seen.law, shift, seen.releases)
    if isinstance(scheme, Poisson):
        families = {name: pair for name, pair in families.items() if name == "symmetric"}
    return AtomPairs(shift, DominatingPair.of(ReusedProfile(law, inside)), families)


def _families(
    mechanism: Mechanism, law: MultiplicityLaw, shift: float | None, releases: int
) -> dict[str, ConcretePair]:
    """The attained families; several Gaussian releases are looked at through their sum."""
    if not isinstance(mechanism, AdditiveNoise) or shift is None or law.positive.size == 0:
        return {}
    scaled = shift / math.sqrt(releases)
    names = ("aligned", "reversed", "symmetric")
    return {name: family_pair(name, law, mechanism.noise, scaled) for name in names}

"""What one atom of a plan contributes: its dominating pair, and the concrete pairs it attains."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mustdp.accounting.composed_profiles import group_profiles
from mustdp.accounting.copies import mechanisms, observe
from mustdp.accounting.plan import Atom, Subsample
from mustdp.amplification.mixed_slope import certificate
from mustdp.amplification.one_step import upper_bound
from mustdp.amplification.section4 import section4_bound
from mustdp.amplification.stages import DEPTH, TAIL, staged_inside
from mustdp.errors import NotCovered
from mustdp.limits import LARGEST_EPSILON
from mustdp.loss.dots import DominatingPair
from mustdp.loss.pairs import MixturePair, family_pair
from mustdp.mechanisms.mechanism import AdditiveNoise, Mechanism
from mustdp.mechanisms.relation import Relation, default_relation, moves
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.checks import frozen
from mustdp.sampling.law import MultiplicityLaw, stage_law
from mustdp.sampling.scheme import Multistage, Poisson, Scheme

_ONE = MultiplicityLaw(1, frozen(np.ones(1)), 0.0, 0.0)
_LAW_TAIL = 1e-40


@dataclass(frozen=True, eq=False)
class AtomPairs:
    """Upper and lower side of one atom."""

    shift: float | None
    dominating: DominatingPair
    families: dict[str, MixturePair]


def atom_pairs(atom: Atom, relation: Relation, method: str) -> AtomPairs:
    """The dominating pair and the attained pairs of one atom under a relation."""
    if isinstance(atom, Mechanism):
        return _plain(atom, relation)
    if isinstance(atom.inner, Mechanism):
        return _subsampled(atom.scheme, atom.inner, relation, method)
    return _nested(atom, relation, method)


def _plain(mechanism: Mechanism, relation: Relation) -> AtomPairs:
    """A release on all records: one copy moves the sum by 2 C, or by C under add_remove."""
    shift = mechanism.shift_for(2.0 if relation == Relation.REPLACE_ONE else 1.0)
    profiles = mechanism.profiles(shift)

    def profile(epsilon: FloatArray) -> FloatArray:
        value = profiles.delta(np.ones(1), epsilon[:, None])[:, 0]
        return np.minimum(value * (1.0 + profiles.relative_error), 1.0)

    return AtomPairs(shift, DominatingPair(profile, profile), _families(mechanism, _ONE, shift, 1))


def _subsampled(scheme: Scheme, mechanism: Mechanism, relation: Relation, method: str) -> AtomPairs:
    shift = mechanism.shift_for(moves(scheme, relation))
    poisson = isinstance(scheme, Poisson)
    if method == "section4":
        if poisson != (relation == Relation.ADD_REMOVE):
            raise NotCovered.refusing(
                "relation",
                f"must be {{{default_relation(scheme).value}}} for {scheme.name} with {{method}} "
                "section4, the paper's theorem",
                f"{{{relation.value}}}",
                mentions=(*Relation, "method"),
            )
        law, profiles = scheme.law(), mechanism.profiles(shift)

        def paper(epsilon: FloatArray) -> FloatArray:
            return section4_bound(law, profiles, epsilon)

        dominating = DominatingPair(paper, paper)
    elif relation == Relation.REPLACE_ONE:

        def both(epsilon: FloatArray) -> FloatArray:
            return upper_bound(scheme, mechanism, epsilon, relation=relation)

        dominating = DominatingPair(both, both)
    else:
        dominating = DominatingPair(
            lambda e: upper_bound(scheme, mechanism, e, relation=relation, direction="remove"),
            lambda e: upper_bound(scheme, mechanism, e, relation=relation, direction="add"),
        )
    law = scheme.law(1, _LAW_TAIL)
    families = _families(mechanism, law, shift, 1)
    if relation == Relation.ADD_REMOVE:
        families.pop("symmetric", None)
    elif poisson:
        families = {name: pair for name, pair in families.items() if name == "symmetric"}
    return AtomPairs(shift, dominating, families)


def _nested(atom: Subsample, relation: Relation, method: str) -> AtomPairs:
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
        law = stage_law(scheme.reduced[0], scheme.n, 1, TAIL)
        inside = staged_inside(scheme, inner, LARGEST_EPSILON)
    else:
        law, inside = scheme.law(), inner

    def profile(epsilon: FloatArray) -> FloatArray:
        return certificate(law, inside, epsilon)[0]

    seen = observe(atom)
    shift = seen.mechanism.shift_for(2.0)
    families = _families(seen.mechanism, seen.law, shift, seen.releases)
    if isinstance(scheme, Poisson):
        families = {name: pair for name, pair in families.items() if name == "symmetric"}
    return AtomPairs(shift, DominatingPair(profile, profile), families)


def _families(
    mechanism: Mechanism, law: MultiplicityLaw, shift: float | None, releases: int
) -> dict[str, MixturePair]:
    """The attained families; several Gaussian releases are looked at through their sum."""
    if not isinstance(mechanism, AdditiveNoise) or shift is None or law.positive.size == 0:
        return {}
    scaled = shift / math.sqrt(releases)
    names = ("aligned", "reversed", "symmetric")
    return {name: family_pair(name, law, mechanism.noise, scaled) for name in names}

"""Which family of pairs is proved for an atom of a plan."""

from __future__ import annotations

from mustdp.accounting.plan import Atom, Subsample
from mustdp.amplification.cells import DiscTriples, LineTriples, PairFamily
from mustdp.amplification.copied import MOST_COPIES, NestedCopies, ReplacementCopies
from mustdp.amplification.replaced_twice import ReplacedTwice
from mustdp.amplification.stages import StagedProfiles, staged_inside
from mustdp.limits import LARGEST_EPSILON
from mustdp.mechanisms.mechanism import AdditiveNoise, Gaussian
from mustdp.mechanisms.relation import Relation
from mustdp.sampling.law import MultiplicityLaw, stage_law
from mustdp.sampling.scheme import Multistage

#: Copies that move the result further than this are left to the single pair: nothing is hidden.
_FARTHEST = 30.0
#: Slots of a first stage with replacement that hold the record on average; more than one is common.
_MOST_SLOTS = 0.5


def family_of(
    atom: Atom, relation: Relation, *, dimension: int | None = None, tail: float = 1e-20
) -> PairFamily | None:
    """The family of pairs of one atom, or None where only the single pair is proved."""
    if relation != Relation.REPLACE_ONE or not isinstance(atom, Subsample):
        return None
    scheme, mechanism = atom.scheme, atom.inner
    if not isinstance(scheme, Multistage) or not isinstance(mechanism, AdditiveNoise):
        return None
    stages, shift = scheme.reduced, mechanism.shift_for(2.0)
    if shift > _FARTHEST:
        return None
    gaussian = isinstance(mechanism, Gaussian)
    # A stated shift says how far one copy moves the result, not that contributions add up.
    adds_up = mechanism.in_a_ball
    first = stages[0]
    if len(stages) == 1 and first.kind == "wor":
        chance = first.size / scheme.n
        if not gaussian or dimension == 1:
            return LineTriples(mechanism.noise, chance, shift)
        return DiscTriples(chance, shift, ball=adds_up)
    if not gaussian or not adds_up or any(stage.kind != "wr" for stage in stages[1:]):
        return None
    population = scheme.n if len(stages) == 1 else first.size
    law = stage_law(stages[-1], population, 1, tail)
    if len(stages) > 2 or law.zero <= 0.0 or law.positive.size > MOST_COPIES:
        return None
    if law.positive_values.size != law.positive_values[-1]:  # multiplicities with gaps
        return None
    if first.kind == "wr" and len(stages) == 2:
        return _replaced_twice(scheme, mechanism, law, tail)
    if first.kind == "wr":
        return ReplacementCopies(law, shift)
    return NestedCopies(law, shift, chance=first.size / scheme.n)


def _replaced_twice(
    scheme: Multistage, mechanism: AdditiveNoise, law: MultiplicityLaw, tail: float
) -> ReplacedTwice | None:
    """MUSTww; None where several slots of the first stage hold the record as a rule."""
    first, shift = stage_law(scheme.reduced[0], scheme.n, 1, tail), mechanism.shift_for(2.0)
    if first.first != 0 or first.probabilities.size < 3 or first.mean > _MOST_SLOTS:
        return None
    inside = staged_inside(scheme, mechanism.profiles(shift), LARGEST_EPSILON)
    whole = StagedProfiles(scheme.reduced[0], scheme.n, inside, LARGEST_EPSILON)
    return ReplacedTwice(first, law, shift, inside, lambda epsilon: whole.one(1, epsilon)[0])

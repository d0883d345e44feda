"""Upper profiles of one atom, as frozen objects that are called with epsilons.

Each turns what describes an atom into a certified profile at epsilon >= 0, rounded up. They are
objects rather than functions inside functions so that they can be compared, sent and read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mustdp.accounting.subsampling.mixed_slope import certificate
from mustdp.accounting.subsampling.one_slope import one_slope_bound
from mustdp.accounting.subsampling.one_step import Direction, upper_bound
from mustdp.accounting.subsampling.stages import staged_inside
from mustdp.limits import LARGEST_EPSILON
from mustdp.mechanisms.contract import GroupProfiles, Mechanism
from mustdp.mechanisms.relation import Relation, shift_of
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.checks import frozen
from mustdp.sampling.law import MultiplicityLaw
from mustdp.sampling.schemes import Multistage, Scheme

#: Looks at a profile that are kept.
_KEPT = 12


@dataclass(frozen=True, eq=False)
class GroupProfile:
    """One member of a family of group profiles, its rounding error added."""

    profiles: GroupProfiles
    group: int = 1

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons."""
        value = self.profiles.delta(np.array([float(self.group)]), epsilon[:, None])[:, 0]
        return np.minimum(value * (1.0 + self.profiles.relative_error), 1.0)


@dataclass(frozen=True, eq=False)
class SubsampledProfile:
    """A mechanism on one draw of a scheme, in one direction or in the worse of both."""

    scheme: Scheme
    mechanism: Mechanism
    relation: Relation
    direction: Direction = "both"
    group: int = 1

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons; the last looks are kept."""
        key = epsilon.tobytes()
        seen = self._looks.get(key)
        if seen is None:
            if len(self._looks) >= _KEPT:
                self._looks.clear()
            seen = self._looks[key] = frozen(upper_bound(
                self.scheme, self.mechanism, epsilon, relation=self.relation,
                direction=self.direction, group=self.group, inside=self._inside,
            ))  # fmt: skip
        return seen

    @cached_property
    def _looks(self) -> dict[bytes, FloatArray]:
        return {}

    @cached_property
    def _inside(self) -> GroupProfiles | None:
        """The stages within the first, whose tables serve every look at this profile."""
        if not isinstance(self.scheme, Multistage) or len(self.scheme.reduced) < 2:
            return None
        profiles = self.mechanism.profiles(shift_of(self.mechanism, self.scheme, self.relation))
        return staged_inside(self.scheme, profiles, LARGEST_EPSILON)


@dataclass(frozen=True, eq=False)
class OneSlopeProfile:
    """The same by the paper's theorem, in which one slope serves every multiplicity."""

    law: MultiplicityLaw
    profiles: GroupProfiles

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons."""
        return one_slope_bound(self.law, self.profiles, epsilon)


@dataclass(frozen=True, eq=False)
class ReusedProfile:
    """A subset that several releases share: the certificate around what was composed inside."""

    law: MultiplicityLaw
    inside: GroupProfiles

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons."""
        return certificate(self.law, self.inside, epsilon)[0]

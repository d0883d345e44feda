"""One application of a subsampled mechanism: certified upper bound and attained lower bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from mustdp.amplification import attained
from mustdp.amplification.directions import add_direction, remove_direction
from mustdp.amplification.mixed_slope import certificate
from mustdp.amplification.one_slope import one_slope_bound
from mustdp.amplification.poisson import MOST_TAKEN, replaced_records
from mustdp.amplification.stages import TAIL, staged_inside
from mustdp.errors import NotCovered
from mustdp.mechanisms.mechanism import AdditiveNoise, Mechanism
from mustdp.mechanisms.profiles import GroupProfiles
from mustdp.mechanisms.relation import Relation, moves, resolve_relation, shift_of
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.sampling.law import MultiplicityLaw, stage_law
from mustdp.sampling.scheme import Multistage, Poisson, Scheme

Direction = Literal["both", "remove", "add"]

#: Largest epsilon of a one-step profile; beyond it e^epsilon is out of any practical range.
LARGEST_EPSILON = 600.0
#: Chances below this are too small to be divided by.
RAREST = 1e-280


@dataclass(frozen=True, eq=False)
class OneStep:
    """Bounds of delta for one application, at each epsilon.

    Attributes
    ----------
    scheme : Scheme
        How batches are drawn.
    mechanism : Mechanism
        The noise.
    relation : Relation
        Which data sets are neighbours.
    shift : float or None
        How far one copy moves the output, over the scale of the noise; None for a custom mechanism.
    group : int
        How many records differ.
    epsilon : ndarray
        The epsilons.
    upper : ndarray
        Certified: holds for every pair of neighbouring data sets.
    lower : ndarray
        The largest of ``attained``.
    attained : mapping of str to ndarray
        Deltas of families of concrete pairs of data sets, by name.
    one_slope : ndarray or None
        The paper's theorem read as a bound; None where it does not apply.

    Examples
    --------
    >>> import mustdp as md
    >>> found = md.one_step(md.wor(1000, 10), md.gaussian(shift=0.5), epsilon=[0.1, 0.5])
    >>> bool((found.lower <= found.upper).all()), found.group
    (True, 1)
    """

    scheme: Scheme
    mechanism: Mechanism
    relation: Relation
    shift: float | None
    group: int
    epsilon: FloatArray
    upper: FloatArray
    lower: FloatArray
    attained: Mapping[str, FloatArray]
    one_slope: FloatArray | None


def one_step(
    scheme: Scheme,
    mechanism: Mechanism,
    epsilon: ArrayLike,
    *,
    relation: str | None = None,
    group: int = 1,
) -> OneStep:
    """Bound delta(epsilon) of ``mechanism`` applied once to one draw of ``scheme``.

    Parameters
    ----------
    scheme : Scheme
        How batches are drawn.
    mechanism : Mechanism
        The noise, of a known size.
    epsilon : array_like
        The epsilons to ask about, from 0 to 600.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
    group : int, default=1
        How many records of one person the guarantee covers: neighbours differ in up to so many.

    Returns
    -------
    OneStep
        A lower and an upper delta at each epsilon.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NotCovered
        No theorem of this package covers what was asked.

    Examples
    --------
    >>> from mustdp import gaussian, must_ow
    >>> step = one_step(must_ow(1000, 100, 100), gaussian(shift=0.5), epsilon=0.5)
    >>> print(f"{step.lower[0]:.5e} {step.upper[0]:.5e}")
    4.58172e-04 4.58172e-04
    """
    eps = checks.reals("epsilon", epsilon, at_least=0, at_most=LARGEST_EPSILON)
    used = resolve_relation(scheme, relation)
    size = checks.integer("group", group, 1, scheme.n)
    shift = shift_of(mechanism, scheme, used)
    profiles = mechanism.profiles(shift)
    upper = upper_bound(scheme, mechanism, eps, relation=used, group=size)
    one_slope = _one_slope(scheme, profiles, used, size, eps)
    if one_slope is not None and not _is_exact(scheme, used):
        upper = np.minimum(upper, one_slope)
    families = attained_values(scheme, mechanism, eps, relation=used, group=size)
    lower = np.max(np.stack([np.zeros(eps.size), *families.values()]), axis=0)
    arrays = [eps, upper, lower, *families.values(), *([] if one_slope is None else [one_slope])]
    for array in arrays:
        checks.frozen(array)
    return OneStep(
        scheme, mechanism, used, shift, size, eps, upper, lower,
        MappingProxyType(families), one_slope,
    )  # fmt: skip


def upper_bound(
    scheme: Scheme,
    mechanism: Mechanism,
    epsilon: FloatArray,
    *,
    relation: str,
    direction: Direction = "both",
    group: int = 1,
    inside: GroupProfiles | None = None,
) -> FloatArray:
    """Certified upper bound at epsilon >= 0; under add_remove one direction can be asked for.

    ``inside`` is what :func:`staged_inside` made of the stages within the first, if it is known.
    """
    used = Relation.read(relation)
    profiles = mechanism.profiles(shift_of(mechanism, scheme, used))
    if used == Relation.REPLACE_ONE:
        if isinstance(scheme, Poisson):
            return _poisson_replace(scheme, mechanism, profiles, epsilon, group)
        law, inner = _outermost(scheme, profiles, group, epsilon, inside)
        return certificate(law, inner, epsilon)[0]
    if isinstance(scheme, Poisson):
        law, inner = scheme.law(group), profiles
    else:
        first = scheme.reduced[0] if isinstance(scheme, Multistage) else None
        if first is not None and first.kind == "wor" and first.size > scheme.n - group:
            raise NotCovered.refusing(
                "relation",
                f"must be {{replace_one}} here: {{add_remove}} compares n = {scheme.n} records "
                f"with {scheme.n - group}, from which {first.size} cannot be drawn without "
                "replacement",
                "{add_remove}",
                mentions=("replace_one", "add_remove"),
            )
        law, inner = _outermost(scheme, profiles, group, epsilon, inside)
    parts = []
    if direction != "add":
        parts.append(remove_direction(law, inner, epsilon))
    if direction != "remove":
        parts.append(add_direction(law, inner, epsilon))
    return np.asarray(np.max(np.stack(parts), axis=0))


def attained_values(
    scheme: Scheme,
    mechanism: Mechanism,
    epsilon: FloatArray,
    *,
    relation: str,
    group: int = 1,
) -> dict[str, FloatArray]:
    """Lower bounds by family of concrete pairs; empty for a mechanism known only by its profile."""
    used = Relation.read(relation)
    if not isinstance(mechanism, AdditiveNoise):
        return {}
    noise, shift = mechanism.noise, mechanism.shift_for(moves(scheme, used))
    law = scheme.law(group)
    families: dict[str, FloatArray] = {}
    if _moves_wholly(scheme, mechanism, used):
        families["aligned"] = attained.aligned(law, noise, shift, epsilon)
        families["reversed"] = attained.reversed_pair(law, noise, shift, epsilon)
    if used == Relation.REPLACE_ONE:
        families["symmetric"] = attained.symmetric(law, noise, shift, epsilon)
    return families


def _outermost(
    scheme: Scheme,
    profiles: GroupProfiles,
    group: int,
    epsilon: FloatArray,
    inside: GroupProfiles | None,
) -> tuple[MultiplicityLaw, GroupProfiles]:
    """The first stage's law and the group profiles of all that happens inside it."""
    if not isinstance(scheme, Multistage):
        raise NotCovered(f"no certificate for a scheme of type {type(scheme).__name__}")
    if inside is None:
        inside = staged_inside(scheme, profiles, float(np.max(epsilon)))
    return stage_law(scheme.reduced[0], scheme.n, group, TAIL), inside


def _poisson_replace(
    scheme: Poisson,
    mechanism: Mechanism,
    profiles: GroupProfiles,
    epsilon: FloatArray,
    group: int,
) -> FloatArray:
    """Poisson under replace_one: exact for records of a sum, the certificate otherwise."""
    if not isinstance(mechanism, AdditiveNoise):
        raise NotCovered(
            "a custom profile does not say what leaving a record out does, which Poisson sampling "
            "under replace_one needs; use add_remove or a fixed-size scheme"
        )
    # Small groups have a whole law; of larger ones what is cut off is added to delta.
    law = scheme.law(group) if group <= MOST_TAKEN else scheme.law(group, TAIL)
    if law.eta < RAREST:  # what is not taken tells nothing: the chance itself is the bound
        return np.full(epsilon.size, min(1.0, law.eta * (1.0 + 1e-9) + law.cut))
    if not mechanism.in_a_ball:
        # Swapping a record and leaving it out may both move the result by the whole shift.
        return certificate(law, profiles, epsilon)[0]
    return replaced_records(law, mechanism.noise, mechanism.shift_for(2.0), epsilon)


def _moves_wholly(scheme: Scheme, mechanism: AdditiveNoise, relation: Relation) -> bool:
    """Whether a record can move the result by the whole shift away from where others leave it.

    In a ball its place must be filled for that, or be empty and the shift that of one record.
    """
    filled = not isinstance(scheme, Poisson) or relation == Relation.ADD_REMOVE
    return filled or not mechanism.in_a_ball


def _is_exact(scheme: Scheme, relation: Relation) -> bool:
    return isinstance(scheme, Poisson) or relation == Relation.ADD_REMOVE


def _one_slope(
    scheme: Scheme, profiles: GroupProfiles, relation: Relation, group: int, epsilon: FloatArray
) -> FloatArray | None:
    """The paper's bound where it is valid: its own relation, for groups too."""
    if isinstance(scheme, Poisson) != (relation == Relation.ADD_REMOVE):
        return None
    return one_slope_bound(scheme.law(group), profiles, epsilon)

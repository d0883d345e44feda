"""Amplification as the paper states it: one slope for every multiplicity.

[Z] = Zhao, Zhou & Liu, arXiv 2312.13389, Theorem 4; for sampling with replacement it is Balle,
Barthe & Gaboardi 2018, arXiv 1807.01647v2, Theorem 10. For a base mechanism that is
(eps, delta)-DP with group profiles delta_j,

    eps' = log(1 + eta (e^eps - 1)),      delta' = sum_{j>=1} p_j delta_j(eps).

Valid under replace_one for every fixed-size scheme, and under add_remove for Poisson sampling;
loose because one slope serves every multiplicity (``one_step.py`` does better).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from mustdp.errors import NotCovered
from mustdp.mechanisms.mechanism import GroupProfiles, Mechanism
from mustdp.mechanisms.relation import Relation, default_relation, shift_of
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.sampling.schemes import MultiplicityLaw, Scheme, TruncatedPoisson

Kind = Literal["strong", "weak-1", "weak-2", "dilution"]


@dataclass(frozen=True)
class AmplificationRow:
    """One base point (epsilon, delta) and where subsampling takes it.

    Attributes
    ----------
    epsilon : float
        The base epsilon.
    delta : float
        The base delta, that of the noise without subsampling.
    epsilon_prime : float
        The epsilon with subsampling.
    delta_prime : float
        The delta with subsampling.
    eta : float
        Chance that one given record is drawn at least once.
    kind : {"strong", "weak-1", "weak-2", "dilution"}
        Which of the two has become smaller: both, epsilon only, delta only, or none.
    ratio : float
        epsilon' / epsilon.
    difference : float
        delta' - delta.

    Examples
    --------
    >>> import mustdp as md
    >>> [row] = md.amplify(md.wor(1000, 10), md.laplace(shift=0.25), epsilon=0.2).rows
    >>> row.epsilon_prime < row.epsilon, row.delta_prime < row.delta
    (True, True)
    """

    epsilon: float
    delta: float
    epsilon_prime: float
    delta_prime: float
    eta: float
    kind: Kind
    ratio: float
    difference: float

    def __getitem__(self, column: str) -> Any:
        return asdict(self)[column]

    def as_dict(self) -> dict[str, Any]:
        """The row as a plain dictionary.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        return asdict(self)


@dataclass(frozen=True)
class Amplification(Sequence[AmplificationRow]):
    """Rows of base points with their amplified values, as the paper's theorem gives them.

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
    rows : tuple of AmplificationRow
        One row for each base epsilon.

    Examples
    --------
    >>> import mustdp as md
    >>> found = md.amplify(md.wor(1000, 10), md.laplace(shift=0.25), epsilon=[0.5, 1.0])
    >>> found.eta, len(found.rows)
    (0.01, 2)
    """

    scheme: Scheme
    mechanism: Mechanism
    relation: Relation
    shift: float | None
    rows: tuple[AmplificationRow, ...]

    @property
    def eta(self) -> float:
        """Chance that one given record is drawn at least once."""
        return self.scheme.eta

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[AmplificationRow]:
        return iter(self.rows)

    @overload
    def __getitem__(self, index: int) -> AmplificationRow: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[AmplificationRow, ...]: ...
    def __getitem__(self, index: int | slice) -> AmplificationRow | tuple[AmplificationRow, ...]:
        return self.rows[index]

    def column(self, name: str) -> FloatArray:
        """One column, for plotting.

        Parameters
        ----------
        name : str
            An attribute of the rows, such as "epsilon_prime".

        Returns
        -------
        ndarray
            One entry for each row.
        """
        return np.array([row[name] for row in self.rows])


def amplified_epsilon(epsilon: ArrayLike, eta: float) -> FloatArray:
    """eps' = log(1 + eta (e^eps - 1)), without overflow.

    Parameters
    ----------
    epsilon : array_like
        Base epsilons, at least 0.
    eta : float
        Chance that one given record is drawn at least once, from 0 to 1.

    Returns
    -------
    ndarray
        The epsilons with subsampling, by the paper's theorem.

    Examples
    --------
    >>> amplified_epsilon([0.5, 1000.0], 0.4)
    array([2.30705693e-01, 9.99083709e+02])
    """
    eps = checks.reals("epsilon", epsilon, at_least=0)
    eta = checks.real("eta", eta, at_least=0, at_most=1)
    small = np.minimum(eps, 1.0)
    with np.errstate(divide="ignore"):
        large = eps + np.log(eta + (1.0 - eta) * np.exp(-eps))
    return np.where(eps <= 1.0, np.log1p(eta * np.expm1(small)), np.maximum(large, 0.0))


def base_epsilon(epsilon_prime: ArrayLike, eta: float) -> FloatArray:
    """The inverse: the eps whose amplified value is ``epsilon_prime``; eps = eps' for eta = 1.

    Parameters
    ----------
    epsilon_prime : array_like
        Epsilons with subsampling, at least 0.
    eta : float
        Chance that one given record is drawn at least once, above 0 and at most 1.

    Returns
    -------
    ndarray
        The base epsilons.

    Examples
    --------
    >>> amplified_epsilon(base_epsilon([1e-5, 0.1, 900.0], 0.02), 0.02)
    array([1.e-05, 1.e-01, 9.e+02])
    """
    eps = checks.reals("epsilon_prime", epsilon_prime, at_least=0)
    eta = checks.real("eta", eta, above=0, at_most=1)
    small = np.minimum(eps, 1.0)
    with np.errstate(over="ignore", divide="ignore"):
        large = eps + np.log(-np.expm1(-eps) / eta + np.exp(-eps))
        base = np.where(eps <= 1.0, np.log1p(np.expm1(small) / eta), large)
        # A rate so small that the quotient overflows: the 1 no longer matters.
        beyond = eps + np.log(-np.expm1(-eps)) - np.log(eta)
    return np.where(np.isfinite(base), base, beyond)


def amplified_delta(
    law: MultiplicityLaw, profiles: GroupProfiles, epsilon: FloatArray
) -> FloatArray:
    """delta' = sum_{j>=1} p_j delta_j(eps), plus the mass that the law left out."""
    groups = law.positive_values
    if groups.size == 0:
        return np.full(epsilon.size, law.cut)
    wide = np.broadcast_to(epsilon[:, None], (epsilon.size, groups.size))
    return np.minimum(profiles.delta(groups, wide) @ law.positive + law.cut, 1.0)


def one_slope_bound(
    law: MultiplicityLaw, profiles: GroupProfiles, epsilon_prime: FloatArray
) -> FloatArray:
    """The paper's theorem read as a bound at ``epsilon_prime``, rounded up."""
    eta = min(1.0, law.eta)
    if eta == 0.0:
        return np.full(epsilon_prime.size, law.cut)
    slack = 1e-12 + 8.0 * law.relative_error
    # A slightly smaller base epsilon is on the safe side of all rounding of eta.
    base = np.maximum(base_epsilon(epsilon_prime, eta) - slack, 0.0)
    bound = amplified_delta(law, profiles, base)
    return np.minimum(bound * (1.0 + profiles.relative_error + slack), 1.0)


def kind_of(epsilon: float, delta: float, epsilon_prime: float, delta_prime: float) -> Kind:
    """Which of the four kinds of amplification a point shows; ties count as no larger."""
    if epsilon_prime <= epsilon:
        return "strong" if delta_prime <= delta else "weak-1"
    return "weak-2" if delta_prime <= delta else "dilution"


def amplify(scheme: Scheme, mechanism: Mechanism, epsilon: ArrayLike) -> Amplification:
    """Amplify the base points (epsilon, delta(epsilon)) by the paper's theorem.

    The relation is add_remove for Poisson sampling and replace_one for every other scheme. The rows
    traced over epsilon are the aligned privacy profile: ``ratio`` against ``difference``.

    Parameters
    ----------
    scheme : Scheme
        How batches are drawn.
    mechanism : Mechanism
        The noise, of a known size.
    epsilon : array_like
        Base epsilons, at least 0.

    Returns
    -------
    Amplification
        One row for each base epsilon.

    See Also
    --------
    one_step : certified bounds of the same, mostly tighter

    Examples
    --------
    >>> from mustdp import laplace, must_ow
    >>> row = amplify(must_ow(1000, 500, 400), laplace(shift=0.25), epsilon=0.5)[0]
    >>> round(row.epsilon_prime, 3), round(row.delta_prime, 3), row.kind
    (0.164, 0.003, 'weak-1')
    """
    if isinstance(scheme, TruncatedPoisson):
        raise NotCovered(
            "the theorem of the paper has no Poisson sampling with a cap: see one_step"
        )
    eps = checks.reals("epsilon", epsilon, at_least=0)
    relation = default_relation(scheme)
    shift = shift_of(mechanism, scheme, relation)
    profiles = mechanism.profiles(shift)
    eta = scheme.eta
    base = profiles.delta(np.ones(1), eps[:, None])[:, 0]
    prime = amplified_epsilon(eps, eta)
    delta = amplified_delta(scheme.law(), profiles, eps)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(eps > 0, prime / eps, eta)
    columns = zip(
        eps.tolist(), base.tolist(), prime.tolist(), delta.tolist(), ratio.tolist(), strict=True
    )
    rows = tuple(
        AmplificationRow(e, d, e1, d1, eta, kind_of(e, d, e1, d1), r, d1 - d)
        for e, d, e1, d1, r in columns
    )
    return Amplification(scheme, mechanism, relation, shift, rows)

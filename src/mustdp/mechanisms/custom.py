"""Any other mechanism, known only through its privacy profile.

Groups are covered by the black-box bound delta_j(eps) <= (e^eps - 1)/(e^{eps/j} - 1) delta(eps/j)
(Vadhan, "The Complexity of Differential Privacy", 2017, Lemma 2.2): the factor is the geometric
sum 1 + e^{eps/j} + … + e^{(j-1) eps/j}, from walking through j neighbours one at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mustdp.errors import InvalidParameter
from mustdp.mechanisms.contract import GroupProfiles, Mechanism, TabulatedProfiles
from mustdp.mechanisms.laws import dual
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.checks import frozen
from mustdp.numerics.convex import TangentTable, hull_slopes, two_sided

Profile = Callable[[FloatArray], ArrayLike]

_REACH = 690.0
_GRID = frozen(np.concatenate([[0.0], np.geomspace(1e-6, 400.0, 600)]))


@dataclass(frozen=True)
class Custom(Mechanism):
    """A mechanism described by its profile, in both orders of the data sets.

    The profile must hold for batches that differ in one entry: *swapped* for schemes of a fixed
    batch size, whatever the relation, and *left out* for Poisson sampling (under add_remove, the
    only relation in which Poisson sampling takes a custom mechanism). A value of zero is taken at
    its word: a function that underflows to zero should return a small number instead.

    Parameters
    ----------
    profile : callable
        From an array of epsilons >= 0 to as many deltas, which do not increase.
    label : str, default="custom"
        What the mechanism is called.

    Raises
    ------
    InvalidParameter
        The function returns what cannot be a profile.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> coin = md.types.Custom(lambda eps: np.maximum(0.0, 0.75 - 0.25 * np.exp(eps)), "coin")
    >>> coin.label, round(md.account(coin).delta(0.5).upper, 3)
    ('coin', 0.338)
    """

    profile: Profile
    label: str = "custom"

    def __post_init__(self) -> None:
        if not callable(self.profile):
            raise InvalidParameter(
                f"profile must be a function from epsilon to delta, got {self.profile!r}"
            )
        self.evaluate(_GRID)

    @property
    def name(self) -> str:
        """The label it was given."""
        return self.label

    def shift_for(self, moves: float) -> None:
        """A custom mechanism has no shift."""
        return

    def profiles(self, shift: float | None) -> GroupProfiles:
        """Group profiles by the black-box bound."""
        return CustomProfiles(self)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON; the function itself is not part of it."""
        return {"mechanism": self.name}

    def evaluate(self, epsilon: FloatArray) -> FloatArray:
        """Call the user's function and refuse what cannot be a profile.

        Parameters
        ----------
        epsilon : ndarray
            Epsilons, at least 0.

        Returns
        -------
        ndarray
            As many deltas.
        """
        flat = np.ravel(epsilon)
        try:
            # Copies, both ways: the function may write to what it is given, which may be a table
            # of this module, and may return one buffer every time.
            values = np.array(self.profile(flat.copy()), dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise InvalidParameter(
                f"profile must accept an array of epsilons and return as many deltas: {problem}"
            ) from None
        if values.shape != flat.shape:
            raise InvalidParameter(
                f"profile must return one delta per epsilon: shape {flat.shape} expected, "
                f"got {values.shape}"
            )
        if not np.all((values >= 0) & (values <= 1)):
            bad = values[~((values >= 0) & (values <= 1))][0]
            raise InvalidParameter(f"profile must return deltas in [0, 1], got {bad!r}")
        order = np.argsort(flat, kind="stable")
        if np.any(np.diff(values[order]) > 1e-12):
            raise InvalidParameter("profile must not increase with epsilon")
        return values.reshape(np.shape(epsilon))


class CustomProfiles(TabulatedProfiles):
    """Group profiles of a custom mechanism; tangents come from the hull of a table."""

    relative_error = 1e-12

    def __init__(self, mechanism: Custom) -> None:
        self._mechanism = mechanism
        super().__init__(_REACH)

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """The black-box bound at every entry."""
        j, e = np.broadcast_arrays(groups, epsilon)
        size = np.abs(e)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            step = size / j
            factor = np.exp(size - step) * (np.expm1(-size) / np.expm1(-step))
            factor = np.where(size > 0, factor, j)
        finite = np.where(np.isfinite(step), step, 0.0)
        base = self._mechanism.evaluate(finite)
        bound = np.minimum(1.0, np.where(base > 0, factor, 0.0) * base)
        return dual(np.where(np.isfinite(step), bound, 1.0), e)

    def _table(self, group: int) -> TangentTable:
        epsilon = np.unique(np.minimum(_GRID * group, _REACH))
        value = self.delta(np.array(float(group)), epsilon)
        return two_sided(epsilon, value, hull_slopes(epsilon, value))


def custom(profile: Profile, label: str = "custom") -> Custom:
    """Describe a mechanism by its profile (see :class:`Custom`).

    Parameters
    ----------
    profile : callable
        From an array of epsilons >= 0 to as many deltas, which do not increase.
    label : str, default="custom"
        What the mechanism is called.

    Returns
    -------
    Custom
        A plan of one release, to be subsampled and repeated.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> coin = md.custom(lambda eps: np.maximum(0.0, 0.75 - 0.25 * np.exp(eps)))
    >>> round(md.account(coin).delta(0.5).upper, 3)
    0.338
    """
    return Custom(profile, label)

"""One estimate with its standard error and its interval, and what its reader has to know."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mustdp.releasing.uncertainty import Reading


@dataclass(frozen=True)
class ReleasedEstimate:
    """One number of a release.

    ``column`` names the column or columns, ``group`` the group, ``cell`` the cell of a table or the
    term of a regression; each is None where there is none. ``description`` says what was estimated.

    Attributes
    ----------
    statistic : str
        The statistic, such as "mean".
    column : str or None
        The column or columns; None where there is none.
    group : str or None
        The group; None where there are none.
    cell : str or None
        The cell of a table, or the term of a regression; None where there is none.
    value : float
        The estimate; NaN where noise leaves nothing to be known, which ``flags`` say.
    standard_error : float
        Of sampling and noise together; NaN or infinite where it is not known.
    interval : (float, float)
        The interval for sampling and noise together, at the release's level.
    noise_share : float
        Which share of the variance is that of the noise.
    description : str
        What was estimated, in words.
    flags : tuple of str
        What a reader has to know.
    where : str
        The end of the description that says which group or strata are meant; empty for none.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> ages = np.random.default_rng(0).uniform(20, 80, 1000)
    >>> result = md.private_release(ages, "mean", lower=0, upper=100, epsilon=1, delta=1e-6)
    >>> [mean] = result.estimates
    >>> mean.statistic, 0.0 < mean.noise_share < 1.0
    ('mean', True)
    >>> bool(mean.interval[0] < mean.value < mean.interval[1])
    True
    """

    statistic: str
    column: str | None
    group: str | None
    cell: str | None
    value: float
    standard_error: float
    interval: tuple[float, float]
    noise_share: float
    description: str
    flags: tuple[str, ...] = ()
    where: str = ""

    @property
    def known(self) -> bool:
        """Whether there is an estimate; else ``value`` is NaN and is written as NA."""
        return math.isfinite(self.value)

    @property
    def label(self) -> str:
        """A name among the estimates of one release."""
        named = f"{self.statistic} {self.column}" if self.column else self.statistic
        named = f"{named}: {self.cell}" if self.cell else named
        return f"{named} ({self.group})" if self.group is not None else named

    @property
    def width(self) -> float:
        """Width of the interval."""
        return self.interval[1] - self.interval[0]

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON; what is not known is None.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        return {
            "statistic": self.statistic,
            "column": self.column,
            "group": self.group,
            "cell": self.cell,
            "estimate": self.value if self.known else None,
            "standard_error": self.standard_error if math.isfinite(self.standard_error) else None,
            "interval": [end if math.isfinite(end) else None for end in self.interval],
            "noise_share": self.noise_share,
            "description": self.description,
            "flags": list(self.flags),
        }


def estimated(
    reading: Reading,
    *,
    statistic: str,
    column: str | None,
    group: str | None,
    cell: str | None = None,
    description: str,
    where: str = "",
) -> ReleasedEstimate:
    """A reading with its names."""
    return ReleasedEstimate(
        statistic,
        column,
        group,
        cell,
        reading.value,
        reading.standard_error,
        reading.interval,
        reading.noise_share,
        description,
        reading.flags,
        where,
    )

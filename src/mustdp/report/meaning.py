"""What the words of a report mean, for readers who meet them for the first time."""

from __future__ import annotations

import math
from fractions import Fraction

from mustdp.numerics.decimals import as_stated, given_or_rounded, readable
from mustdp.pages.document import Page
from mustdp.report.findings import Findings
from mustdp.report.reading import small


def meanings(page: Page, found: Findings) -> None:
    """Epsilon and delta first, with the numbers of this page."""
    asked = found.question
    epsilon = found.reference.epsilon.upper if asked.epsilon is None else asked.epsilon
    page.points(
        [
            "**Epsilon**: how much everything that is released may change what somebody believes. "
            "The odds of any suspicion about one record (chances for, against chances against) are "
            "multiplied or divided by at most e^epsilon; epsilon "
            f"{given_or_rounded(epsilon, 'up')} means by at most {_factor(epsilon)}, and 0 means "
            "not at all.",
            "**Delta**: the chance that this limit may be broken. With delta = "
            f"{small(asked.delta)} the release is no easier to attack than one that keeps the "
            f"limit and reveals a record outright in {_one_in(asked.delta)}. It should be well "
            "below one in the number of records.",
            "**Certified, at most**: proved for every pair of neighbouring data sets, with all "
            "errors of computing counted. **Attained, at least**: some pair of data sets reaches "
            "it, so that no better proof can go below.",
            "**Poisson**: every record is taken with chance m/n, so that batches vary in size. "
            "**WOR**, **WR**: m of n records without or with replacement.",
            "**MUSTow**: b of n without, then m of those with replacement; **MUSTww**: both with; "
            "**MUSTwo**: with, then without; **MUSToo**: both without.",
            "**Noise multiplier**: standard deviation of the Gaussian noise on the sum over the "
            "batch, divided by the bound on one record's contribution.",
            "**Neighbours**: data sets with "
            f"{found.comparison.relation.differing(found.question.group)}, for all schemes alike.",
        ]
    )


def _factor(epsilon: float) -> str:
    """e^epsilon, rounded up.

    >>> _factor(2.0), _factor(600.0)
    ('7.39', 'e^600, which is no limit in practice')
    """
    if epsilon > 50.0:
        return f"e^{given_or_rounded(epsilon, 'up')}, which is no limit in practice"
    return readable(math.exp(epsilon), "up")


def _one_in(delta: float) -> str:
    """A small chance as people say it.

    >>> _one_in(1e-5), _one_in(0.3)
    ('one case in 100,000', '0.3 of all cases')
    """
    if delta > 0.1:
        return f"{as_stated(delta)} of all cases"
    return f"one case in {math.floor(1 / Fraction(as_stated(delta))):,}"

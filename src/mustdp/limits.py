"""The limits that arguments are held to, each written once; loading this loads nothing else."""

from __future__ import annotations

#: Largest size accepted anywhere: above it, integers are no longer exact in double precision.
LARGEST_SIZE = 2**53
#: More steps than this are refused: no privacy would be left, and counters must stay exact.
MOST_STEPS = 10**9
#: Largest epsilon that is asked about or aimed at, and the largest finite loss of one step.
LARGEST_EPSILON = 500.0
#: Smallest delta at which an epsilon is asked for: below, losses counted as infinite would decide.
SMALLEST_DELTA = 1e-25
#: Range of shifts and noise multipliers for which profiles have been checked against mpmath.
SMALLEST_NOISE, LARGEST_NOISE = 1e-9, 1e9
#: The same as ranges, for ``checks.real`` and for what reads text: epsilons to ask about, epsilons
#: to aim at (met to within a fraction of themselves, which leaves nothing at 0), deltas and noise.
EPSILON_RANGE = {"at_least": 0.0, "at_most": LARGEST_EPSILON}
TARGET_RANGE = {"above": 0.0, "at_most": LARGEST_EPSILON}
DELTA_RANGE = {"at_least": SMALLEST_DELTA, "below": 1.0}
NOISE_RANGE = {"at_least": SMALLEST_NOISE, "at_most": LARGEST_NOISE}
#: Work that is estimated to take longer than this, or a larger share of the memory, is refused.
MOST_SECONDS, MOST_MEMORY_SHARE = 1800.0, 0.5
#: JSON nested deeper than this is refused; what this package writes stays far below.
DEEPEST_JSON = 100
#: Longest text of a ledger that is read or written, in bytes: tens of thousands of different plans.
LARGEST_LEDGER = 2**24
#: Longest file of a stored result that is read or written, in bytes: a hundred times the largest.
LARGEST_RESULT = 2**24
#: Seconds that one process of a training run may be told to wait for the others: a day.
LONGEST_WAIT = 86_400.0

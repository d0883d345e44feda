"""Banded noise at equal guarantee: how far the noise moves the sum of all gradients so far.

For a plain sum of gradients, as SGD with one learning rate makes it, the noise in step t is row t
of the matrix that adds up, times the inverse of the strategy, times independent noise. Printed are
its root mean square over all steps and its value at the last, in units of C.

    python benchmarks/banded.py --json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import numpy as np

import mustdp as md

N, BATCH, STEPS, DELTA = 60_000, 256, 2_000, 1e-6


def inverse(strategy: Sequence[float], steps: int) -> np.ndarray:
    """The first column of the inverse of the banded Toeplitz matrix."""
    found = np.zeros(steps)
    found[0] = 1.0
    for t in range(1, steps):
        back = min(t, len(strategy) - 1)
        found[t] = -np.dot(strategy[1 : back + 1], found[t - back : t][::-1])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each number of bands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--bands", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    for bands in given.bands:
        budget = md.calibrated_budget(
            md.poisson(N, BATCH / N), steps=STEPS, epsilon=given.epsilon, delta=DELTA, bands=bands
        )
        sums = np.cumsum(inverse(budget.strategy, STEPS))  # of step s in the sum after step s + k
        squares = budget.noise_multiplier**2 * np.cumsum(np.square(sums))
        row = {
            "bands": bands,
            "noise multiplier": round(budget.noise_multiplier, 3),
            "root mean square": round(float(np.sqrt(squares.mean())), 1),
            "last": round(float(np.sqrt(squares[-1])), 1),
        }
        line = json.dumps(row) if given.json else "  ".join(f"{k} {v}" for k, v in row.items())
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()

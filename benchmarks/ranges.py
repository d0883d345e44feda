"""Private ranges for heavy tails: coverage, widths, and what clipping costs.

Samples of 4000 from a lognormal population, with 0 and 1e9 as public ends.

    python benchmarks/ranges.py --data-sets 400
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd

import mustdp as md

N, DELTA, UPPER = 4000, 1e-5, 1e9
EPSILONS = (0.3, 1.0, 5.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-sets", type=int, default=400)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    people = np.exp(np.random.default_rng(9).normal(7.5, 1.0, 1_000_000))
    rng, clipped = np.random.default_rng(0), dict[float, float]()
    for epsilon in EPSILONS:
        hits, widths, ends, errors = [], [], [], []
        for run in range(given.data_sets):
            sample = pd.DataFrame({"x": rng.choice(people, N)})
            result = md.private_release(
                sample,
                "mean",
                columns="x",
                lower=0,
                upper=UPPER,
                ranges=md.types.Ranges(find="x"),
                epsilon=epsilon,
                delta=DELTA,
                seed=run,
            )
            (_, end), (low, high) = result.ranges["x"], result.interval
            truth = clipped.setdefault(end, float(np.minimum(people, end).mean()))
            hits.append(low <= truth <= high)
            widths.append(high - low)
            ends.append(end)
            errors.append(result.estimate - float(people.mean()))
        row = {
            "epsilon": epsilon,
            "coverage": float(np.mean(hits)),
            "median width": float(np.median(widths)),
            "median upper end": float(np.median(ends)),
            "root mean squared error without clipping": float(np.sqrt(np.mean(np.square(errors)))),
        }
        sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()

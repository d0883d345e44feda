"""Would a second, finer round narrow the intervals of quantiles? Samples of 5000 of UCI Adult.

One round: a curve on the whole grid with correlated noise. Two rounds out of the
same budget, which is how it is done: a share of it for that curve, the rest for a curve on a few
points around the quantile, chosen by what the first has shown; there both are averaged by their
precision. Noise is drawn in floating point here: nothing of this is a release.

    python benchmarks/quantile_rounds.py ../shared/data/adult --data-sets 400
"""

from __future__ import annotations

import argparse
import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from mustdp.estimation.schema import Range
from mustdp.estimation.statistics.quantiles import (
    FIRST_SHARE,
    NEAR,
    WIDE,
    _columns,
    _first,
    grid_for,
)
from mustdp.mechanisms.mechanism import analytic_sigma
from mustdp.numerics.arrays import FloatArray, IntArray

#: The script beside this one, whose folder is where Python looks first.
ADULT: Any = importlib.import_module("adult_coverage")
N, DELTA, LEVEL, LOWER, UPPER = ADULT.N, ADULT.DELTA, ADULT.LEVEL, ADULT.LOWER, ADULT.UPPER
QUANTILES = (0.5, 0.9)
#: Share of the budget of the first of two rounds, and the most points of the second.
ROUNDS = ((FIRST_SHARE, NEAR), (0.4, 16), (0.2, 8))


def noisy_curve(
    x: FloatArray, points: FloatArray, sigma: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """F at the points, with the variance of its noise; sigma is noise over sensitivity."""
    found = _columns(len(points), False)
    exact = np.searchsorted(np.sort(x), points, side="right")
    scale = sigma * found.diameter
    noise = found.root @ rng.normal(0.0, scale, len(points))
    return (exact + noise) / len(x), scale**2 * found.covariance.own[1:] / len(x) ** 2


def ends(curve: FloatArray, variance: FloatArray, p: float, c: float, n: int) -> tuple[int, int]:
    """Places (first - 1, last) between which the quantile lies; -1 is the lower end."""
    reach = c * np.sqrt(variance + p * (1.0 - p) / n)
    return _first(curve + reach >= p) - 1, len(curve) - _first((curve - reach < p)[::-1])


@dataclass(frozen=True, eq=False)
class Setting:
    """A column with its range, a quantile of it and the noise."""

    grid: FloatArray
    upper: float
    p: float
    sigma: float

    def one_round(self, x: FloatArray, rng: np.random.Generator) -> tuple[float, float]:
        """The whole budget for the whole grid."""
        curve, variance = noisy_curve(x, self.grid, self.sigma, rng)
        return self._interval(curve, variance, np.arange(len(self.grid)), len(x))

    def two_rounds(
        self, x: FloatArray, rng: np.random.Generator, share: float, most: int
    ) -> tuple[float, float]:
        """A share of it for the whole grid, the rest around the quantile."""
        first, one = noisy_curve(x, self.grid, self.sigma / np.sqrt(share), rng)
        low, high = ends(first, one, self.p, WIDE, len(x))
        places = np.linspace(max(low, 0), min(high, len(self.grid) - 1), most)
        at = np.unique(places.round().astype(int))
        second, two = noisy_curve(x, self.grid[at], self.sigma / np.sqrt(1.0 - share), rng)
        weight = one[at] / (one[at] + two)
        curve = weight * second + (1.0 - weight) * first[at]
        variance = weight**2 * two + (1.0 - weight) ** 2 * one[at]
        return self._interval(curve, variance, at, len(x))

    def _interval(
        self, curve: FloatArray, variance: FloatArray, at: IntArray, n: int
    ) -> tuple[float, float]:
        points = np.append(self.grid, self.upper)[[*at, at[-1] + 1]]
        low, high = ends(curve, variance, self.p, float(ndtri(0.5 + 0.5 * LEVEL)), n)
        return float(points[max(low, 0)]), float(points[high])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the UCI Adult files")
    parser.add_argument("--data-sets", type=int, default=400)
    parser.add_argument("--json", action="store_true", help="a JSON object in each line")
    args = parser.parse_args()
    people = ADULT.population(args.folder)
    for epsilon in (0.5, 1.0):
        sigma = analytic_sigma(epsilon, DELTA, 1.0)
        for column in LOWER:
            values = people[column].to_numpy()
            grid = np.array(grid_for(Range(LOWER[column], UPPER[column])))
            for p in QUANTILES:
                true = float(np.quantile(values, p, method="inverted_cdf"))
                setting = Setting(grid, UPPER[column], p, sigma)
                runs: dict[str, list[tuple[float, float]]] = {}
                rng = np.random.default_rng(7)
                for _ in range(args.data_sets):
                    x = rng.choice(values, N, replace=False)
                    runs.setdefault("one round", []).append(setting.one_round(x, rng))
                    for share, most in ROUNDS:
                        name = f"{share:g} first, {most} points"
                        runs.setdefault(name, []).append(setting.two_rounds(x, rng, share, most))
                measured = {
                    name: (
                        float(np.mean([high - low for low, high in found])),
                        float(np.mean([low <= true <= high for low, high in found])),
                    )
                    for name, found in runs.items()
                }
                if args.json:
                    row = {"epsilon": epsilon, "column": column, "p": p, "width, cover": measured}
                    print(json.dumps(row), flush=True)
                    continue
                said = [
                    f"{name}: {width:.4g} ({100 * covered:.1f} %)"
                    for name, (width, covered) in measured.items()
                ]
                print(f"epsilon {epsilon:<4} {column:<10} {p}", *said, sep="  ", flush=True)


if __name__ == "__main__":
    main()

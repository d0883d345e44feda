"""Draws the figures of the manuscript and prints its tables, all from certified accounts.

    python docs/paper/figures.py             all of them: some minutes on one core
    python docs/paper/figures.py allocation  one of them

What is drawn is written beside this file as SVG, the numbers as JSON. ``clones`` has no picture.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy import special, stats

import mustdp as md
from mustdp.reporting.plots.drawing import figure_of, finish, on

HERE = Path(__file__).parent
DELTA = 1e-5


def epsilon(plan: md.types.Plan, delta: float = DELTA, **options: Any) -> tuple[float, float]:
    """Attained and certified."""
    found = md.account(plan, **options).epsilon(delta)
    return found.lower, found.upper


def steps_of(scheme: Any, noise: float, count: int) -> md.types.Plan:
    """A plan of ``count`` draws, or epochs."""
    return md.repeat(count, md.subsample(scheme, md.gaussian(noise_multiplier=noise)))


def families() -> dict[str, Any]:
    """One pair against a family, by the number of steps: 2000 of 60000 without replacement."""
    counts = (10, 30, 100, 300, 1000, 3000)
    plans = [steps_of(md.wor(60_000, 2000), 3.117, count) for count in counts]
    both = [epsilon(plan) for plan in plans]
    return {
        "steps": counts,
        "one pair": [epsilon(plan, composition="pair")[1] for plan in plans],
        "family": [upper for _, upper in both],
        "attained": [lower for lower, _ in both],
    }


def allocation() -> dict[str, Any]:
    """One epoch of 1000 batches by the noise multiplier, one record replaced."""
    noises = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0)
    schemes = {
        "allocation": md.random_allocation(60_000, 1000),
        "shuffling": md.shuffle(60_000, 60),
        "Poisson": md.poisson(60_000, 1e-3),
    }
    found: dict[str, Any] = {"noise multiplier": noises}
    for name, scheme in schemes.items():
        count = 1000 if name == "Poisson" else 1
        plans = [steps_of(scheme, z, count) for z in noises]
        both = [epsilon(plan, 1e-6, relation="replace_one") for plan in plans]
        found[f"{name}, attained"], found[f"{name}, certified"] = map(list, zip(*both, strict=True))
    return found


def must() -> dict[str, Any]:
    """The noise that each scheme needs for epsilon 2 after 300 steps of 2000 draws."""
    found: dict[str, Any] = {"b": [], "scheme": [], "noise": [], "distinct": []}
    for b in (1000, 2000, 4000, 8000, 16_000, 32_000):
        for make in (md.must_ow, md.must_ww):
            scheme = make(60_000, b, 2000)
            calibrated = md.calibrate(scheme, steps=300, epsilon=2.0, delta=DELTA)
            found["b"].append(b)
            found["scheme"].append(make.__name__)
            found["noise"].append(calibrated.noise_multiplier)
            found["distinct"].append(scheme.expected_distinct)
    for name, one in (("wor", md.wor(60_000, 2000)), ("wr", md.wr(60_000, 2000))):
        calibrated = md.calibrate(one, steps=300, epsilon=2.0, delta=DELTA)
        found[name] = [calibrated.noise_multiplier, one.expected_distinct]
    return found


def hockey_stick(distance: float, alpha: float) -> float:
    """G of the manuscript, in double precision."""
    away = math.log(alpha) / distance
    first = special.log_ndtr(0.5 * distance - away)
    return float(np.exp(first) - alpha * np.exp(special.log_ndtr(-0.5 * distance - away)))


def clones() -> dict[str, Any]:
    """Theorem 9 for one epoch of 1000 batches at delta 1e-6, beside what is certified.

    The column "7 and 8" of the manuscript was computed before the accountant knew Theorem 9.
    """
    batches, delta = 1000, 1e-6
    found: dict[str, Any] = {}
    for z in (1.5, 2.0, 2.5, 3.0, 4.0, 8.0):
        for relation in ("replace_one", "add_remove"):
            plan = steps_of(md.shuffle(60_000, 60), z, 1)
            lower, upper = epsilon(plan, delta, relation=relation)
            best = min(_cloned(z, h, batches, delta, relation) for h in np.arange(0.4, 5.0, 0.2))
            cloned = best if math.isfinite(best) else None
            found[f"{z}, {relation}"] = {"attained": lower, "certified": upper, "9": cloned}
    return found


def _cloned(z: float, h: float, batches: int, delta: float, relation: str) -> float:
    """An epsilon by Theorem 9 with p = e^-h: all numbers of clones from the least that counts."""
    p = math.exp(-h)
    cost = (batches - 1) * p * hockey_stick(1.0 / z, 1.0 / p)
    law = stats.binom(batches - 1, p)
    least = int(law.ppf(0.02 * delta))
    if cost > 0.2 * delta or least < 1:
        return math.inf
    allocated = steps_of(md.random_allocation(60_000, least + 1), z, 1)
    account = md.account(allocated, relation=relation)
    room = delta - float(law.cdf(least - 1))
    for share in (0.9, 0.6, 0.3):
        found = account.epsilon(share * room).upper
        if account.delta(found).upper + (1.0 + math.exp(found)) * cost <= room:
            return found
    return math.inf


def drawn(name: str, found: dict[str, Any]) -> Axes:
    """The picture of one of them."""
    ax, theme = on(None, None)
    if name == "families":
        for key in ("one pair", "family", "attained"):
            dashed = "--" if key == "attained" else "-"
            ax.plot(found["steps"], found[key], dashed, marker=".", label=key)
        ax.set(xscale="log", yscale="log")
        labels = "steps", "ε at δ = 1e-5"
    elif name == "allocation":
        for scheme in ("allocation", "shuffling", "Poisson"):
            line = found[f"{scheme}, certified"]
            (one,) = ax.plot(found["noise multiplier"], line, marker=".", label=scheme)
            low = found[f"{scheme}, attained"]
            ax.fill_between(found["noise multiplier"], low, line, color=one.get_color(), alpha=0.2)
        ax.set(xscale="log", yscale="log")
        labels = "noise multiplier", "ε at δ = 1e-6"
    else:
        for scheme, label in (("must_ow", "MUSTow"), ("must_ww", "MUSTww")):
            rows = [i for i, one in enumerate(found["scheme"]) if one == scheme]
            b = [found["b"][i] for i in rows]
            ax.plot(b, [found["noise"][i] for i in rows], marker=".", label=label)
        for key, label in (("wor", "WOR"), ("wr", "WR")):
            ax.axhline(found[key][0], linestyle="--" if key == "wor" else ":", label=label)
        ax.set(xscale="log")
        labels = "size b of the first stage", "noise multiplier for ε = 2"
    return finish(ax, theme, *labels, legend="best")


def main() -> None:
    """Compute, write and draw."""
    for name in sys.argv[1:] or ("families", "allocation", "must", "clones"):
        found = globals()[name]()
        (HERE / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
        print(f"{name}: {json.dumps(found)}")
        if name != "clones":
            path = HERE / f"{name}.svg"
            figure_of(drawn(name, found)).savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()

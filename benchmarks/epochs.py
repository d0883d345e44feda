"""Random allocation against PLD_accounting, and the picture of docs/epochs.md.

    python benchmarks/epochs.py [--json] [--picture FILE]

PLD_accounting 2.0 (Shenfeld et al.) is imported if it is installed; one epoch at (sigma, M, delta)
each, fresh accounts on both sides. Its own relative accuracy does not finish in minutes for 1000
bins: there it gets an absolute one, coarse enough to finish, and its bracket has to contain ours.
Seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np

import mustdp as md

#: Sigma, bins, delta, and the accuracy that PLD_accounting is asked for (negative: its own).
CASES = (
    (1.0, 8, 1e-8, -1.0),
    (1.0, 64, 1e-8, -1.0),
    (2.0, 64, 1e-8, -1.0),
    (1.0, 1000, 1e-6, 0.05),
)


def ours(sigma: float, bins: int, delta: float, relation: str = "add_remove") -> dict[str, Any]:
    took = []
    for _ in range(3):
        start = time.process_time()
        plan = md.subsample(md.random_allocation(10**6, bins), md.gaussian(noise_multiplier=sigma))
        found = md.account(plan, relation=relation).epsilon(delta)
        took.append(time.process_time() - start)
    return {"lower": found.lower, "upper": found.upper, "seconds": statistics.median(took)}


def theirs(sigma: float, bins: int, delta: float, accuracy: float) -> dict[str, Any]:
    try:
        import PLD_accounting as peer
    except ImportError:
        return {}
    start = time.process_time()
    ends = peer.gaussian_allocation_epsilon_range(
        delta=delta, sigma=sigma, num_steps=bins, epsilon_accuracy=accuracy
    )
    took = time.process_time() - start
    low, high = float(min(ends)), float(max(ends))
    return {"accuracy": accuracy, "lower": low, "upper": high, "seconds": took}


def picture(path: str) -> None:
    import matplotlib.pyplot as plt

    bins, delta = 1000, 1e-6
    sigmas = np.geomspace(0.4, 4.0, 13)
    drawn: dict[str, list[float]] = {"Poisson": [], "allocation": [], "low": [], "high": []}
    for sigma in sigmas:
        noise = md.gaussian(noise_multiplier=float(sigma))
        steps = md.repeat(bins, md.subsample(md.poisson(10**6, 1 / bins), noise))
        drawn["Poisson"].append(md.account(steps).epsilon(delta).upper)
        allocated = md.subsample(md.random_allocation(10**6, bins), noise)
        drawn["allocation"].append(md.account(allocated).epsilon(delta).upper)
        shuffled = md.account(md.subsample(md.shuffle(10**6, 1000), noise), relation="add_remove")
        bounds = shuffled.epsilon(delta)
        drawn["low"].append(bounds.lower)
        drawn["high"].append(bounds.upper)
    # Small, so that letters can be read on a phone.
    figure, axes = plt.subplots(figsize=(4.6, 3.6), layout="constrained")
    axes.fill_between(sigmas, drawn["low"], drawn["high"], color="#56B4E9", alpha=0.4,
                      label="shuffling: attained to certified")  # fmt: skip
    axes.plot(sigmas, drawn["allocation"], color="#D55E00", label="random allocation, exact")
    axes.plot(sigmas, drawn["Poisson"], color="#000000", linestyle="--", label="Poisson's promise")
    axes.set(xscale="log", yscale="log", xlabel="noise multiplier", ylabel="epsilon")
    axes.set_xticks([0.4, 0.6, 1.0, 2.0, 4.0], ["0.4", "0.6", "1", "2", "4"])
    axes.set_xticks([], minor=True)
    axes.set_title("one epoch of 1000 batches, delta = 1e-6, add_remove", fontsize=10)
    axes.legend(fontsize=9)
    figure.savefig(path, dpi=180)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--picture", metavar="FILE")
    options = parser.parse_args()
    if options.picture:
        picture(options.picture)
        return
    rows = [
        {"sigma": s, "bins": m, "delta": d, "ours": ours(s, m, d),
         "ours, replace_one": ours(s, m, d, "replace_one"), "theirs": theirs(s, m, d, accuracy)}
        for s, m, d, accuracy in CASES
    ]  # fmt: skip
    if options.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(*(f"{name} {value}" for name, value in row.items()), sep="; ")


if __name__ == "__main__":
    main()

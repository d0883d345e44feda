"""Certified bounds and benchmark ratios of every version, so that neither gets worse unnoticed.

    python benchmarks/history.py --json             # measure this version and print it
    python benchmarks/history.py --write 0.2.0      # ... and keep it in benchmarks/history
    python benchmarks/history.py --check            # ... and fail where a bound has become looser
                                                    #     or a ratio has doubled; keep nothing then
    python benchmarks/history.py --draw             # draw docs/pictures/history.svg

A bound is stored with its plan as a description, so that reading the history also tests that a plan
which could be described stays describable. ``tests/test_history.py`` computes the bounds again and
measures the ratios. A ratio is the processor time of something of ours over that of something plain
in the same minute: times are those of one machine, ratios travel.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import mustdp as md
from mustdp.accounting.plan import describe, plan_from_description

HISTORY = Path(__file__).parent / "history"
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "history.svg"
#: The picture names the plans whose certified epsilon is at least so many times what is attained.
CLOSE = 1.01
#: An upper bound may move by this share: the last digits depend on the BLAS and the FFT.
TOLERANCE = 2e-4


def settings() -> Iterator[tuple[str, md.types.Plan, dict[str, Any], float]]:
    """Name, plan, how it is accounted for, and delta."""
    g = md.gaussian
    both = ({"relation": "add_remove"}, {"relation": "replace_one"})
    for z in (0.5, 1.0, 4.0):
        yield f"one release, z={z}", g(noise_multiplier=z), both[0], 1e-5
    yield "100 releases", md.repeat(100, g(noise_multiplier=10)), both[0], 1e-6
    yield "Laplace", md.laplace(shift=1.0), both[0], 1e-3
    yield "50 Laplace", md.repeat(50, md.laplace(shift=0.1)), both[0], 1e-5
    for z, steps in ((0.8, 200), (1.1, 1000), (2.0, 10_000)):
        step = md.subsample(md.poisson(60_000, 0.004), g(noise_multiplier=z))
        yield f"Poisson, z={z}, {steps} steps", md.repeat(steps, step), both[0], 1e-5
        yield f"Poisson swapped, z={z}, {steps} steps", md.repeat(steps, step), both[1], 1e-5
    for z, steps in ((1.6, 1000), (4.0, 3000)):
        for scheme in (md.wor(60_000, 256), md.wr(60_000, 256), md.must_wo(60_000, 3000, 256)):
            plan = md.repeat(steps, md.subsample(scheme, g(noise_multiplier=z)))
            how = {"composition": "pair", **both[1]}
            yield f"{scheme.name}, z={z}, {steps} steps, one pair", plan, how, 1e-5
    plan = md.repeat(20, md.subsample(md.wor(1000, 50), g(noise_multiplier=2)))
    yield "WOR, 20 steps, family", plan, {"composition": "family", **both[1]}, 1e-5
    plan = md.repeat(3000, md.subsample(md.must_ow(60_000, 3000, 256), g(noise_multiplier=4)))
    yield "MUSTow, 3000 steps, one pair", plan, {"composition": "pair", **both[1]}, 1e-5
    plan = md.repeat(20, md.subsample(md.must_ww(1000, 300, 20), g(noise_multiplier=4)))
    yield "MUSTww, 20 steps, one pair", plan, {"composition": "pair", **both[1]}, 1e-5
    step = md.subsample(md.wor(1000, 50), md.laplace(shift=0.2))
    yield "WOR, Laplace", md.repeat(50, step), {"composition": "pair", **both[1]}, 1e-5
    for z, bins in ((1.0, 100), (4.0, 234)):
        for how in both:
            epoch = md.subsample(md.random_allocation(60_000, bins), g(noise_multiplier=z))
            yield f"allocation, z={z}, {bins} bins, {how['relation']}", epoch, how, 1e-6
    epoch = md.subsample(md.shuffle(60_000, 60), g(noise_multiplier=8))
    yield "shuffle, z=8, batches of 60", epoch, both[1], 1e-6
    for group in (2, 3):
        plan = md.repeat(100, md.subsample(md.poisson(10_000, 0.01), g(noise_multiplier=2)))
        yield f"people with {group} records", plan, {"group": group, **both[0]}, 1e-5
    for name, mechanism in (
        ("discrete Laplace", md.discrete_laplace(scale=2, sensitivity=1)),
        ("discrete Gaussian", md.discrete_gaussian(sigma=3, sensitivity=1)),
        ("randomized response", md.randomized_response(epsilon=0.5, categories=3)),
        ("pure", md.pure_dp(epsilon=0.1)),
        ("zCDP", md.zcdp(rho=0.02)),
        ("exponential", md.exponential_mechanism(epsilon=0.3)),
    ):
        yield f"{name}, 20 times", md.repeat(20, mechanism), both[0], 1e-6
    twice = md.subsample(md.wor(10_000, 500), md.repeat(10, g(noise_multiplier=8)))
    yield "a subset used ten times", twice, {"composition": "pair", **both[1]}, 1e-5
    mixed = md.sequence(g(noise_multiplier=3), md.laplace(shift=0.2), md.pure_dp(epsilon=0.1))
    yield "mixed", mixed, both[0], 1e-6


def bounds() -> list[dict[str, Any]]:
    """The settings with what this version certifies and attains."""
    found = []
    for name, plan, how, delta in settings():
        row = {"name": name, "plan": describe(plan), "how": how, "delta": delta}
        found.append({**row, **answer(row)})
    return found


def answer(row: dict[str, Any]) -> dict[str, float]:
    """Lower and upper epsilon of a row of the history."""
    account = md.account(plan_from_description(row["plan"]), **row["how"])
    epsilon = account.epsilon(delta=row["delta"])
    return {"lower": epsilon.lower, "upper": epsilon.upper}


def worse(row: dict[str, Any], now: dict[str, float]) -> str | None:
    """What is wrong with the bounds of today, beside those of the history."""
    if not now["lower"] <= now["upper"]:
        return "the bounds have crossed"
    if not now["upper"] <= row["upper"] * (1.0 + TOLERANCE):
        return "the certified bound has become looser"
    if not now["upper"] >= row["lower"] * (1.0 - 1e-9):
        return "the certified bound is below what an earlier version attained"
    if not now["lower"] <= row["upper"] * (1.0 + 1e-9):
        return "what is attained is above what an earlier version certified"
    return None


def loosened(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[str]:
    """What is wrong with any of the bounds, a line each."""
    found = {row["name"]: row for row in now}
    said = {
        row["name"]: worse(row, found[row["name"]])
        if row["name"] in found
        else "is no longer computed"
        for row in before
    }
    return [f"{name}: {what}" for name, what in said.items() if what is not None]


def ratios(only: Collection[str] | None = None) -> dict[str, float]:
    """Our time over that of something plain."""
    values = np.random.default_rng(0).uniform(0, 100, 1_000_000)
    rng = np.random.default_rng(1)
    noises = itertools.count(1.6, 1e-6)  # a plan that was accounted for before would be remembered
    large = md.wor(1_000_000, 1000)

    def mean() -> None:
        md.private_release(values, "mean", lower=0, upper=100, noise_multiplier=9, delta=1e-7)

    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "release of a mean over numpy's clip, mean and variance": (
            mean,
            lambda: (np.clip(values, 0, 100).mean(), values.var()),
        ),
        "account of fixed-size batches over an FFT of 2^20": (
            lambda: _account(next(noises)),
            lambda: np.fft.rfft(np.ones(2**20)),
        ),
        "draw of 1000 in a million over Generator.choice": (
            lambda: large.draw(rng),
            lambda: rng.choice(1_000_000, 1000, replace=False, shuffle=False),
        ),
        "exact Gaussian noise over Generator.normal": (
            _exact_noise,
            lambda: rng.normal(size=200_000),
        ),
    }
    return {name: _ratio(*both) for name, both in pairs.items() if only is None or name in only}


def _account(noise: float) -> None:
    step = md.subsample(md.wor(60_000, 256), md.gaussian(noise_multiplier=noise))
    md.account(md.repeat(1000, step), composition="pair").epsilon(delta=1e-5)


def _exact_noise() -> None:
    from mustdp.noise.exact import GAUSSIAN, exact_noise
    from mustdp.randomness.keys import NoiseSource

    exact_noise(GAUSSIAN, 1000.0, 200_000, NoiseSource(1))


def _ratio(ours: Callable[[], Any], plain: Callable[[], Any]) -> float:
    """Processor time, which other processes hardly change, in turns; the least of each side."""
    both = [(work, _rounds(work)) for work in (ours, plain)]
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(5):
        for (work, rounds), times in zip(both, found, strict=True):
            begun = time.process_time()
            for _ in range(rounds):
                work()
            times.append((time.process_time() - begun) / rounds)
    return min(found[0]) / min(found[1])


def _rounds(work: Callable[[], Any]) -> int:
    """How often, for at least a twentieth of a second; the first time may fill caches."""
    work()
    begun = time.process_time()
    work()
    return max(1, math.ceil(0.05 / max(time.process_time() - begun, 1e-6)))


def versions() -> list[dict[str, Any]]:
    """The history, oldest first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in HISTORY.glob("*.json")]
    return sorted(found, key=lambda one: [int(part) for part in one["version"].split(".")])


def doubled(before: dict[str, float], now: dict[str, float]) -> list[str]:
    """The ratios that have doubled."""
    return [
        f"{name}: {before[name]:.3g} has become {now[name]:.3g}"
        for name in before.keys() & now.keys()
        if not now[name] <= 2.0 * before[name]
    ]


def measured_again(before: dict[str, float], now: dict[str, float]) -> dict[str, float]:
    """The ratios, the least of three measurements where one seems to have doubled.

    On a busy machine a measurement may be off once, not three times in a row.
    """
    for _ in range(2):
        slower = {one for one in before.keys() & now.keys() if not now[one] <= 2.0 * before[one]}
        now |= {name: min(now[name], ratio) for name, ratio in ratios(slower).items()}
    return now


def draw() -> None:
    """Gaps between the bounds and ratios, a line each, over the versions."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    history = versions()
    names = [one["version"] for one in history]
    figure = Figure(figsize=(8, 6), layout="constrained")
    above, below = figure.subplots(2, 1)
    above.set_prop_cycle(color=mpl.color_sequences["tab20"])
    gaps: dict[str, list[float]] = {}
    for one in history:
        for row in one["bounds"]:
            gap = math.inf if not row["lower"] > 0 else row["upper"] / row["lower"]
            gaps.setdefault(row["name"], []).append(gap)
    known = [item for item in gaps.items() if all(map(math.isfinite, item[1]))]
    for name, values in sorted(known, key=lambda item: -item[1][-1]):
        close = values[-1] < CLOSE
        color = {"color": "0.6"} if close else {}
        label = None if close else name
        above.plot(names[-len(values) :], values, marker="o", linewidth=1, label=label, **color)
    above.set_ylabel("certified over attained epsilon")
    for name in history[-1]["ratios"]:
        own = [one["ratios"].get(name, math.nan) for one in history]
        below.plot(names, own, marker="o", linewidth=1, label=name)
    below.set_ylabel("our time over plain time")
    below.set_yscale("log")
    below.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    below.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    below.yaxis.set_minor_locator(NullLocator())
    beside: dict[str, Any] = {"fontsize": 7, "loc": "center left", "bbox_to_anchor": (1, 0.5)}
    above.legend(title=f"{CLOSE} and above", title_fontsize=7, **beside)
    below.legend(**beside)
    with mpl.rc_context({"svg.hashsalt": "mustdp", "svg.fonttype": "none"}):
        figure.savefig(PICTURE, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for option in ("json", "check", "draw"):
        parser.add_argument(f"--{option}", action="store_true")
    parser.add_argument("--write", metavar="VERSION", help="the version that is about to be tagged")
    chosen = parser.parse_args()
    if chosen.draw:
        draw()
        return 0
    before = versions()
    version = chosen.write or md.__version__
    found: dict[str, Any] = {"version": version, "bounds": bounds(), "ratios": ratios()}
    bad = []
    if before and chosen.check:
        found["ratios"] = measured_again(before[-1]["ratios"], found["ratios"])
        bad = doubled(before[-1]["ratios"], found["ratios"])
        bad += loosened(before[-1]["bounds"], found["bounds"])
    if chosen.write and not bad:
        path = HISTORY / f"{version}.json"
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if chosen.json:
        print(json.dumps(found))
    else:
        for row in found["bounds"]:
            print(f"{row['lower']:12.6g} {row['upper']:12.6g}  {row['name']}")
        for name, ratio in found["ratios"].items():
            print(f"{ratio:12.3g}  {name}")
    for line in bad:
        print(line, file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

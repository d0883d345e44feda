"""Random plans against independent oracles: is any certified bound too small?

    python benchmarks/fuzz.py --plans 2000 --out fuzz.jsonl          a table of counts
    python benchmarks/fuzz.py --plans 2000 --out fuzz.jsonl --json   one JSON object
    python benchmarks/fuzz.py --plans 200 --jobs 2 --seed 3
    python benchmarks/fuzz.py --plans 200 --weaken 0.1   how often a planted error is seen

Plans are drawn over every registered scheme, epoch and mechanism, both relations, groups, reused
subsets and mixed sequences. Plan number i of a seed is always the same plan. With ``--out`` every
plan is written down as it is done, and a second run goes on where the first one ended.

Nothing here uses the package's accounting. Oracles know what a mechanism does to concrete data:

* *strategies*: data sets that are neighbours, described by how far the copies of the record move
  the output; laws of copies are added up here from the definition of each scheme. Outputs are put
  into bins, which only loses information, so that whatever the bins attain is attained;
* *recursion*: the best adaptive choice among the strategies in every step, with losses rounded
  down: a lower bound of the true delta without any sampling;
* *importance sampling*: strategies and epochs are played, tilted towards large losses. A lower
  confidence limit (five standard errors, then a second, ten times larger sample) above the
  certified delta is a violation;
* *small data sets*: for a few records all batches are listed, for random values of all records;
* *closed forms*: one or many Gaussian releases, one Laplace release, randomized response; these
  also bound what may be called attained from above;
* *dp_accounting*, where it is installed, for Poisson sampling under add_remove, from both sides;
* *moments* of the same bins, order by order, against Renyi divergences (each step takes the worst
  strategy; epochs are played);
* *a ledger*: for a quarter of the plans two charges in a file, and the same steps in memory, are
  held against all strategies with twice the steps.

``--weaken 0.1`` certifies plans with a tenth more noise than the oracles play: a run in which
nothing is found says little unless this one finds a lot. Exit status 1 if there was a violation.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import signal as signal_module
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, signal, special, stats

import mustdp as md
from mustdp.errors import Contradiction
from mustdp.mechanisms.registry import mechanisms
from mustdp.sampling.catalogue import BY_NAME as SCHEMES
from mustdp.sampling.catalogue import EPOCHS

Array = NDArray[np.float64]
Case = dict[str, Any]

#: Standard errors below the mean at which a confidence limit is put.
ERRORS = 5.0
#: Rounding of the oracles, relative and absolute.
SLACK, FLOOR = 1e-6, 1e-12
#: Chances below this are cut from laws of copies.
NEGLIGIBLE = 1e-16
#: Questions at larger epsilons are not asked: an account answers up to 500.
LARGEST = 400.0
#: Orders of Renyi divergences, and the chances under Q below which a bin of a law that was cut is
#: left out, so that what was cut hardly changes its ratio.
ORDERS = (1.25, 2.0, 4.0, 16.0)
RESOLVED = 1e-8


# Random plans.


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def whole(rng: np.random.Generator, low: int, high: int) -> int:
    """An integer, small ones as likely as large ones on a logarithmic scale."""
    return min(high, int(log_uniform(rng, low, high + 1)))


def random_case(rng: np.random.Generator) -> Case:
    """One plan, as plain numbers."""
    names = sorted(SCHEMES) + sorted(EPOCHS) + ["none"]
    weights = np.array([1.0 if name in EPOCHS or name == "none" else 2.0 for name in names])
    scheme = str(rng.choice(names, p=weights / weights.sum()))
    case: Case = {"scheme": scheme, "sizes": random_sizes(scheme, rng)}
    noises = ["gaussian"] * 2 + ["laplace"] if scheme in EPOCHS else sorted(mechanisms())
    gaussian_more = rng.random() < 0.45
    mechanism = "gaussian" if gaussian_more else str(rng.choice(noises))
    case |= {"mechanism": mechanism, "arguments": random_arguments(mechanism, scheme, rng)}
    case["relation"] = str(rng.choice(["replace_one", "add_remove"]))
    case["steps"] = whole(rng, 1, 4) if scheme in EPOCHS else whole(rng, 1, 1000)
    case["group"] = int(rng.choice([1, 1, 1, 1, 2, 3])) if scheme != "none" else 1
    case["composition"] = str(rng.choice(["auto", "auto", "pair"]))
    case["dimension"] = 1 if mechanism == "gaussian" and rng.random() < 0.2 else None
    case["delta"] = log_uniform(rng, 1e-7, 0.05)
    if scheme in SCHEMES and SCHEMES[scheme].two_stages and rng.random() < 0.4:
        case |= {"reuse": whole(rng, 1, 5), "steps": whole(rng, 1, 5)}
    elif scheme in SCHEMES and rng.random() < 0.15:
        case["also"] = random_arguments(mechanism, scheme, rng)  # other noise in half of the steps
    if scheme in EPOCHS and rng.random() < 0.3:
        case["first"] = rng.random()  # of the batches of the last epoch
    case["ledger"] = bool(case["group"] == 1 and rng.random() < 0.25)
    return case


def random_sizes(scheme: str, rng: np.random.Generator) -> dict[str, float]:
    if scheme == "none":
        return {}
    n = whole(rng, 2, 7) if rng.random() < 0.35 else whole(rng, 8, 50_000)
    if scheme in EPOCHS:
        if scheme == "shuffle":
            return {"n": n, "m": whole(rng, max(1, n // 200), n)}
        bins = whole(rng, 1, 200)
        few = {"times": whole(rng, 1, min(bins, 4))} if rng.random() < 0.3 else {}
        return {"n": n, "bins": bins, **few}
    most: dict[str, int] = {"n": n, "b": n, "m": n}
    stages = SCHEMES[scheme].stages
    if stages and stages[0] == "wr":
        most["b"] = 2 * n
    given: dict[str, float] = {"n": n}
    for name in SCHEMES[scheme].sizes:
        if name == "rate":
            given["rate"] = log_uniform(rng, 1e-3, 1.0)
        elif name == "b":
            given["b"] = whole(rng, 1, most["b"])
        elif name != "n":
            before = int(given["b"]) if stages[1:] == ("wor",) else n
            given[name] = whole(rng, 1, min(before, most.get(name, n)))
    return given


def random_arguments(mechanism: str, scheme: str, rng: np.random.Generator) -> dict[str, Any]:
    if mechanism in ("gaussian", "laplace"):
        by_shift = scheme not in EPOCHS and rng.random() < 0.3
        if by_shift:
            return {"shift": log_uniform(rng, 0.05, 4.0)}
        return {"noise_multiplier": log_uniform(rng, 0.4, 20.0)}
    if mechanism == "discrete-gaussian":
        return {"sigma": log_uniform(rng, 0.5, 20.0), "sensitivity": whole(rng, 1, 4)}
    if mechanism == "discrete-laplace":
        return {"scale": log_uniform(rng, 0.5, 30.0), "sensitivity": whole(rng, 1, 4)}
    if mechanism == "zcdp":
        return {"rho": log_uniform(rng, 1e-3, 2.0)}
    if mechanism in ("pure-dp", "approximate-dp", "randomized-response", "exponential-mechanism"):
        given: dict[str, float] = {"mechanism_epsilon": log_uniform(rng, 0.02, 3.0)}
        if mechanism == "approximate-dp":
            given["mechanism_delta"] = log_uniform(rng, 1e-8, 1e-2)
        if mechanism == "randomized-response":
            given["categories"] = whole(rng, 2, 20)
        return given
    examples = mechanisms()[mechanism].examples  # one that was registered later
    return dict(examples[int(rng.integers(len(examples)))])


#: The argument of each mechanism that makes noise, and whether more of it is more private.
NOISE = {
    "noise_multiplier": True, "sigma": True, "scale": True,
    "shift": False, "mechanism_epsilon": False, "rho": False,
}  # fmt: skip


def weakened(arguments: dict[str, float], by: float) -> dict[str, float]:
    """The same mechanism with so much more noise."""
    changed = dict(arguments)
    for name, private in NOISE.items():
        if name in changed:
            changed[name] *= 1.0 + by if private else 1.0 / (1.0 + by)
    return changed


def plan_of(case: Case, weaken: float = 0.0) -> Any:
    """What is certified."""
    noise = mechanisms()[case["mechanism"]].build(**weakened(case["arguments"], weaken))
    scheme, steps = case["scheme"], case["steps"]
    if scheme == "none":
        return md.repeat(steps, noise)
    if scheme in EPOCHS:
        epoch: Any = EPOCHS[scheme].build(**case["sizes"])
        first = first_batches(case, epoch.bins)
        last = md.subsample(epoch.first(first), noise)
        whole_ones = md.repeat(steps, md.subsample(epoch, noise))
        return whole_ones if first == epoch.bins else md.sequence(whole_ones, last)
    drawn: Any = SCHEMES[scheme].build(**case["sizes"])
    if "reuse" in case:
        kinds, (n, b, m) = SCHEMES[scheme].stages, (int(case["sizes"][x]) for x in "nbm")
        inner = md.subsample(md.multistage(b, [(kinds[1], m)]), noise)
        outer = md.multistage(n, [(kinds[0], b)])
        return md.repeat(steps, md.subsample(outer, md.repeat(case["reuse"], inner)))
    one = md.repeat(steps, md.subsample(drawn, noise))
    if "also" not in case:
        return one
    other = mechanisms()[case["mechanism"]].build(**weakened(case["also"], weaken))
    return md.sequence(one, md.repeat(steps, md.subsample(drawn, other)))


def first_batches(case: Case, bins: int) -> int:
    return max(1, math.ceil(case["first"] * bins)) if "first" in case else bins


# Laws of copies, from the definition of each scheme.


def stage_kernel(kind: str, entries: int, special_ones: int, size: int) -> Array:
    """Chances of 0, 1, … special entries among ``size`` drawn from ``entries``."""
    most = size if kind == "wr" else min(size, special_ones)
    law: Any
    if kind == "wr":
        law = stats.binom(size, special_ones / entries)
    else:
        law = stats.hypergeom(entries, special_ones, size)
    top = int(min(most, max(law.ppf(1.0 - 1e-15), law.mean()) + 25))
    return np.asarray(law.pmf(np.arange(top + 1)))


def law_of_copies(stages: Sequence[tuple[str, int]], n: int, group: int) -> Array:
    """How often ``group`` records occur in a batch, counted together."""
    law = np.zeros(group + 1)
    law[group] = 1.0
    for kind, size in stages:
        found = np.zeros(1)
        for count in np.flatnonzero(law > NEGLIGIBLE):
            kernel = law[count] * stage_kernel(kind, n, int(count), size)
            if kernel.size > found.size:
                found = np.pad(found, (0, kernel.size - found.size))
            found[: kernel.size] += kernel
        law, n = found, size
    keep = int(np.flatnonzero(law > NEGLIGIBLE)[-1])
    return law[: keep + 1]


def stages_of(case: Case) -> list[tuple[str, int]]:
    sizes = [int(case["sizes"][name]) for name in ("b", "m") if name in case["sizes"]]
    return list(zip(SCHEMES[case["scheme"]].stages, sizes, strict=True))


def law_of(case: Case) -> Array:
    scheme, group = case["scheme"], case["group"]
    if scheme == "poisson":
        return np.asarray(stats.binom(group, case["sizes"]["rate"]).pmf(np.arange(group + 1)))
    if SCHEMES[scheme].stages:
        return law_of_copies(stages_of(case), int(case["sizes"]["n"]), group)
    drawn: Any = SCHEMES[scheme].build(**case["sizes"])  # registered later: as it states itself
    return np.asarray(drawn.multiplicity(group))


# Strategies: where the output lies with j copies of the record, and with j copies of the other.

Kernel = Callable[[Array], Array]


@dataclass(frozen=True)
class Pair:
    """Chances of the bins under two neighbouring data sets."""

    name: str
    p: Array
    q: Array

    @property
    def swapped(self) -> Pair:
        return Pair(self.name + "'", self.q, self.p)

    @property
    def loss(self) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.p > 0.0, np.log(self.p) - np.log(self.q), -np.inf)


def interval_masses(cdf: Callable[[Array], Array], edges: Array, places: Array) -> Array:
    """Mass of each bin (columns) at each place (rows), from the tail that loses no digits."""
    below = edges[None, :] - places[:, None]
    left, right = cdf(below), cdf(-below)
    centre = 0.5 * (below[:, 1:] + below[:, :-1])
    inner = np.where(centre < 0.0, np.diff(left, axis=1), -np.diff(right, axis=1))
    return np.hstack([left[:, :1], np.maximum(inner, 0.0), right[:, -1:]])


def laplace_cdf(x: Array) -> Array:
    return np.where(x < 0.0, 0.5 * np.exp(np.minimum(x, 0.0)), 1.0 - 0.5 * np.exp(-np.abs(x)))


CDF: dict[str, Callable[[Array], Array]] = {"gaussian": special.ndtr, "laplace": laplace_cdf}
WIDTH = {"gaussian": 9.0, "laplace": 30.0}


def additive(noise: str, name: str, law_p: Array, at_p: Array, law_q: Array, at_q: Array) -> Pair:
    """Noise on a number or, for two columns, on a point of the plane."""
    places = np.concatenate([at_p, at_q])
    width = WIDTH[noise]
    if places.ndim == 1 or places.shape[1] == 1:
        flat_p, flat_q = at_p.reshape(len(at_p), -1)[:, 0], at_q.reshape(len(at_q), -1)[:, 0]
        edges = np.linspace(places.min() - width, places.max() + width, 1500)
        masses = partial(interval_masses, CDF[noise], edges)
        return Pair(name, law_p @ masses(flat_p), law_q @ masses(flat_q))

    def in_plane(law: Array, at: Array) -> Array:
        sides = []
        for axis in (0, 1):
            edges = np.linspace(places[:, axis].min() - 6.0, places[:, axis].max() + 6.0, 70)
            sides.append(interval_masses(CDF[noise], edges, at[:, axis]))
        return np.asarray(np.einsum("j,ja,jb->ab", law, *sides)).ravel()

    return Pair(name, in_plane(law_p, at_p), in_plane(law_q, at_q))


def integers(name: str, arguments: dict[str, float]) -> Callable[..., Pair]:
    """Discrete noise on an integer; what lies far outside is one bin at either end."""

    def pair(label: str, law_p: Array, at_p: Array, law_q: Array, at_q: Array) -> Pair:
        places = np.concatenate([at_p, at_q])
        if name == "discrete-gaussian":
            reach = int(12.0 * arguments["sigma"]) + 5
        else:
            reach = int(40.0 * arguments["scale"]) + 5
        reach += int(np.ptp(places))  # no outcome is impossible under one data set alone
        offsets = np.arange(-reach, reach + 1)
        if name == "discrete-gaussian":
            pmf = np.exp(-0.5 * (offsets / arguments["sigma"]) ** 2)
        else:
            pmf = np.exp(-np.abs(offsets) / arguments["scale"])
        pmf /= pmf.sum()
        low, high = int(places.min()) - reach, int(places.max()) + reach
        keep_low, keep_high = int(places.max()) - reach, int(places.min()) + reach

        def masses(law: Array, at: Array) -> Array:
            out = np.zeros(high - low + 1)
            for chance, place in zip(law, at, strict=True):
                start = int(place) - reach - low
                out[start : start + pmf.size] += chance * pmf
            first, last = keep_low - low, keep_high - low
            ends = out[: first + 1].sum(), out[last:].sum()
            return np.concatenate([[ends[0]], out[first + 1 : last], [ends[1]]])

        return Pair(label, masses(law_p, at_p), masses(law_q, at_q))

    return pair


def categorical(
    label: str, table: Kernel, law_p: Array, at_p: Array, law_q: Array, at_q: Array
) -> Pair:
    return Pair(label, law_p @ table(at_p), law_q @ table(at_q))


def points(case: Case, rng: np.random.Generator) -> Iterator[tuple[str, Array, Array]]:
    """What one copy of the record and of its substitute adds, relative to what fills the place.

    Contributions lie in a ball of radius 1/z; a stated shift bounds every change of one record.
    """
    arguments, empty = case["arguments"], leaves_empty(case)
    flat = case["mechanism"] != "gaussian" or case["dimension"] == 1
    removed = case["relation"] == "add_remove"
    if "shift" in arguments or case["mechanism"] == "zcdp":
        s = arguments.get("shift") or math.sqrt(2.0 * arguments["rho"])
        if removed:
            yield "aligned", np.array([s]), np.array([0.0])
            return
        yield "aligned", np.array([s]), np.array([0.0])
        yield "symmetric", np.array([s / 2.0]), np.array([-s / 2.0])
        if not flat:
            yield "triangle", np.array([s, 0.0]), np.array([s / 2.0, s * math.sqrt(0.75)])
        return
    radius = 1.0 / arguments["noise_multiplier"]
    if removed:
        yield "aligned", np.array([radius if empty else 2.0 * radius]), np.array([0.0])
    elif empty:
        yield "symmetric", np.array([radius]), np.array([-radius])
        if not flat:
            angle = rng.uniform(0.5, 1.0) * np.pi
            turned = np.array([math.cos(angle), math.sin(angle)])
            yield "turned", np.array([radius, 0.0]), radius * turned
    else:
        yield "aligned", np.array([2.0 * radius]), np.array([0.0])
        yield "symmetric", np.array([radius]), np.array([-radius])
        between = radius * rng.uniform(-1.0, 1.0)
        yield "between", np.array([radius - between]), np.array([-radius - between])
        if not flat:
            angles = 2.0 * np.pi * rng.random(3)
            corners = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
            yield "corners", corners[0] - corners[2], corners[1] - corners[2]
            right = radius * np.array([1.0, 1.0])
            yield "right angle", right, radius * np.array([-1.0, 1.0])


def leaves_empty(case: Case) -> bool:
    """Whether the place of a record that is not drawn, or not there, stays empty."""
    return case["scheme"] in ("poisson", "truncated-poisson", "none", "allocation", "shuffle")


def integer_points(case: Case) -> Iterator[tuple[str, Array, Array]]:
    most = int(case["arguments"]["sensitivity"])
    yield "aligned", np.array([most]), np.array([0])
    if case["relation"] == "replace_one":
        yield "symmetric", np.array([most // 2]), np.array([most // 2 - most])


def strategies(case: Case, law: Array, rng: np.random.Generator) -> list[Pair]:
    """Concrete pairs for one step; the first data set has the record."""
    copies = np.arange(law.size, dtype=float)
    removed = case["relation"] == "add_remove"
    mechanism, arguments = case["mechanism"], case["arguments"]

    def laws(x: Array, other: Array) -> tuple[Array, Array, Array, Array]:
        at_p = copies[:, None] * x
        if removed:
            return law, at_p, np.ones(1), np.zeros((1, at_p.shape[1]))
        return law, at_p, law, copies[:, None] * other

    if mechanism in ("gaussian", "laplace", "zcdp"):
        noise = "laplace" if mechanism == "laplace" else "gaussian"
        return [additive(noise, name, *laws(x, y)) for name, x, y in points(case, rng)]
    if mechanism in ("discrete-gaussian", "discrete-laplace"):
        make = integers(mechanism, arguments)
        found = []
        for name, x, y in integer_points(case):
            law_p, at_p, law_q, at_q = laws(x, y)
            found.append(make(name, law_p, at_p[:, 0], law_q, at_q[:, 0]))
        return found
    if mechanism in ("pure-dp", "approximate-dp"):
        return list(stated(arguments, laws))
    if mechanism == "randomized-response":
        return list(answers(arguments, laws, removed))
    if mechanism == "exponential-mechanism":
        return list(candidates(arguments, laws, removed, rng))
    return list(as_stated(case, law))


def stated(arguments: dict[str, float], laws: Callable[..., Any]) -> Iterator[Pair]:
    """Mechanisms that keep a stated guarantee: on whether the record occurs, and on its copies."""
    epsilon, failing = arguments["mechanism_epsilon"], arguments.get("mechanism_delta", 0.0)
    likely = (1.0 - failing) / (1.0 + math.exp(-epsilon))
    there = np.array([failing, likely, (1.0 - failing) - likely, 0.0])

    def occurs(at: Array) -> Array:
        return np.where(at[:, :1] > 0, there, there[::-1])

    one, none = np.array([1.0]), np.array([0.0])
    yield categorical("occurs", occurs, *laws(one, none))
    make = integers("discrete-laplace", {"scale": 1.0 / epsilon})
    law_p, at_p, law_q, at_q = laws(one, none)
    counted = make("counts", law_p, at_p[:, 0], law_q, at_q[:, 0])
    rows = ((law_p, at_p), (law_q, at_q))
    if epsilon * at_p.max() < 300.0:
        # With chance ``failing`` the copies are shown: of the record, of the other, of neither.
        shown = [np.array([law[at[:, 0] > 0].sum(), law[at[:, 0] <= 0].sum()]) for law, at in rows]
        p = np.concatenate([(1.0 - failing) * counted.p, failing * shown[0]])
        q = np.concatenate([(1.0 - failing) * counted.q, failing * shown[1]])
        yield Pair("counts", p, q)


def answers(arguments: dict[str, float], laws: Callable[..., Any], removed: bool) -> Iterator[Pair]:
    """Randomized response on which of two records occurs, if any."""
    count, ratio = int(arguments["categories"]), math.exp(arguments["mechanism_epsilon"])

    def told(at: Array) -> Array:
        chosen = np.mod(np.sign(at[:, 0]).astype(int), count)
        rows = np.full((at.shape[0], count), 1.0)
        rows[np.arange(at.shape[0]), chosen] = ratio
        return rows / (ratio + count - 1)

    one = np.array([1.0])
    yield categorical("occurs", told, *laws(one, 0.0 * one))
    if count > 2 and not removed:
        yield categorical("three", told, *laws(one, -one))


def candidates(
    arguments: dict[str, float], laws: Callable[..., Any], removed: bool, rng: np.random.Generator
) -> Iterator[Pair]:
    """The exponential mechanism: one copy moves utilities within a range of epsilon."""
    width = arguments["mechanism_epsilon"]
    for _ in range(3):
        count = int(rng.integers(2, 5))
        base = rng.normal(0.0, 1.5, count)
        gains = width * rng.integers(0, 2, (2, count)).astype(float)
        if removed or rng.random() < 0.5:
            gains[1] = 0.0
        elif np.ptp(gains[0] - gains[1]) > width:
            gains *= 0.5

        def chosen(at: Array, base: Array = base) -> Array:
            return np.asarray(special.softmax(base + at, axis=1))

        yield categorical("utilities", chosen, *laws(gains[0], gains[1]))


def as_stated(case: Case, law: Array) -> Iterator[Pair]:
    """A mechanism that was registered later: the output distributions that it states itself."""
    mechanism = mechanisms()[case["mechanism"]].build(**case["arguments"])
    removed = case["relation"] == "add_remove"
    shift = mechanism.shift_for(1.0 if removed and leaves_empty(case) else 2.0)
    stated_outputs: Any = mechanism.attained(shift)
    for name, (first, second) in getattr(stated_outputs, "placements", {}).items():
        # One record is there or not in all steps: directions() turns the pair round as a whole.
        if (removed and second != 0) or (name == "symmetric" and leaves_empty(case)):
            continue
        copies = np.arange(law.size)
        p, q = first * copies, second * copies
        rows = np.asarray(stated_outputs.masses(np.concatenate([p, q])))
        yield Pair(name, law @ rows[: law.size], law @ rows[law.size :])


# All batches of a few records, for random values of all of them.


def listed_batches(stages: Sequence[tuple[str, int]], n: int) -> dict[tuple[int, ...], float]:
    """Chance of every batch, as sorted entries; empty where there are too many."""
    lists: dict[tuple[int, ...], float] = {tuple(range(n)): 1.0}
    for kind, size in stages:
        found: dict[tuple[int, ...], float] = {}
        for entries, chance in lists.items():
            ways = len(entries) ** size if kind == "wr" else math.comb(len(entries), size)
            if ways * len(lists) > 60_000:
                return {}
            drawn = (
                itertools.product(entries, repeat=size)
                if kind == "wr"
                else itertools.combinations(entries, size)
            )
            for batch in drawn:
                key = tuple(sorted(batch))
                found[key] = found.get(key, 0.0) + chance / ways
        lists = found
    return lists


def random_data_sets(case: Case, rng: np.random.Generator) -> Iterator[Pair]:
    """Record 0 swapped, or left out, among others with values of their own."""
    n = int(case["sizes"].get("n", 0))
    scheme, mechanism = case["scheme"], case["mechanism"]
    usable = mechanism in ("gaussian", "laplace") and "noise_multiplier" in case["arguments"]
    if not usable or scheme not in SCHEMES or not SCHEMES[scheme].stages or n > 7 or n < 2:
        return
    if case["group"] > 1 or "reuse" in case:
        return
    radius = 1.0 / case["arguments"]["noise_multiplier"]
    removed = case["relation"] == "add_remove"
    if removed and (n < 3 or any(k == "wor" and s > n - 1 for k, s in stages_of(case)[:1])):
        return
    batches = listed_batches(stages_of(case), n)
    fewer = listed_batches(stages_of(case), n - 1) if removed else batches
    if not batches or not fewer:
        return
    for _ in range(3):
        values = radius * rng.choice([-1.0, 1.0, rng.uniform(-1.0, 1.0)], n)
        values[0] = radius
        others = values.copy()
        if removed:
            others = values[1:]
        else:
            others[0] = -radius

        def located(chances: dict[tuple[int, ...], float], of: Array) -> tuple[Array, Array]:
            places: dict[float, float] = {}
            for batch, chance in chances.items():
                total = round(float(of[list(batch)].sum()), 12)
                places[total] = places.get(total, 0.0) + chance
            return np.array(list(places.values())), np.array(list(places))

        law_p, at_p = located(batches, values)
        law_q, at_q = located(fewer, others)
        yield additive(mechanism, "random data", law_p, at_p, law_q, at_q)


# Oracles on binned pairs: the best adaptive strategy, and strategies that are played.

Atom = tuple[list[Pair], int]


def directions(case: Case, atoms: list[Atom]) -> list[list[Atom]]:
    """Both orders of the data sets; where a record is swapped every pair may be used either way."""
    swapped = [([pair.swapped for pair in pairs], count) for pairs, count in atoms]
    if case["relation"] == "add_remove":
        return [atoms, swapped]
    both = [(one + two, count) for (one, count), (two, _) in zip(atoms, swapped, strict=True)]
    return [both]


def best_adaptive(atoms: list[Atom], epsilons: Array) -> Array:
    """The recursion over steps, every loss rounded down: a lower bound of delta at epsilons."""
    top = max(float(epsilons.max()), 1.0) + 6.0
    count = 1 << 14
    h = 2.0 * top / count
    grid = h * (np.arange(count) - count // 2)
    value = np.maximum(-np.expm1(grid), 0.0)
    for pairs, steps in atoms:
        laws = []
        for pair in pairs:
            loss = pair.loss
            kept = (pair.p > 0.0) & (loss >= -2.0 * top)
            place = np.floor(np.minimum(loss[kept], 2.0 * top) / h).astype(int)
            laws.append(np.bincount(place + count, pair.p[kept], 2 * count + 1))
        for _ in range(steps):
            # Below the grid 1 - e^x holds for any mechanism, above it 0 does.
            below = -np.expm1(h * (np.arange(-count, 0) - count // 2))
            wide = np.concatenate([below, value, np.zeros(count)])
            found = [signal.fftconvolve(wide, law, "valid") for law in laws]
            value = np.maximum.reduce([np.clip(one - 1e-14, 0.0, 1.0) for one in found])
    # The recursion's value at the next grid point is a lower bound in between.
    after = np.minimum(np.ceil(epsilons / h).astype(int) + count // 2, count - 1)
    return np.asarray(value[after])


@dataclass(frozen=True)
class Sampled:
    """A mean with its standard error; ``limit`` is safely below the truth."""

    mean: float
    error: float
    hits: int
    #: What few values leave open where nearly all are alike.
    unseen: float = 0.0

    @property
    def limit(self) -> float:
        safe = self.mean - ERRORS * self.error - self.unseen
        return max(0.0, safe) if self.hits >= 40 else 0.0


def averaged(values: Array, certain: float = 0.0) -> Sampled:
    """Mean of values; where most are near the largest, rare small ones may not have been seen.

    There the last term of the empirical Bernstein bound (Maurer & Pontil 2009, arXiv 0907.3740v1,
    Theorem 4) is taken off, at the level of five standard errors.
    """
    mean, error = float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size))
    largest = float(values.max())
    left = largest * 7.0 * math.log(2.0 / 3e-7) / (3.0 * (values.size - 1))
    unseen = left if mean > 0.5 * largest else 0.0
    return Sampled(mean + certain, error, int(np.count_nonzero(values)), unseen)


def tilt(chosen: list[tuple[Pair, int]], epsilon: float) -> float:
    """Where the tilted mean of the loss is about epsilon."""

    def exponent(theta: float) -> float:
        total = -theta * epsilon
        for pair, count in chosen:
            loss, finite = pair.loss, (pair.p > 0.0) & (pair.q > 0.0)
            total += count * float(special.logsumexp(theta * loss[finite], b=pair.p[finite]))
        return total

    found = optimize.minimize_scalar(exponent, bounds=(0.0, 200.0), method="bounded")
    return float(found.x) if exponent(float(found.x)) < exponent(0.0) - 0.5 else 0.0


def played(
    chosen: list[tuple[Pair, int]], epsilon: float, size: int, rng: np.random.Generator
) -> Sampled:
    """One pair per atom, all steps of it, by importance sampling."""
    theta = tilt(chosen, epsilon)
    total, log_weight, finite_chance = np.zeros(size), 0.0, 1.0
    for pair, count in chosen:
        finite = (pair.p > 0.0) & (pair.q > 0.0)
        p, loss = pair.p[finite], pair.loss[finite]
        log_moment = float(special.logsumexp(theta * loss, b=p))
        tilted = np.exp(np.log(p) + theta * loss - log_moment)
        below = np.cumsum(tilted / tilted.sum())
        for _ in range(count):
            drawn = np.searchsorted(below, rng.random(size)).clip(max=p.size - 1)
            total += loss[drawn]
        log_weight += count * log_moment
        finite_chance *= (1.0 - float(pair.p[pair.q <= 0.0].sum())) ** count
    gain = -np.expm1(np.minimum(epsilon - total, 0.0))
    return averaged(np.exp(log_weight - theta * total) * gain, max(0.0, 1.0 - finite_chance))


def played_adaptively(
    pairs: list[Pair], count: int, epsilon: float, size: int, rng: np.random.Generator
) -> Sampled:
    """One pair while the loss so far is below its share of epsilon, another one above."""
    first, second = pairs
    if any(np.any((pair.p > 0.0) & (pair.q <= 0.0)) for pair in (first, second)):
        return Sampled(0.0, 0.0, 0)
    theta = tilt([(first, count)], epsilon)
    tables = []
    for pair in (first, second):
        kept = pair.p > 0.0
        p, loss = pair.p[kept], pair.loss[kept]
        log_moment = float(special.logsumexp(theta * loss, b=p))
        tilted = np.exp(np.log(p) + theta * loss - log_moment)
        tables.append((np.cumsum(tilted / tilted.sum()), loss, log_moment))
    total, log_weight = np.zeros(size), np.zeros(size)
    for step in range(count):
        use_second = total > epsilon * step / count
        uniform = rng.random(size)
        for (below, loss, log_moment), where in zip(tables, (~use_second, use_second), strict=True):
            drawn = np.searchsorted(below, uniform[where]).clip(max=loss.size - 1)
            total[where] += loss[drawn]
            log_weight[where] += log_moment
    gain = -np.expm1(np.minimum(epsilon - total, 0.0))
    return averaged(np.exp(log_weight - theta * total) * gain)


def log_moment(pair: Pair, order: float, resolved: float) -> float:
    """(order - 1) times the Renyi divergence of the bins; leaving bins out lowers it."""
    kept = (pair.p > 0.0) & (pair.q > resolved)
    if not kept.any():
        return 0.0
    return float(special.logsumexp((order - 1.0) * pair.loss[kept], b=pair.p[kept]))


def attained_divergences(
    case: Case, orders: Sequence[float], rng: np.random.Generator, effort: float = 1.0
) -> Iterator[tuple[str, int, float]]:
    """(name, which order, a divergence that is attained)."""
    fixed = np.random.default_rng(case["steps"])
    if case["scheme"] in EPOCHS:
        size = int(10_000 * effort)
        for name, game in epoch_games(case, None):
            size = max(500, min(size, 2_000_000 // game.chances.size))
            loss, weight = game.log_loss(size, 0.0, rng)
            for i, a in enumerate(orders):
                for power in (a - 1.0, -a):  # (P || Q) and (Q || P)
                    with np.errstate(over="ignore"):
                        limit = averaged(np.exp(power * loss + weight)).limit
                    if 0.0 < limit < math.inf:
                        worth = case["steps"] * math.log(limit) / (a - 1.0)
                        yield f"moments, {name}", i, worth
        return
    if "reuse" in case:
        return
    law = np.array([0.0, 1.0]) if case["scheme"] == "none" else law_of(case)
    resolved = RESOLVED if law.size > 2 else 1e-290
    atoms: list[Atom] = [(strategies(case, law, fixed), case["steps"])]
    if "also" in case:
        atoms.append((strategies({**case, "arguments": case["also"]}, law, fixed), case["steps"]))
    for side in directions(case, atoms):
        for i, a in enumerate(orders):
            total = 0.0
            for pairs, count in side:
                worst = max((log_moment(pair, a, resolved) for pair in pairs), default=0.0)
                total += count * (worst / (a - 1.0) - 2.0 * resolved)
            yield "moments", i, total


# Epochs: every record in some of the batches. Densities are relative to batches without the record.


@dataclass(frozen=True)
class EpochGame:
    """What the record and its substitute add to their batch, in noise units."""

    noise: str
    x: float
    other: float | None
    #: Chance of each released batch, where a record is in one batch.
    chances: Array
    #: Else chances of being in 0, 1, … of the released ones, all sets of a size equally likely.
    sets: Array | None
    #: Records of one person, each in a batch of its own choice.
    group: int = 1

    def ratio(self, xi: Array, at: float) -> Array:
        if self.noise == "gaussian":
            return np.asarray(np.exp(at * xi - 0.5 * at * at))
        return np.asarray(np.exp(np.abs(xi) - np.abs(xi - at)))

    def density(self, xi: Array, at: float | None) -> Array:
        if at is None:
            return np.ones(xi.shape[0])
        ratios = self.ratio(xi, at)
        if self.group > 1:
            return self.partitions(xi, at)
        if self.sets is None:
            return np.asarray(ratios @ self.chances + (1.0 - self.chances.sum()))
        sums = np.zeros((xi.shape[0], self.sets.size))  # elementary symmetric polynomials
        sums[:, 0] = 1.0
        for column in ratios.T:
            sums[:, 1:] += sums[:, :-1] * column[:, None]
        ways = [math.comb(xi.shape[1], j) for j in range(self.sets.size)]
        return np.asarray(sums @ (self.sets / np.array(ways, dtype=float)))

    def partitions(self, xi: Array, at: float) -> Array:
        """Mean over all ways to put the group into batches: a product of exponential series."""
        orders, chance = np.arange(self.group + 1), float(self.chances[0])
        weights = np.array([chance**c / math.factorial(c) for c in orders])
        left = max(0.0, 1.0 - self.chances.sum())
        total = np.tile([left**c / math.factorial(c) for c in orders], (xi.shape[0], 1))
        for column in xi.T:
            factors = [weights[c] * self.ratio(column, c * at) for c in orders]
            total = np.stack(
                [sum(total[:, c - d] * factors[d] for d in range(c + 1)) for c in orders], axis=1
            )
        return np.asarray(math.factorial(self.group) * total[:, -1])

    def log_loss(self, size: int, extra: float, rng: np.random.Generator) -> tuple[Array, Array]:
        """Losses of (P || Q), P moved ``extra`` further in the record's batch, and log weights."""
        count = self.chances.size
        draw = rng.normal if self.noise == "gaussian" else rng.laplace
        xi = np.asarray(draw(size=(size, count)))
        at = self.x + extra
        inside: NDArray[Any] = np.zeros((size, count))
        if self.group > 1:
            padded = np.append(self.chances, max(0.0, 1.0 - self.chances.sum()))
            inside = rng.multinomial(self.group, padded / padded.sum(), size)[:, :count]
        elif self.sets is None:
            padded = np.append(self.chances, max(0.0, 1.0 - self.chances.sum()))
            drawn = rng.choice(count + 1, size, p=padded / padded.sum())
            rows = drawn < count
            inside[np.flatnonzero(rows), drawn[rows]] = 1.0
        else:
            many = rng.choice(self.sets.size, size, p=self.sets / self.sets.sum())
            ranks = rng.random((size, count)).argsort(axis=1).argsort(axis=1)
            inside = ranks < many[:, None]
        xi += at * inside
        p, proposal = self.density(xi, self.x), self.density(xi, at)
        q = self.density(xi, self.other)
        return np.log(p) - np.log(q), np.log(p) - np.log(proposal)


def epoch_games(case: Case, first: int | None) -> Iterator[tuple[str, EpochGame]]:
    """An epoch, or its first batches; both orders of the data sets are asked for."""
    sizes = {name: int(value) for name, value in case["sizes"].items()}
    radius = 1.0 / case["arguments"]["noise_multiplier"]
    noise, removed = case["mechanism"], case["relation"] == "add_remove"
    sets = None
    if case["scheme"] == "shuffle":
        cuts = np.append(np.arange(0, sizes["n"], sizes["m"]), sizes["n"])
        chances = np.diff(cuts) / sizes["n"]
        chances = chances[:first]
        if removed:
            settings = [("others 0", radius, None), ("others away", 2.0 * radius, radius)]
        else:
            settings = [("aligned", 2.0 * radius, None), ("symmetric", radius, -radius)]
    else:
        bins = sizes["bins"]
        released = bins if first is None else first
        chances = np.full(released, 1.0 / bins)
        times = sizes.get("times", 1)
        if times > 1:
            law = stats.hypergeom(bins, released, times)
            sets = np.asarray(law.pmf(np.arange(min(times, released) + 1)))
        settings = [("symmetric", radius, None if removed else -radius)]
    group = case["group"] if case["scheme"] == "allocation" and sets is None else 1
    for name, x, other in settings:
        yield name, EpochGame(noise, x, other, chances, sets, group)


def played_epochs(
    games: Sequence[EpochGame], epsilon: float, size: int, rng: np.random.Generator
) -> tuple[Sampled, Sampled]:
    """Both orders: E_P (1 - e^(eps - L))_+ and, with the same draws, E_Q (1 - e^(eps + L))_+."""
    size = max(500, min(size, 2_000_000 // sum(game.chances.size for game in games)))

    def once(extra: float, count: int) -> tuple[Array, Array, Array]:
        loss, weight = np.zeros(count), np.zeros(count)
        for game in games:
            one, log_weight = game.log_loss(count, extra, rng)
            loss += one
            weight += log_weight
        forward = np.exp(weight) * -np.expm1(np.minimum(epsilon - loss, 0.0))
        back = np.exp(weight - loss) * -np.expm1(np.minimum(epsilon + loss, 0.0))
        return forward, back, loss

    best = [0.0, 0.0]
    least = [math.inf, math.inf]
    scale = 1.0 / max(1e-9, abs(games[0].x))
    for extra in (-2.0, -1.0, -0.5, 0.0, 0.3, 0.6, 1.0, 1.5, 2.5):
        moved = extra * min(2.0, max(0.3, scale, abs(games[0].x)))
        values = once(moved, max(400, size // 20))
        for side in (0, 1):
            part = averaged(values[side])
            relative = part.error / part.mean if part.mean > 0.0 and part.hits > 20 else math.inf
            if relative < least[side]:
                best[side], least[side] = moved, relative
    return averaged(once(best[0], size)[0]), averaged(once(best[1], size)[1])


# A subset that is used again: all releases of one use share the copies in the subset.


def played_reuse(
    case: Case, x: Array, other: Array, epsilon: float, size: int, rng: np.random.Generator
) -> tuple[Sampled, Sampled]:
    """Both orders, as in :func:`played_epochs`."""
    stages, n, group = stages_of(case), int(case["sizes"]["n"]), case["group"]
    outer = law_of_copies(stages[:1], n, group)
    (kind, m), slots = stages[1], stages[0][1]
    inner = [np.ones(1)] + [stage_kernel(kind, slots, i, m) for i in range(1, outer.size)]
    noise = "laplace" if case["mechanism"] == "laplace" else "gaussian"
    game = EpochGame(noise, 1.0, None, np.ones(1), None)
    removed = case["relation"] == "add_remove"

    def density(xi: Array, weights: Array, step: float) -> Array:
        """Of all uses of one subset, relative to no copies."""
        total = np.zeros(xi.shape[0])
        for weight, law in zip(weights, inner, strict=True):
            if weight > 0.0:
                one = sum(c * game.ratio(xi, j * step) for j, c in enumerate(law) if c > 1e-14)
                total += weight * np.prod(np.broadcast_to(one, xi.shape), axis=1)
        return total

    loss, weight = np.zeros(size), np.zeros(size)
    proposal = outer.copy()
    proposal[1:] += outer[1:] / max(outer[1:].sum(), 1e-300) * 0.5
    proposal /= proposal.sum()
    for _ in range(case["steps"]):
        draw = rng.normal if noise == "gaussian" else rng.laplace
        xi = np.asarray(draw(size=(size, case["reuse"])))
        copies = rng.choice(outer.size, size, p=proposal)
        for i in range(1, outer.size):
            rows = np.flatnonzero(copies == i)
            law = inner[i] / inner[i].sum()
            xi[rows] += float(x[0]) * rng.choice(law.size, (rows.size, case["reuse"]), p=law)
        p = density(xi, outer, float(x[0]))
        q = np.ones(size) if removed else density(xi, outer, float(other[0]))
        loss += np.log(p) - np.log(q)
        weight += np.log(p) - np.log(density(xi, proposal, float(x[0])))
    forward = np.exp(weight) * -np.expm1(np.minimum(epsilon - loss, 0.0))
    back = np.exp(weight - loss) * -np.expm1(np.minimum(epsilon + loss, 0.0))
    return averaged(forward), averaged(back)


# Closed forms and a peer, from both sides.


def gaussian_delta(shift: float, epsilon: float) -> float:
    first = special.log_ndtr(shift / 2.0 - epsilon / shift)
    second = special.log_ndtr(-shift / 2.0 - epsilon / shift) + epsilon
    return float(-np.exp(first) * np.expm1(second - first))


def closed_form(case: Case, epsilon: float) -> float | None:
    """The exact delta of releases on all records."""
    arguments, steps = case["arguments"], case["steps"]
    if case["scheme"] != "none" or case["group"] > 1:
        return None
    if case["mechanism"] in ("gaussian", "laplace"):
        moved = 1.0 if case["relation"] == "add_remove" else 2.0
        z = arguments.get("noise_multiplier", math.inf)
        shift = arguments.get("shift") or moved / z
        if case["mechanism"] == "gaussian":
            return gaussian_delta(shift * math.sqrt(steps), epsilon)
        return -math.expm1(min(0.0, (epsilon - shift) / 2.0)) if steps == 1 else None
    if case["mechanism"] == "randomized-response" and arguments["categories"] == 2:
        one = arguments["mechanism_epsilon"]
        told = np.arange(steps + 1)
        chances = stats.binom(steps, 1.0 / (1.0 + math.exp(-one))).pmf(told)
        gain = -np.expm1(np.minimum(0.0, epsilon - one * (2 * told - steps)))
        return float(chances @ gain)
    return None


def peer_bounds(case: Case, epsilon: float) -> tuple[float, float] | None:
    """Optimistic and pessimistic delta of dp_accounting, for Poisson sampling."""
    usable = case["scheme"] == "poisson" and case["mechanism"] in ("gaussian", "laplace")
    usable = usable and case["relation"] == "add_remove" and case["group"] == 1
    if not usable or "also" in case or case["steps"] > 300:
        return None
    try:
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError:
        return None
    arguments, rate = case["arguments"], case["sizes"]["rate"]
    scale = arguments.get("noise_multiplier") or 1.0 / arguments["shift"]
    if not 0.3 <= scale <= 20.0 or not 0.0 < rate <= 1.0:
        return None
    make = {
        "gaussian": partial(pld.from_gaussian_mechanism, scale),
        "laplace": partial(pld.from_laplace_mechanism, scale),
    }[case["mechanism"]]
    both = []
    for pessimistic in (False, True):
        one = make(
            sampling_prob=rate,
            value_discretization_interval=2e-3,
            pessimistic_estimate=pessimistic,
        )
        both.append(float(one.self_compose(case["steps"]).get_delta_for_epsilon(epsilon)))
    return both[0], both[1]


# One plan, judged.


def oracles(
    case: Case, epsilons: Array, rng: np.random.Generator, effort: float = 1.0
) -> Iterator[tuple[str, int, float]]:
    """(name, which epsilon, a delta that is surely attained up to SLACK).

    Strategies are the same whatever ``rng`` is, which plays them.
    """
    fixed = np.random.default_rng(case["steps"])
    for i, epsilon in enumerate(epsilons.tolist()):
        if (exact := closed_form(case, epsilon)) is not None:
            yield "closed form", i, exact
        if (peer := peer_bounds(case, epsilon)) is not None:
            yield "dp_accounting", i, peer[0] - 1e-9
    scheme, size = case["scheme"], int(10_000 * effort)
    if scheme in EPOCHS:
        for name, game in epoch_games(case, None):
            games = [game] * case["steps"]
            last = dict(epoch_games(case, first_batches(case, game.chances.size)))[name]
            if last.chances.size < game.chances.size:
                games.append(last)
            for i, epsilon in enumerate(epsilons.tolist()):
                for one in played_epochs(games, epsilon, size, rng):
                    yield f"epochs, {name}", i, one.limit
        return
    if "reuse" in case:
        if case["mechanism"] in ("gaussian", "laplace", "zcdp"):
            for name, x, other in points({**case, "dimension": 1}, fixed):
                for i, epsilon in enumerate(epsilons.tolist()):
                    for one in played_reuse(case, x, other, epsilon, size, rng):
                        yield f"reused subset, {name}", i, one.limit
        return
    law = np.array([0.0, 1.0]) if scheme == "none" else law_of(case)
    atoms: list[Atom] = [(strategies(case, law, fixed), case["steps"])]
    if "also" in case:
        second = {**case, "arguments": case["also"]}
        atoms.append((strategies(second, law, fixed), case["steps"]))
    else:
        atoms[0][0].extend(random_data_sets(case, fixed))
    steps = sum(count for _, count in atoms)
    for side in directions(case, atoms):
        if not all(pairs for pairs, _ in side):
            continue
        if steps <= 24:
            for i, value in enumerate(best_adaptive(side, epsilons).tolist()):
                yield "recursion", i, value
        drawn = max(500, min(size, int(1_500_000 * effort) // steps))
        for i, epsilon in enumerate(epsilons.tolist()):
            for k in range(min(len(pairs) for pairs, _ in side)):
                chosen = [(pairs[k], count) for pairs, count in side]
                yield f"played, {side[0][0][k].name}", i, played(chosen, epsilon, drawn, rng).limit
            pairs, count = side[0]
            if len(side) == 1 and len(pairs) > 1 and 1 < count <= 300:
                two = [pairs[int(k)] for k in fixed.choice(len(pairs), 2, replace=False)]
                found = played_adaptively(two, count, epsilon, drawn // 2, rng)
                yield "played adaptively", i, found.limit


class TooSlow(Exception):
    """A plan has used up its time."""


def limited(number: int, seed: int, weaken: float, limit: int) -> Case:
    """The outcome of one plan, or that it took longer than so many seconds of processor time."""

    def end(*_: object) -> None:
        raise TooSlow

    signal_module.signal(signal_module.SIGPROF, end)
    signal_module.setitimer(signal_module.ITIMER_PROF, limit)
    try:
        return judge(number, seed, weaken)
    except TooSlow:
        case = random_case(np.random.default_rng([seed, number]))
        return {"number": number, "case": case, "violations": [], "status": "too slow"}
    finally:
        signal_module.setitimer(signal_module.ITIMER_PROF, 0.0)


def judge(number: int, seed: int, weaken: float) -> Case:
    """The outcome of one plan."""
    rng = np.random.default_rng([seed, number])
    case = random_case(rng)
    outcome: Case = {"number": number, "case": case, "violations": []}
    began = time.perf_counter()
    try:
        plan = plan_of(case, weaken)
        options: Case = {"composition": case["composition"]}
        if case["dimension"]:
            options["dimension"] = case["dimension"]
        account = md.account(plan, relation=case["relation"], group=case["group"], **options)
        answer = account.epsilon(case["delta"])
        between = float(rng.random() * min(answer.upper, LARGEST))
        deltas = account.delta(between)
        claims = [Claim("", case, between, deltas.upper)]
        if answer.upper <= LARGEST:
            claims.insert(0, Claim("", case, answer.upper, case["delta"]))
        if case["ledger"]:
            claims.extend(ledger_claims(case, plan))
        divergences = renyi_of(account)
    except (md.NotCovered, md.InvalidParameter) as refusal:
        return {**outcome, "status": "not covered", "why": str(refusal)[:160]}
    except TooSlow:
        raise
    except md.NumericalFailure as refusal:
        if not isinstance(refusal, Contradiction):
            return {**outcome, "status": "refused", "why": str(refusal)[:160]}
        found = [{"oracle": "contradiction", "why": str(refusal)}]
        return {**outcome, "status": "error", "violations": found}
    except Exception as failure:  # what a user would see as a traceback
        what = f"{type(failure).__name__}: {failure}"[:300]
        return {**outcome, "status": "error", "violations": [{"oracle": "traceback", "why": what}]}
    outcome["seconds"] = round(time.perf_counter() - began, 3)
    outcome |= {
        "epsilon": [answer.lower, answer.upper],
        "asked": between,
        "deltas": [deltas.lower, deltas.upper],
        "answered_divergences": divergences is not None,
    }
    found = outcome["violations"]
    if not (answer.lower <= answer.upper and deltas.lower <= deltas.upper):
        found.append({"oracle": "order", "epsilon": between})
    if divergences is not None and not np.all(divergences.lower <= divergences.upper):
        found.append({"oracle": "order of divergences"})
    exact, peer = closed_form(case, between), peer_bounds(case, between)
    most = exact if exact is not None else peer[1] + 1e-9 if peer else None
    if not weaken and most is not None and deltas.lower > most * (1.0 + SLACK) + FLOOR:
        found.append({"oracle": "attained", "epsilon": between, "truth": most})
    shares: dict[str, float] = {}
    again = partial(np.random.default_rng, [seed, number, 1])
    for claim in claims:
        at = np.array([claim.epsilon])
        attained = [(n, v) for n, _, v in oracles(claim.case, at, rng)]
        repeat = partial(oracles, claim.case, at)
        found += judged(claim.kind, attained, claim.delta, repeat, again, shares)
    most_divergent = [] if divergences is None else divergences.upper.tolist()
    for i, (order, certified) in enumerate(zip(ORDERS, most_divergent, strict=False)):
        attained = [(n, v) for n, j, v in attained_divergences(case, ORDERS, rng) if j == i]
        repeat = partial(attained_divergences, case, [order])
        found += judged("", attained, certified, repeat, again, shares)
    outcome["shares"] = shares
    outcome["status"] = "violation" if found else "held"
    outcome["oracle_seconds"] = round(time.perf_counter() - began - outcome["seconds"], 3)
    return outcome


def renyi_of(account: Any) -> Any:
    """Its divergences; None where it names a reason not to answer."""
    try:
        return account.renyi(list(ORDERS))
    except Contradiction:
        raise
    except (md.NotCovered, md.NumericalFailure):
        return None


@dataclass(frozen=True)
class Claim:
    """What is certified of the steps of a case: a delta at an epsilon."""

    kind: str
    case: Case
    epsilon: float
    delta: float


def ledger_claims(case: Case, plan: Any) -> Iterator[Claim]:
    """What ledgers say was spent: two charges chosen along the way, and the steps as one plan."""
    delta = case["delta"]
    charges = 1 if "first" in case else 2
    twice = {**case, "steps": charges * case["steps"]}
    memory = md.Ledger(case["relation"])
    memory.step(plan, times=charges)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzz.ledger"
        limit = {"epsilon": LARGEST, "delta": delta, "relation": case["relation"]}
        try:
            spent = memory.epsilon(delta).upper
            with md.Ledger.open(path, **limit) as ledger:
                for _ in range(charges):
                    ledger.charge(plan)
                chosen = ledger.spent()
        except (md.BudgetExceeded, md.NotCovered, md.NumericalFailure):
            return
    for kind, epsilon in (("ledger in memory: ", spent), ("ledger in a file: ", chosen)):
        if epsilon <= LARGEST:
            yield Claim(kind, twice, epsilon, delta)


def judged(
    kind: str,
    attained: Sequence[tuple[str, float]],
    certified: float,
    repeat: Callable[..., Iterator[tuple[str, int, float]]],
    again: Callable[[], np.random.Generator],
    shares: dict[str, float],
) -> list[Case]:
    """The first oracle above what is certified, if a ten times larger sample says so too."""

    def above(value: float) -> bool:
        return value > certified * (1.0 + SLACK) + FLOOR

    for name, value in attained:
        group = kind + name.split(",")[0]
        if certified > 0.0:
            shares[group] = max(shares.get(group, 0.0), value / certified)
        if not above(value):
            continue
        repeated = max((v for n, _, v in repeat(again(), 10.0) if n == name), default=value)
        if above(repeated):
            values = [value, repeated]
            return [{"oracle": kind + name, "certified": certified, "attained": values}]
    return []


# Counting, and going on where an earlier run ended.


def run(
    plans: int, seed: int, weaken: float, jobs: int, out: Path | None, limit: int
) -> Iterator[Case]:
    done: dict[int, Case] = {}
    if out is not None and out.exists():
        for line in out.read_text().splitlines():
            try:
                one = json.loads(line)
            except ValueError:
                continue  # the run was ended while it wrote
            if one.get("seed") == seed and one.get("weaken") == weaken:
                done[one["number"]] = one
    yield from (one for number, one in done.items() if number < plans)
    todo = [number for number in range(plans) if number not in done]
    work = partial(limited, seed=seed, weaken=weaken, limit=limit)
    if jobs > 1:
        with ProcessPoolExecutor(jobs) as pool:
            yield from kept(pool.map(work, todo), seed, weaken, out)
    else:
        yield from kept(map(work, todo), seed, weaken, out)


def kept(outcomes: Iterator[Case], seed: int, weaken: float, out: Path | None) -> Iterator[Case]:
    for one in outcomes:
        one |= {"seed": seed, "weaken": weaken}
        if out is not None:
            with out.open("a") as file:
                file.write(json.dumps(one) + "\n")
        yield one


def counts(outcomes: list[Case]) -> Case:
    """How many plans held, by scheme, mechanism, relation and oracle."""
    status = Counter(one["status"] for one in outcomes)
    judged = [one for one in outcomes if "shares" in one]
    by: dict[str, dict[str, Counter[str]]] = {"scheme": {}, "mechanism": {}, "relation": {}}
    for one in outcomes:
        for what, table in by.items():
            table.setdefault(one["case"][what], Counter())[one["status"]] += 1
    oracle: dict[str, list[float]] = {}
    for one in judged:
        for kind, share in one["shares"].items():
            oracle.setdefault(kind, []).append(share)
    seconds = sorted(one["seconds"] for one in judged)
    return {
        "plans": len(outcomes),
        "status": dict(status),
        "by": {what: {k: dict(v) for k, v in sorted(t.items())} for what, t in by.items()},
        "oracles": {
            kind: {
                "plans": len(found),
                "median_share": float(np.median(found)),
                "above_90_percent": int(np.sum(np.array(found) > 0.9)),
                "largest_share": float(np.max(found)),
            }
            for kind, found in sorted(oracle.items())
        },
        "seconds": {
            "median": seconds[len(seconds) // 2] if seconds else 0.0,
            "largest": seconds[-1] if seconds else 0.0,
        },
        "violations": [one for one in outcomes if one["violations"]],
    }


def tables(found: Case) -> str:
    lines = [
        f"{found['plans']} plans: " + ", ".join(f"{k} {v}" for k, v in found["status"].items())
    ]
    for what, table in found["by"].items():
        lines += [
            "",
            f"| {what} | held | not covered | refused or too slow | violations |",
            "|---|---|---|---|---|",
        ]
        for name, one in table.items():
            wrong = one.get("violation", 0) + one.get("error", 0)
            left = one.get("refused", 0) + one.get("too slow", 0)
            row = (one.get("held", 0), one.get("not covered", 0), left, wrong)
            lines.append(f"| {name} | " + " | ".join(map(str, row)) + " |")
    lines += [
        "",
        "| oracle | plans | median share | above .9 | largest share |",
        "|---|---|---|---|---|",
    ]
    for kind, one in found["oracles"].items():
        lines.append(
            f"| {kind} | {one['plans']} | {one['median_share']:.3f} | {one['above_90_percent']} | "
            f"{one['largest_share']:.4f} |"
        )
    for one in found["violations"]:
        lines.append(f"VIOLATION {json.dumps(one)}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--plans", type=int, default=2000, help="how many plans")
    parser.add_argument("--seed", type=int, default=0, help="decides the plans")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--out", type=Path, help="one line of JSON per plan; continued if it exists"
    )
    parser.add_argument("--weaken", type=float, default=0.0, help="certify with more noise")
    parser.add_argument(
        "--limit", type=int, default=60, help="seconds of processor time for one plan"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging_off()
    outcomes = []
    settled = given.plans, given.seed, given.weaken, given.jobs, given.out, given.limit
    for one in run(*settled):
        outcomes.append(one)
        if one["violations"] and not given.weaken:
            print(json.dumps(one), file=sys.stderr, flush=True)
    found = counts(outcomes)
    print(json.dumps(found, indent=1) if given.json else tables(found))
    return 1 if found["violations"] else 0


def logging_off() -> None:
    """dp_accounting warns about every discretisation."""
    import logging

    logging.disable(logging.WARNING)


if __name__ == "__main__":
    raise SystemExit(main())

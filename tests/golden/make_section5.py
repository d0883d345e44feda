"""Write section5.json: one application of Gaussian noise, four ways, without using this package.

Run from anywhere: ``python tests/golden/make_section5.py``. Columns:

    symmetric, aligned   the two pairs of data sets, best half-line, by mpmath
    certificate          the mixed-slope certificate at its optimum, by its closed form: maximise
                         sum_j rho_j F(j s - z_j) - c_j F(-z_j) over non-decreasing z, with
                         c_0 = (alpha - 1) rho_0 joined to j = 1 and c_j = alpha rho_j, by pooling
                         adjacent violators; two stages of which the first is without replacement
                         by (b/n) h(1 + (alpha - 1) n/b); two stages with replacement by convex
                         minimisation over the outer slopes, in double precision
    section4             delta' of the paper's theorem at the eps whose eps' is asked for

``printed`` holds the same numbers as the package's notes on theory print them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import scipy
from scipy.optimize import brentq

mp.mp.dps = 50
DIGITS = 20
Law = list[mp.mpf]
Components = list[tuple[mp.mpf, mp.mpf]]

CASES: list[dict[str, Any]] = [
    {
        "case": "WR(2,2)", "n": 2, "stages": [["wr", 2]], "shift": 1.0, "epsilon": 1.0,
        "printed": [".107392", ".166033", ".166033", ".166425"],
    },
    {
        "case": "WR(3,3)", "n": 3, "stages": [["wr", 3]], "shift": 2.0, "epsilon": 0.25,
        "printed": [".496483", ".501029", ".522645", ".525813"],
    },
    {
        "case": "WR(100,10)", "n": 100, "stages": [["wr", 10]], "shift": 1.0, "epsilon": 1.0,
        "printed": ["3.268e-8", "5.552419e-4", "5.552421e-4", "1.0259e-3"],
    },
    {
        "case": "MUSTow(1000,100,100)", "n": 1000, "stages": [["wor", 100], ["wr", 100]],
        "shift": 0.5, "epsilon": 0.5,
        "printed": ["1.163e-7", "4.58172e-4", "4.58172e-4", "1.2707e-3"],
    },
    {
        "case": "MUSTww(1000,100,100)", "n": 1000, "stages": [["wr", 100], ["wr", 100]],
        "shift": 0.5, "epsilon": 0.5,
        "printed": ["3.110e-7", "5.837214e-4", "5.837242e-4", "1.4518e-3"],
    },
]  # fmt: skip
COLUMNS = ("symmetric", "aligned", "certificate", "section4")


def cdf(x: mp.mpf) -> mp.mpf:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def binomial(size: int, chance: mp.mpf) -> Law:
    return [mp.binomial(size, j) * chance**j * (1 - chance) ** (size - j) for j in range(size + 1)]


def multiplicity(n: int, stages: list[list[Any]]) -> Law:
    """Law of one record's copies, one kernel after another."""
    law, population = [mp.mpf(0), mp.mpf(1)], n
    for kind, size in stages:
        following = [mp.mpf(0)] * (size + 1)
        for special, weight in enumerate(law):
            if kind == "wr":
                row = binomial(size, mp.mpf(special) / population)
            elif special == 0:
                row = [mp.mpf(1)]
            else:  # one special entry at most here
                row = [1 - mp.mpf(size) / population, mp.mpf(size) / population]
            for j, chance in enumerate(row):
                following[j] += weight * chance
        law, population = following, size
    return law


def half_line(first: Components, second: Components, epsilon: float) -> mp.mpf:
    """Largest P(x > t) - alpha Q(x > t) for mixtures of unit normals (weight, centre)."""

    def log_density(parts: Components, x: mp.mpf) -> mp.mpf:
        return mp.log(mp.fsum(w * mp.exp(-((x - c) ** 2) / 2) for w, c in parts))

    low, high = mp.mpf(-60), mp.mpf(60)
    while high - low > mp.mpf(10) ** -40:
        middle = (low + high) / 2
        if log_density(first, middle) - log_density(second, middle) < epsilon:
            low = middle
        else:
            high = middle
    hit = mp.fsum(w * cdf(c - high) for w, c in first)
    return hit - mp.exp(epsilon) * mp.fsum(w * cdf(c - high) for w, c in second)


def group_profile(shift: mp.mpf, alpha: mp.mpf) -> mp.mpf:
    epsilon = mp.log(alpha)
    return cdf(shift / 2 - epsilon / shift) - alpha * cdf(-shift / 2 - epsilon / shift)


def section4(law: Law, shift: mp.mpf, epsilon: float) -> mp.mpf:
    alpha = 1 + mp.expm1(epsilon) / (1 - law[0])
    return mp.fsum(p * group_profile(j * shift, alpha) for j, p in enumerate(law) if j)


def one_stage(law: Law, shift: mp.mpf, alpha: mp.mpf) -> mp.mpf:
    """Closed form of the certificate, blocks found by pooling adjacent violators."""
    kept = [(j, p) for j, p in enumerate(law) if j and p > mp.mpf(10) ** -40]

    def best(block: list[int]) -> mp.mpf:
        cost = mp.fsum(alpha * kept[k][1] for k in block)
        if block[0] == 0:
            cost += (alpha - 1) * law[0]
        low, high = mp.mpf(-300), mp.mpf(300)
        while high - low > mp.mpf(10) ** -35:
            z = (low + high) / 2
            gain = mp.fsum(
                kept[k][1] * mp.exp(kept[k][0] * shift * z - (kept[k][0] * shift) ** 2 / 2)
                for k in block
            )
            low, high = (z, high) if gain < cost else (low, z)
        return high

    blocks: list[tuple[list[int], mp.mpf]] = []
    for k in range(len(kept)):
        blocks.append(([k], best([k])))
        while len(blocks) > 1 and blocks[-2][1] >= blocks[-1][1]:
            merged = blocks[-2][0] + blocks[-1][0]
            blocks[-2:] = [(merged, best(merged))]
    total = -(alpha - 1) * law[0] * cdf(-blocks[0][1])
    for block, z in blocks:
        for k in block:
            j, p = kept[k]
            total += p * cdf(j * shift - z) - alpha * p * cdf(-z)
    return total


def two_with_replacement(n: int, b: int, m: int, shift: float, epsilon: float) -> float:
    """The certificate at the first stage around the closed form at the second.

    Inner profiles are tabulated finely in alpha as their convex conjugates: for a slope -w the
    value of h_i(alpha) + w alpha at its minimum. The outer problem is then, by duality, a maximum
    over non-increasing slopes, solved by pooling as well.
    """
    outer = [float(p) for p in binomial(b, mp.mpf(1) / n)]
    groups = [i for i in range(1, b + 1) if outer[i] > 1e-18]
    laws = {i: [float(p) for p in binomial(m, mp.mpf(i) / b)] for i in groups}
    alpha = float(np.exp(epsilon))

    def inner(i: int, log_alpha: float) -> tuple[float, float]:
        return closed_form(laws[i], shift, float(np.exp(log_alpha)))

    def at_slope(i: int, w: float) -> float:
        """log alpha at which h_i has slope -w (slopes shrink as alpha grows)."""

        def excess(log_alpha: float) -> float:
            return float(np.log(inner(i, log_alpha)[1]) - np.log(w))

        return brentq_open(excess)

    def block_slope(block: list[int]) -> float:
        budget = sum(alpha * outer[groups[k]] for k in block)
        if block[0] == 0:
            budget += (alpha - 1) * outer[0]

        def excess(log_w: float) -> float:
            used = sum(outer[groups[k]] * np.exp(at_slope(groups[k], np.exp(log_w))) for k in block)
            return float(np.log(used) - np.log(budget))

        return float(brentq(excess, np.log(1e-14), np.log(0.49), xtol=1e-12))

    blocks: list[tuple[list[int], float]] = []
    for k in range(len(groups)):
        blocks.append(([k], block_slope([k])))
        while len(blocks) > 1 and blocks[-2][1] <= blocks[-1][1]:
            merged = blocks[-2][0] + blocks[-1][0]
            blocks[-2:] = [(merged, block_slope(merged))]
    return sum(
        outer[groups[k]] * inner(groups[k], at_slope(groups[k], np.exp(log_w)))[0]
        for block, log_w in blocks
        for k in block
    )


def closed_form(law: list[float], shift: float, alpha: float) -> tuple[float, float]:
    """As ``one_stage``, in double precision, for alpha >= 1 (self-duality below); and -slope."""
    if alpha < 1.0:
        value, slope = closed_form(law, shift, 1.0 / alpha)
        return 1.0 - alpha + alpha * value, 1.0 - value - slope / alpha
    j = np.array([k for k in range(1, len(law)) if law[k] > 1e-30], dtype=float)
    p = np.array([law[int(k)] for k in j])
    if j.size == 0:
        return 0.0, 0.0

    def best(first: int, last: int) -> float:
        cost = alpha * p[first:last].sum() + ((alpha - 1) * law[0] if first == 0 else 0.0)

        def excess(z: float) -> float:
            logs = j[first:last] * shift * z - (j[first:last] * shift) ** 2 / 2
            return float(np.log(np.sum(p[first:last] * np.exp(logs - logs.max()))) + logs.max())

        return brentq_open(lambda z: excess(z) - float(np.log(cost)))

    blocks: list[tuple[int, int, float]] = []
    for k in range(j.size):
        blocks.append((k, k + 1, best(k, k + 1)))
        while len(blocks) > 1 and blocks[-2][2] >= blocks[-1][2]:
            first, last = blocks[-2][0], blocks[-1][1]
            blocks[-2:] = [(first, last, best(first, last))]
    z = np.concatenate([np.full(last - first, at) for first, last, at in blocks])
    ndtr = scipy.special.ndtr
    slope = law[0] * ndtr(-z[0]) + float(p @ ndtr(-z))
    value = float(p @ ndtr(j * shift - z)) - alpha * slope + law[0] * ndtr(-z[0])
    return value, float(slope)


def brentq_open(function: Callable[[float], float]) -> float:
    low, high = -1.0, 1.0
    while function(low) * function(high) > 0:
        low, high = 2 * low, 2 * high
    return float(brentq(function, low, high, xtol=1e-13, rtol=1e-14))


def compute(case: dict[str, Any]) -> list[str]:
    n, stages, epsilon = case["n"], case["stages"], case["epsilon"]
    shift = mp.mpf(case["shift"])
    law = multiplicity(n, stages)
    occurring = [(j, p) for j, p in enumerate(law) if p > mp.mpf(10) ** -45]
    aligned = half_line([(p, j * shift) for j, p in occurring], [(mp.mpf(1), mp.mpf(0))], epsilon)
    symmetric = half_line(
        [(p, j * shift / 2) for j, p in occurring],
        [(p, -j * shift / 2) for j, p in occurring],
        epsilon,
    )
    alpha = mp.exp(epsilon)
    kinds = [kind for kind, _ in stages]
    if kinds == ["wr"]:
        bound = mp.nstr(one_stage(law, shift, alpha), DIGITS)
    elif kinds == ["wor", "wr"]:
        b, m = stages[0][1], stages[1][1]
        q = mp.mpf(b) / n
        inside = one_stage(binomial(m, mp.mpf(1) / b), shift, 1 + (alpha - 1) / q)
        bound = mp.nstr(q * inside, DIGITS)
    else:
        value = two_with_replacement(n, stages[0][1], stages[1][1], case["shift"], epsilon)
        bound = f"{value:.10e}"
    return [
        mp.nstr(symmetric, DIGITS),
        mp.nstr(aligned, DIGITS),
        bound,
        mp.nstr(section4(law, shift, epsilon), DIGITS),
    ]


def main() -> None:
    rows = []
    for case in CASES:
        row = {key: value for key, value in case.items() if key != "printed"}
        row["printed"] = dict(zip(COLUMNS, case["printed"], strict=True))
        row["computed"] = dict(zip(COLUMNS, compute(case), strict=True))
        rows.append(row)
        print(case["case"], row["computed"])
    origin = {
        "what": "one application of Gaussian noise to one draw: delta at epsilon, four ways",
        "script": "tests/golden/make_section5.py",
        "tool": f"mpmath {mp.__version__}; scipy {scipy.__version__} for the MUSTww certificate",
        "digits": f"{DIGITS}; the MUSTww certificate 10",
    }
    text = json.dumps({"origin": origin, "rows": rows}, indent=1)
    target = Path(__file__).with_name("section5.json")
    target.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

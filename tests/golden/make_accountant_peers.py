"""Write accountant_peers.json: epsilons by two other accountants for sampled Gaussian and Laplace.

Needs an environment of its own: ``pip install dp-accounting==0.6.0 prv-accountant==0.2.0``; then
``python tests/golden/make_accountant_peers.py``. It takes some minutes.

dp-accounting gives an upper bound (losses rounded pessimistically, dots connected) and a lower one
(rounded optimistically) on a loss grid of the spacing stated; prv-accountant an interval. All
noise multipliers are sigma / C, with contributions of norm at most C: under add_remove one record
moves the sum by C, under replace_one by 2 C. A mixture of Gaussians whose sensitivities are
multiples of 2 C is what sampling with replacement amounts to under add_remove.
"""

from __future__ import annotations

import json
import math
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as pld
from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

GRID = 1e-4
#: rate, noise multiplier, steps
GAUSSIAN = [
    (0.01, 1.0, 1000),
    (0.001, 0.8, 10_000),
    (256 / 60_000, 1.1, 14_063),
    (0.02, 4.0, 1000),
    (0.1, 2.0, 100),
    (0.5, 5.0, 30),
    (0.3, 0.7, 2),
    (1.0, 10.0, 50),
    (0.9, 3.0, 7),
    (0.0001, 0.6, 200_000),
]
LAPLACE = [(0.01, 2.0, 1000), (0.2, 3.0, 50), (1.0, 20.0, 100), (0.05, 1.0, 10)]
#: scheme by name and sizes, noise multiplier, steps
MIXTURES = [
    ("wr", [50, 50], 8.0, 20),
    ("wr", [100, 10], 3.0, 100),
    ("wr", [20, 40], 30.0, 200),
    ("wor", [100, 10], 3.0, 100),
    ("wor", [1000, 20], 2.0, 300),
]
DELTAS = [1e-3, 1e-5, 1e-8]


def dp_accounting_poisson(
    law: str, rate: float, noise: float, steps: int, relation: str
) -> dict[float, list[float]]:
    found: dict[float, list[float]] = {delta: [] for delta in DELTAS}
    for pessimistic in (False, True):
        common: dict[str, Any] = {
            "pessimistic_estimate": pessimistic,
            "value_discretization_interval": GRID,
            "sampling_prob": rate,
            "use_connect_dots": pessimistic,
        }
        if law == "gaussian":
            neighbours = {
                "add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
                "replace_one": NeighboringRelation.REPLACE_ONE,
            }[relation]
            single = pld.from_gaussian_mechanism(noise, neighboring_relation=neighbours, **common)
        else:
            single = pld.from_laplace_mechanism(noise, **common)
        composed = single.self_compose(steps)
        for delta in DELTAS:
            found[delta].append(float(composed.get_epsilon_for_delta(delta)))
    return found


def dp_accounting_mixture(
    scheme: str, sizes: list[int], noise: float, steps: int
) -> dict[float, float]:
    """The upper bound alone: the optimistic variant of this version is no lower bound here."""
    n, m = sizes
    if scheme == "wor":
        chances = [1 - m / n, m / n]
    else:
        chances = [math.comb(m, j) * (n - 1) ** (m - j) / n**m for j in range(m + 1)]
        chances = [p for p in chances if p > 1e-25]
    chances[0] += 1.0 - math.fsum(chances)
    composed = pld.from_mixture_gaussian_mechanism(
        noise,
        [2.0 * j for j in range(len(chances))],
        chances,
        value_discretization_interval=GRID,
    ).self_compose(steps)
    return {delta: float(composed.get_epsilon_for_delta(delta)) for delta in DELTAS}


def prv_interval(rate: float, noise: float, steps: int, delta: float) -> list[float]:
    step = PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=noise)
    accountant = PRVAccountant(
        prvs=step,
        max_self_compositions=steps,
        eps_error=0.01,
        delta_error=delta / 1000,
    )
    lower, _, upper = accountant.compute_epsilon(delta=delta, num_self_compositions=[steps])
    return [float(lower), float(upper)]


def rows() -> list[dict[str, Any]]:
    dp = f"dp-accounting {version('dp-accounting')}"
    prv = f"prv-accountant {version('prv-accountant')}"
    found = []

    def add(tool: str, settings: str, lower: float | None, upper: float, **what: Any) -> None:
        row = {**what, "tool": tool, "settings": settings, "lower": lower, "upper": upper}
        print(row, flush=True)
        found.append(row)

    for law, cases in (("gaussian", GAUSSIAN), ("laplace", LAPLACE)):
        for relation in ("add_remove", "replace_one"):
            if law == "laplace" and relation == "replace_one":
                continue
            for rate, noise, steps in cases:
                answers = dp_accounting_poisson(law, rate, noise, steps, relation)
                for delta, (lower, upper) in answers.items():
                    add(
                        dp, f"pld, grid {GRID:g}", lower, upper,
                        scheme="poisson", rate=rate, mechanism=law, noise_multiplier=noise,
                        steps=steps, relation=relation, delta=delta,
                    )  # fmt: skip
    for scheme, sizes, noise, steps in MIXTURES:
        for delta, upper in dp_accounting_mixture(scheme, sizes, noise, steps).items():
            add(
                dp, f"pld of a mixture of Gaussians, grid {GRID:g}", None, upper,
                scheme=scheme, sizes=sizes, mechanism="gaussian", noise_multiplier=noise,
                steps=steps, relation="add_remove", delta=delta,
            )  # fmt: skip
    for rate, noise, steps in GAUSSIAN:
        if rate == 1.0:
            continue
        for delta in (1e-3, 1e-5):
            lower, upper = prv_interval(rate, noise, steps, delta)
            add(
                prv, "eps_error 0.01, delta_error delta/1000", lower, upper,
                scheme="poisson", rate=rate, mechanism="gaussian", noise_multiplier=noise,
                steps=steps, relation="add_remove", delta=delta,
            )  # fmt: skip
    return found


def main() -> None:
    origin = {
        "what": "bounds of epsilon at delta after so many steps, by other accountants",
        "script": "tests/golden/make_accountant_peers.py",
        "grid": GRID,
    }
    text = json.dumps({"origin": origin, "rows": rows()}, indent=1)
    target = Path(__file__).with_name("accountant_peers.json")
    target.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

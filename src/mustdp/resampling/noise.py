"""The noise of a design's releases: settled (``calibration/settle.py``) for the design's plan."""

from __future__ import annotations

import math
from dataclasses import replace

from mustdp.calibration.settle import PaperStatement, Settled, settle_noise
from mustdp.resampling.designs import Design

PAPER = "per-query epsilon' of the MUST paper with the sensitivity of n records: not a guarantee"


def settle_design(
    design: Design,
    *,
    queries: int = 1,
    delta: float | None = None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    epsilon_prime: float | None = None,
    relation: str | None = None,
) -> Settled:
    """Settle the noise of one release of all ``queries`` together on every subset.

    Exactly one of ``epsilon``, ``noise_multiplier`` and ``epsilon_prime`` is given.
    """
    paper = None if epsilon_prime is None else paper_statement(design, epsilon_prime, queries)
    found = settle_noise(
        design,
        delta=delta,
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        paper=paper,
        relation=relation,
    )
    if paper is not None and design.poisson:
        # The paper divides by the random size of the subset; no sensitivity is known for that.
        return replace(found, plan=None)
    return found


def paper_statement(design: Design, epsilon_prime: float, queries: int = 1) -> PaperStatement:
    """The paper's noise for the epsilon' of one query on one subset.

    [Z] experiment 1 takes the sensitivity of a statistic of all n records where the subset has m:
    with D the sensitivity on m records the formula is given D m / n, and half of D is what one
    record contributes, z = sigma / (D / 2). ``queries`` that are released together share it.
    """
    return PaperStatement(
        epsilon_prime, design.size / design.n, 2.0 / math.sqrt(queries), PAPER, "classical"
    )

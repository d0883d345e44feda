"""Table 6: distinct records in a draw, and the time a draw takes.

The mean is n * eta exactly. The smallest and the largest of 10,000 draws are random, so the paper's
are compared with what the exact law of the number of distinct records D says about them. Throwing m
balls on b slots hits K of them, by the occupancy law. MUSTow has D = K; in MUSTww the K slots hold
K independent uniform records, so D is the occupancy of K balls on n slots.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from mustdp.numerics.arrays import FloatArray
from mustdp.progress import Progress
from mustdp.reproduction.cells import (
    NAMES,
    Item,
    ItemOutcome,
    PaperCell,
    PaperTable,
    Settings,
    judge,
    new,
    published,
    scheme_called,
)
from mustdp.sampling.schemes import Scheme

#: Draws are timed in blocks, the schemes in turn, so that a busy moment hits all of them.
_BLOCKS = 10
#: Tolerance for rounding in expected extremes.
_ROUNDING = 1e-6


class DrawMeasurements(NamedTuple):
    """Distinct records of every draw, and seconds per draw in every block."""

    distinct: NDArray[np.int64]
    seconds: FloatArray


class MeanAndDeviation(NamedTuple):
    """Mean and standard deviation of something random."""

    mean: float
    deviation: float


def occupancy(balls: int, slots: int, most: int) -> Iterator[FloatArray]:
    """Chance of hitting 0, 1, …, ``most`` slots with no uniform ball, with one, up to ``balls``.

    >>> list(occupancy(2, 4, 2))[-1]
    array([0.  , 0.25, 0.75])
    """
    law, hit = np.zeros(most + 1), np.arange(most + 1) / slots
    law[0] = 1.0
    yield law
    for _ in range(balls):
        law = np.append(0.0, law[1:] * hit[1:] + law[:-1] * (1.0 - hit[:-1]))
        yield law


def distinct_law(name: str, n: int, b: int, m: int) -> FloatArray:
    """The law of the number of distinct records in one draw of a scheme of the paper."""
    if name == "WOR":
        return np.append(np.zeros(m), 1.0)
    if name == "Poisson":
        return np.asarray(binom.pmf(np.arange(n + 1), n, m / n))
    slots = n if name == "WR" else b
    first = deque(occupancy(m, slots, min(m, slots)), maxlen=1).pop()
    if name != "MUSTww":
        return first
    # What is found after k balls counts with the chance that k slots were hit.
    most = first.size - 1
    return np.asarray(
        sum(chance * law for chance, law in zip(first, occupancy(most, n, most), strict=True))
    )


def extremes(law: FloatArray, draws: int) -> tuple[MeanAndDeviation, MeanAndDeviation]:
    """The smallest and the largest of independent draws from a law of 0, 1, 2, …"""
    below = np.clip(np.cumsum(law), 0.0, 1.0)
    above = np.clip(np.cumsum(law[::-1])[::-1], 0.0, 1.0)
    return (
        _spread(-np.diff(np.append(above**draws, 0.0))),
        _spread(np.diff(np.append(0.0, below**draws))),
    )


def _spread(law: FloatArray) -> MeanAndDeviation:
    values, law = np.arange(law.size), law / law.sum()
    mean = float(law @ values)
    return MeanAndDeviation(mean, float(np.sqrt(law @ (values - mean) ** 2)))


def run(settings: Settings, progress: Progress) -> ItemOutcome:
    """Draw as often as the paper did, count distinct records and take the time."""
    paper = published("6")
    rng = np.random.default_rng(settings.seed)
    counts, times, means = [], [], []
    shares: dict[str, list[float]] = {name: [] for name in NAMES}
    for sizes, printed in paper["min_mean_max_distinct"].items():
        n, b, m = (int(size) for size in sizes.split(","))
        progress(f"n = {n}")
        schemes = {name: scheme_called(name, n, b, m) for name in NAMES}
        drawn = _draw(schemes, paper["draws"], rng)
        label = f"n = {n}, b = {b}, m = {m}"
        for name, scheme in schemes.items():
            law = distinct_law(name, n, b, m)
            row, (low, middle, high) = f"{label}, {name}", printed[name]
            mean = judge(row, "mean, n·η", middle, scheme.expected_distinct, half_unit=0.5)
            counts += _counted(row, mean, low, high, drawn[name], law)
            means.append(mean)
            shares[name].append(scheme.expected_distinct / m)
        times += _timed(label, paper["percent_time_over_WR"][sizes], drawn)
    tables = (
        PaperTable("distinct", f"Distinct records in {paper['draws']} draws", tuple(counts),
              "paper",
              "The mean is n·η, exactly. Smallest and largest are random: the paper's are judged "
              "against their expectation under the exact law, within three standard deviations. "
              "Drawn: what this run saw."),
        PaperTable("times", "Time of a draw over that of WR, in percent more", tuple(times),
              "paper",
              "The printed numbers are read as percent more than WR. Ours are of the machine that "
              "made this page. A verdict asks for the printed digits, whatever the scatter of the "
              "times."),
    )  # fmt: skip
    return ItemOutcome(tables, reading=_reading(shares, means))


def _draw(
    schemes: dict[str, Scheme], draws: int, rng: np.random.Generator
) -> dict[str, DrawMeasurements]:
    distinct = {name: np.empty(draws, dtype=np.int64) for name in schemes}
    seconds = {name: np.empty(_BLOCKS) for name in schemes}
    for block, places in enumerate(np.array_split(np.arange(draws), _BLOCKS)):
        for name, scheme in schemes.items():
            begun = time.perf_counter()
            for place in places:
                distinct[name][place] = scheme.draw(rng).distinct
            seconds[name][block] = (time.perf_counter() - begun) / places.size
    return {name: DrawMeasurements(distinct[name], seconds[name]) for name in schemes}


def _counted(
    row: str, mean: PaperCell, low: float, high: float, drawn: DrawMeasurements, law: FloatArray
) -> list[PaperCell]:
    """The extremes judged around the mean, and what was drawn."""
    counts = drawn.distinct
    least, most = extremes(law, counts.size)
    error = float(counts.std(ddof=1) / np.sqrt(counts.size))
    return [
        judge(row, "smallest, expected", low, least.mean, half_unit=_ROUNDING,
              paper_error=least.deviation),
        mean,
        judge(row, "largest, expected", high, most.mean, half_unit=_ROUNDING,
              paper_error=most.deviation),
        new(row, "smallest, drawn", float(counts.min()), least.deviation),
        new(row, "mean, drawn", float(counts.mean()), error),
        new(row, "largest, drawn", float(counts.max()), most.deviation),
    ]  # fmt: skip


def _timed(
    label: str, printed: dict[str, float], drawn: dict[str, DrawMeasurements]
) -> list[PaperCell]:
    """The scatter of the times is shown, and left out of the verdict: it says nothing of theirs."""
    cells = []
    for name, percent in printed.items():
        ratios = 100.0 * (drawn[name].seconds / drawn["WR"].seconds - 1.0)
        cell = judge(f"{label}, {name}", "percent over WR", percent, float(np.median(ratios)),
                     half_unit=0.005, reason=_reason(name))  # fmt: skip
        error = float(ratios.std(ddof=1) / np.sqrt(ratios.size))
        cells.append(replace(cell, error=error))
    return cells


def _reason(name: str) -> str:
    if name == "Poisson":
        return (
            "Times depend on machine and program: here a binomial number is drawn and then that "
            "many records, so the cost follows the batch and not n."
        )
    return "Times depend on machine and program."


def _reading(shares: Mapping[str, Sequence[float]], means: Sequence[PaperCell]) -> tuple[str, ...]:
    """``shares`` are distinct records over m by scheme, ``means`` the judged mean numbers."""
    matching = sum(cell.verdict == "matches" for cell in means)
    ow, ww = (
        f"{min(shares[name]):.0%} to {max(shares[name]):.0%}" for name in ("MUSTow", "MUSTww")
    )
    return (
        f"n·η rounds to the printed mean in {matching} of {len(means)} cases.",
        f"A draw of m touches {ow} of m distinct records with MUSTow and {ww} with MUSTww; for "
        "each record that is not touched, a gradient need not be computed.",
    )


ITEMS = (Item("table-6", "Table 6: distinct records and drawing times", run),)

"""Microseconds per draw: every scheme against what people use today, measured in the same run.

    python benchmarks/draw.py            a table
    python benchmarks/draw.py --json     one JSON object

Peers: numpy's ``Generator.choice``, ``torch.randperm`` and Opacus's Poisson sampler. A peer that is
not installed, or that needs more memory than is sensible at some n, is left out by name.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import mustdp as md

#: (n, b, m) of the four settings in the experiments of arXiv 2312.13389.
SETTINGS = ((300, 50, 30), (1000, 200, 100), (30_969, 500, 300), (60_000, 3000, 2000))
SIZES = (10**4, 10**6, 10**9)
REPEATS = 7
SECONDS_PER_REPEAT = 0.02
#: torch.randperm holds 8 bytes per record, Opacus draws one random number per record.
LARGEST_PEER = 10**7

Draw = Callable[[], object]


def microseconds(draw: Draw) -> float:
    """Median over repeats, each long enough for the clock."""
    calls = enough_calls(draw)
    return 1e6 * statistics.median(seconds(draw, calls) for _ in range(REPEATS))


def times_as_long(draw: Draw, other: Draw) -> float:
    """Median ratio over repeats that measure both in turn, so that a busy machine slows both."""
    calls, other_calls = enough_calls(draw), enough_calls(other)
    return statistics.median(
        seconds(draw, calls) / seconds(other, other_calls) for _ in range(2 * REPEATS + 1)
    )


def enough_calls(draw: Draw) -> int:
    draw()
    return max(1, math.ceil(SECONDS_PER_REPEAT / max(seconds(draw, 3), 1e-7)))


def seconds(draw: Draw, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        draw()
    return (time.perf_counter() - start) / calls


def schemes(n: int, b: int, m: int) -> Iterator[md.types.Scheme]:
    """Every scheme that fits these sizes."""
    yield md.poisson(n, m / n)
    yield md.wor(n, m)
    yield md.wr(n, m)
    if b <= n:
        yield md.must_ow(n, b, m)
    yield md.must_ww(n, b, m)
    if m <= b:
        yield md.must_wo(n, b, m)
    if m <= b <= n:
        yield md.must_oo(n, b, m)


def plain_with_replacement(n: int, m: int, rng: np.random.Generator) -> Draw:
    """The yardstick: m integers, returned as distinct indices with counts."""
    return lambda: np.unique(rng.integers(n, size=m), return_counts=True)


def peer_draws(n: int, m: int, rng: np.random.Generator) -> dict[str, Draw | str]:
    """Each peer's draw of (about) m of n records, or why it is left out."""
    draws: dict[str, Draw | str] = {
        "numpy choice without": lambda: rng.choice(n, m, replace=False),
        "numpy choice with": lambda: rng.choice(n, m, replace=True),
    }
    torch = imported("torch")
    sampler = imported("opacus.utils.uniform_sampler")
    too_large = f"left out at n = {n:g}: it works through all n records"
    if n > LARGEST_PEER:
        draws["torch randperm"] = draws["opacus poisson"] = too_large
        return draws
    draws["torch randperm"] = (
        (lambda: torch.randperm(n)[:m]) if torch is not None else "torch is not installed"
    )
    if sampler is None:
        draws["opacus poisson"] = "opacus is not installed"
    else:
        draws["opacus poisson"] = opacus_draw(sampler, n, m / n)
    return draws


def opacus_draw(module: Any, n: int, rate: float) -> Draw:
    """One batch of Opacus's sampler, the iterator's start not counted."""
    batches = iter(
        module.UniformWithReplacementSampler(num_samples=n, sample_rate=rate, steps=10**9)
    )
    return lambda: next(batches)


def imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def measure(rng: np.random.Generator, report: Callable[[str], None]) -> dict[str, Any]:
    """All figures, as plain values."""
    rows, peers, left_out = [], [], []
    for n in SIZES:
        for _, b, m in SETTINGS:
            report(f"n = {n:g}, b = {b}, m = {m}")
            for scheme in schemes(n, b, m):
                took = microseconds(partial(scheme.draw, rng))
                rows.append({"scheme": scheme.name, "n": n, "b": b, "m": m, "microseconds": took})
            for peer, draw in peer_draws(n, m, rng).items():
                if isinstance(draw, str):
                    left_out.append(f"{peer}: {draw}")
                else:
                    peers.append({"peer": peer, "n": n, "m": m, "microseconds": microseconds(draw)})
    report("ratios")
    return {
        "versions": versions(),
        "schemes": rows,
        "peers": peers,
        "left_out": sorted(set(left_out)),
        "ratios": ratios(rng),
        "more": more(rng),
    }


def ratios(rng: np.random.Generator) -> dict[str, Any]:
    """The figures we promise."""
    over: dict[str, dict[str, float]] = {"must_ow_over_wr": {}, "must_ww_over_wr": {}}
    for n, b, m in SETTINGS:
        label, plain = f"n={n} b={b} m={m}", plain_with_replacement(n, m, rng)
        for name, scheme in (("ow", md.must_ow(n, b, m)), ("ww", md.must_ww(n, b, m))):
            over[f"must_{name}_over_wr"][label] = times_as_long(partial(scheme.draw, rng), plain)
    opacus = peer_draws(10**7, 1000, rng)["opacus poisson"]
    speedup = None
    if not isinstance(opacus, str):
        speedup = times_as_long(opacus, partial(md.poisson(10**7, 1e-4).draw, rng))
    return {"poisson_speedup_over_opacus_at_1e7": speedup, **over}


def more(rng: np.random.Generator) -> dict[str, float]:
    """Microseconds of draws and streams that have no peer."""
    bag, huge = md.must_ow(10**8, 10**4, 10**8), md.must_ow(2 * 10**9, 3000, 2000)
    small = md.must_ow(300, 50, 30)
    stream = small.batches(seed=1)
    return {
        "bag of little bootstraps, n = m = 1e8, b = 1e4": microseconds(partial(bag.draw, rng)),
        "must-ow, n = 2e9, b = 3000, m = 2000": microseconds(partial(huge.draw, rng)),
        "must-ow, n = 300, b = 50, m = 30": microseconds(partial(small.draw, rng)),
        "the same from a stream": microseconds(partial(next, stream)),
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("mustdp", "numpy", "torch", "opacus"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def show(figures: dict[str, Any]) -> None:
    """Print the tables."""
    console = Console()
    headings = [f"n={n:g} m={m}" for n in SIZES for _, _, m in SETTINGS]
    table = Table("", *headings, title="Microseconds per draw")
    for kind, key in (("schemes", "scheme"), ("peers", "peer")):
        cells: dict[str, dict[str, str]] = {}
        for row in figures[kind]:
            heading = f"n={row['n']:g} m={row['m']}"
            cells.setdefault(row[key], {})[heading] = f"{row['microseconds']:,.0f}"
        for name, found in cells.items():
            table.add_row(name, *(found.get(heading, "-") for heading in headings))
        table.add_section()
    console.print(table)
    for line in figures["left_out"]:
        console.print(line)
    for name, took in figures["more"].items():
        console.print(f"{name}: {took:,.0f} microseconds")
    for name, value in figures["ratios"].items():
        if isinstance(value, dict):
            console.print(f"{name}: " + ", ".join(f"{x:.2f} ({k})" for k, x in value.items()))
        else:
            console.print(f"{name}: " + ("not measured" if value is None else f"{value:,.0f}"))
    console.print(", ".join(f"{name} {version}" for name, version in figures["versions"].items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON object and no table")
    arguments = parser.parse_args()

    def report(step: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{step}", end="", file=sys.stderr, flush=True)

    figures = measure(np.random.default_rng(2312), report)
    report("")
    if arguments.json:
        print(json.dumps(figures))
    else:
        show(figures)


if __name__ == "__main__":
    main()

"""Compare all schemes in the setting of arXiv 2312.13389: tables and a picture.

n = 1000 records, batches of m = 400, two-stage schemes through b = 500. For every scheme a first
table shows where one application takes the base point (epsilon, delta) by the paper's theorem, and
next to it what mustdp itself certifies for delta at the same epsilon'. A second one shows which
noise each scheme needs for the same guarantee after many applications.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

import mustdp as md
from mustdp.cli.output import readable
from mustdp.plots import aligned_profile_panels

N, B, M = 1000, 500, 400
EPSILON = 1.0
STEPS, TARGET, DELTA = 100, 2.0, 1e-5
SCHEMES = (
    md.poisson(N, M / N),
    md.wor(N, M),
    md.wr(N, M),
    md.must_ow(N, B, M),
    md.must_ww(N, B, M),
    md.must_wo(N, B, M),
    md.must_oo(N, B, M),
)


def comparison(mechanism: md.Gaussian | md.Laplace) -> Table:
    """One row per scheme; bounds are rounded to their safe side."""
    base = float(mechanism.delta(EPSILON)[0])
    table = _table(
        f"{mechanism.name} noise, shift {mechanism.shift:g}; "
        f"without subsampling (epsilon, delta) = ({EPSILON:g}, {readable(base)})",
        ("scheme", "eta", "distinct", "epsilon'", "delta'", "kind", "at most", "at least"),
    )
    for scheme in SCHEMES:
        row = md.amplify(scheme, mechanism, EPSILON)[0]
        step = md.one_step(scheme, mechanism, row.epsilon_prime)
        table.add_row(
            scheme.name,
            readable(scheme.eta),
            readable(scheme.expected_distinct),
            readable(row.epsilon_prime),
            readable(row.delta_prime, "up"),
            row.kind,
            readable(float(step.upper[0]), "up"),
            readable(float(step.lower[0]), "down"),
        )
    return table


def same_guarantee() -> Table:
    """The noise that each scheme needs after many applications."""
    table = _table(
        f"{STEPS} applications, all within epsilon = {TARGET:g} at delta = {DELTA:g}",
        ("scheme", "distinct", "noise multiplier", "epsilon at most", "at least"),
    )
    for row in md.compare(n=N, b=B, m=M, epsilon=TARGET, delta=DELTA, steps=STEPS):
        table.add_row(
            row.scheme.name,
            readable(row.expected_distinct),
            readable(row.noise_multiplier, "up", 4),
            readable(row.epsilon.upper, "up"),
            readable(row.epsilon.lower, "down"),
        )
    return table


def _table(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("scheme", "kind") else "right")
    return table


EXPLANATION = """\
eta       chance that a given record is in the batch; distinct = n * eta
delta'    the paper's theorem: a valid upper bound at epsilon', often loose
at most   mustdp's certificate at the same epsilon', for every pair of neighbours
at least  what one concrete pair of neighbours reaches; the truth is in between
Neighbours differ in one replaced record; for poisson, in one record more or less.
This is one application; a result released many times costs more:
"""
MANY = """\
Here neighbours differ in one replaced record for all schemes, poisson included.
Noise multiplier: noise scale divided by the bound on one record's contribution.
mustdp compare makes this table for any sizes."""


def main() -> None:
    """Print the tables, save the picture, say where it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder to write to")
    folder: Path = parser.parse_args().out
    console = Console(highlight=False)
    console.print(f"n = {N} records, b = {B}, m = {M}\n", style="bold")
    for mechanism in (md.gaussian(shift=0.25), md.gaussian(shift=1.0)):
        console.print(comparison(mechanism))
    console.print(EXPLANATION, markup=False, soft_wrap=True)
    with console.status("calibrating every scheme"):
        table = same_guarantee()
    console.print(table)
    console.print(MANY, markup=False, soft_wrap=True)
    folder.mkdir(parents=True, exist_ok=True)
    figure = aligned_profile_panels(N, B, M)
    console.print("\nThe aligned privacy profile of the paper's four schemes:")
    for name in ("aligned-profile.png", "aligned-profile.svg"):
        figure.savefig(folder / name, dpi=160)
        console.print(f"  {(folder / name).resolve()}", soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()

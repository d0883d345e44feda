"""The command lines that give the numbers of a report again."""

from __future__ import annotations

import shlex

from mustdp.report.findings import Findings


def commands(found: Findings, out: str) -> str:
    """Three lines: the page, its table, and the account of MUSTow by itself."""
    asked = found.question
    sizes = f"-n {asked.n} -b {asked.b} -m {asked.m}"
    relation = f"--relation {found.comparison.relation.option}"
    relation += "" if asked.group == 1 else f" --group {asked.group}"
    target = f"--steps {asked.steps} --delta {asked.delta!r}"
    noise = (
        f"--noise-multiplier {asked.noise_multiplier!r}"
        if asked.epsilon is None
        else f"--epsilon {asked.epsilon!r}"
    )
    own = f"--noise-multiplier {found.rows['must-ow'].noise_multiplier!r}"
    return "\n".join(
        (
            f"mustdp report {sizes} {target} {noise} {relation} --out {shlex.quote(out)}",
            f"mustdp compare {sizes} {target} {noise} {relation}",
            f"mustdp account --scheme must-ow {sizes} {target} {own} {relation}",
        )
    )

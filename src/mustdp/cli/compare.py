"""``mustdp compare``: every scheme side by side, at the same guarantee or at the same noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from mustdp.cli import output as words
from mustdp.cli.options import (
    ACCOUNTING,
    BOption,
    DeltaOption,
    GroupOption,
    JsonOption,
    MechanismOption,
    MOption,
    NoiseMultiplierOption,
    NOption,
    RunOptions,
    StepsOption,
    TargetOption,
    read_relation,
    stated,
)
from mustdp.cli.output import Answer, progress
from mustdp.cli.parameters import Panel, exactly_one, with_bundles
from mustdp.errors import InvalidParameter
from mustdp.execution.processes import Processes
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.formatting import as_stated, chance_drawn, noise_needed, readable
from mustdp.sampling.catalogue import NAMES

if TYPE_CHECKING:
    from mustdp.calibration.compare import Comparison

_accounting = Panel(
    ACCOUNTING,
    """
    --relation NAME  Which data sets are neighbours, for all schemes alike: replace-one (one record
                     is swapped; the default) or add-remove (one record more or less).
    """,
)
_compare = Panel(
    None,
    """
    --with-epochs     Rows for random allocation to n / m bins and for shuffling, with as many
                      batches. With --noise-multiplier and Gaussian noise they are there anyway.
    --without-epochs  No rows for epochs, which take a second or two.
    """,
)


@dataclass(frozen=True)
class ComparisonOptions:
    """Sizes, steps and relation of all schemes, and what is the same for them."""

    n: NOption = None
    b: BOption = None
    m: MOption = None
    steps: StepsOption = None
    relation: Annotated[Relation | None, _accounting("--relation", read_relation)] = None
    epsilon: TargetOption = None
    delta: DeltaOption = None
    noise_multiplier: NoiseMultiplierOption = None
    group: GroupOption = 1

    def read(self) -> dict[str, Any]:
        """The arguments of :func:`mustdp.compare`."""
        sizes = {"n": self.n, "b": self.b, "m": self.m}
        for name, size in sizes.items():
            if size is None:
                raise InvalidParameter(f"-{name} is missing: give -n, -b and -m")
        target = {"epsilon": self.epsilon, "noise_multiplier": self.noise_multiplier}
        exactly_one({"--epsilon": self.epsilon, "--noise-multiplier": self.noise_multiplier})
        return {
            **sizes,
            "steps": RunOptions(self.steps).count(),
            "delta": stated(self.delta, self.n),
            "relation": self.relation or Relation.REPLACE_ONE,
            "group": self.group,
            **{name: value for name, value in target.items() if value is not None},
        }


@with_bundles
def compare(
    options: ComparisonOptions,
    mechanism: MechanismOption = "gaussian",
    with_epochs: Annotated[bool, _compare("--with-epochs")] = False,
    without_epochs: Annotated[bool, _compare("--without-epochs")] = False,
    json: JsonOption = False,
) -> Answer:
    """Compare all schemes with batches of m (expected, for poisson) under one relation.

    Give --epsilon to see the noise that each scheme needs for the same guarantee, or
    --noise-multiplier to see what each guarantees at the same noise.

    Example: mustdp compare -n 10000 -b 500 -m 200 --steps 1000 --delta 1e-5 --epsilon 2
    """
    asked = options.read()
    if with_epochs and without_epochs:
        raise InvalidParameter("--with-epochs and --without-epochs exclude each other: give one")
    epochs = with_epochs if with_epochs or without_epochs else None

    with Processes(loads=["mustdp.calibration.compare"]) as several, progress() as move:
        import mustdp

        result = mustdp.compare(
            **asked, mechanism=mechanism, epochs=epochs, progress=move, spread=several.spread
        )
    return answer(result, asked, mechanism, json)


def answer(result: Comparison, asked: dict[str, Any], mechanism: str, as_json: bool) -> Answer:
    """Every scheme a row, as data and as a table."""
    relation = result.relation
    rows = [
        {
            "scheme": row.scheme.name,
            "eta": row.eta,
            "expected_distinct": row.expected_distinct,
            "noise_multiplier": row.noise_multiplier,
            "epsilon": words.two_sided(
                row.epsilon, f"for {row.scheme.name} at --delta {as_stated(result.delta)}"
            ),
            **words.origin(row.epsilon),
        }
        for row in (*result, *result.epochs)
    ]
    absent = [name for name in NAMES if name not in {row["scheme"] for row in rows}]
    data = {
        "n": asked["n"],
        "b": asked["b"],
        "m": asked["m"],
        "mechanism": mechanism,
        "relation": relation.option,
        **words.grouped(asked["group"]),
        "steps": result.steps,
        "delta": result.delta,
        **({"target_epsilon": asked["epsilon"]} if "epsilon" in asked else {}),
        "rows": rows,
        "left_out": absent,
    }
    same = "the same guarantee" if "epsilon" in asked else "the same noise"
    noise_shown = partial(noise_needed, digits=4) if "epsilon" in asked else as_stated
    notes = [
        "distinct: expected distinct records per step; noise: noise multiplier, the noise scale "
        "divided by the bound on one record's contribution.",
        words.upper_in_words("epsilon", relation, group=asked["group"]),
        "lower: attained by a concrete pair of data sets.",
    ]
    if absent:
        notes.append(
            f"Left out: {', '.join(absent)}, which cannot draw {asked['m']} without replacement."
        )
    return Answer(
        data,
        as_json=as_json,
        heading=f"{asked['n']} records, b = {asked['b']}, m = {asked['m']}; steps: {result.steps}, "
        f"delta {as_stated(result.delta)}, {mechanism} noise, relation {relation.option}; "
        f"at {same}",
        columns=("scheme", "eta", "distinct", "noise", "epsilon, lower", "epsilon, upper"),
        rows=tuple(
            (
                row.scheme.name,
                chance_drawn(row.eta),
                readable(row.expected_distinct, "nearest"),
                noise_shown(row.noise_multiplier),
                *words.ends(row.epsilon),
            )
            for row in (*result, *result.epochs)
        ),
        note="\n".join(notes),
    )

"""``mustdp compare``: every scheme side by side, at the same guarantee or at the same noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from mustdp.cli import words
from mustdp.cli.bundles import with_bundles
from mustdp.cli.numbers import number, one_of, whole
from mustdp.cli.options import (
    MECHANISMS,
    TAKES,
    BOption,
    JsonOption,
    MechanismOption,
    MOption,
    NoiseMultiplierOption,
    NOption,
)
from mustdp.cli.output import Answer, readable
from mustdp.cli.progress import progress
from mustdp.cli.targets import (
    RunOptions,
    exactly_one,
    read_delta,
    read_epsilon,
    target_option,
)
from mustdp.errors import InvalidParameter

if TYPE_CHECKING:
    from mustdp.calibration.compare import Comparison

EpsilonOption = Annotated[
    list[str] | None,
    target_option(
        "--epsilon",
        metavar="E",
        help="Compare the noise that each scheme needs for this epsilon, above 0.",
    ),
]
DeltaOption = Annotated[
    list[str] | None,
    target_option("--delta", metavar="D", help="At this delta, between 0 and 1."),
]


@with_bundles
def compare(
    run: RunOptions,
    n: NOption = None,
    b: BOption = None,
    m: MOption = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    mechanism: MechanismOption = "gaussian",
    noise_multiplier: NoiseMultiplierOption = None,
    json: JsonOption = False,
) -> Answer:
    """Compare all schemes with batches of m (expected, for poisson) under one relation.

    Give --epsilon to see the noise that each scheme needs for the same guarantee, or
    --noise-multiplier to see what each guarantees at the same noise. The relation is replace-one
    unless --relation says otherwise, for poisson too: under different relations nothing compares.

    Example: mustdp compare -n 10000 -b 500 -m 200 --steps 1000 --delta 1e-5 --epsilon 2
    """
    sizes = {}
    for name, text in (("n", n), ("b", b), ("m", m)):
        if text is None:
            raise InvalidParameter(f"-{name} is missing: compare takes -n, -b and -m")
        sizes[name] = whole(f"-{name}", text)
    exactly_one({"--epsilon": epsilon, "--noise-multiplier": noise_multiplier})
    asked: dict[str, Any] = {
        **sizes,
        "steps": run.count(),
        "delta": read_delta(delta or ()),
        "mechanism": one_of("--mechanism", mechanism, MECHANISMS),
        "relation": run.neighbours() or "replace_one",
    }
    if epsilon:
        asked["epsilon"] = read_epsilon(epsilon, target=True)
    else:
        asked["noise_multiplier"] = number("--noise-multiplier", str(noise_multiplier))

    import mustdp
    from mustdp.calibration.compare import schemes_of

    with progress(len(schemes_of(**sizes))) as begin:
        result = mustdp.compare(**asked, progress=begin)
    return _answer(result, asked, json)


def _answer(result: Comparison, asked: dict[str, Any], as_json: bool) -> Answer:
    relation = words.typed(result.relation)
    rows = [
        {
            "scheme": row.scheme.name,
            "eta": row.eta,
            "expected_distinct": row.expected_distinct,
            "noise_multiplier": row.noise_multiplier,
            "epsilon": words.two_sided(
                row.epsilon, f"for {row.scheme.name} at --delta {result.delta:g}"
            ),
            **words.origin(row.epsilon),
        }
        for row in result
    ]
    absent = [name for name in TAKES if name not in {row["scheme"] for row in rows}]
    data = {
        "n": asked["n"],
        "b": asked["b"],
        "m": asked["m"],
        "mechanism": asked["mechanism"],
        "relation": relation,
        "steps": result.steps,
        "delta": result.delta,
        **({"target_epsilon": asked["epsilon"]} if "epsilon" in asked else {}),
        "rows": rows,
        "left_out": absent,
    }
    if as_json:
        return Answer(data, as_json=True)
    same = "the same guarantee" if "epsilon" in asked else "the same noise"
    notes = [
        "Noise is the noise multiplier, the noise scale divided by the bound on one record's "
        "contribution. distinct: expected distinct records per step.",
        "epsilon, upper: certified, no pair of neighbouring data sets "
        f"({words.NEIGHBOURS[relation]}) has a larger epsilon. epsilon, lower: attained by a "
        "concrete pair.",
    ]
    if absent:
        notes.append(
            f"Left out: {', '.join(absent)}, which cannot draw {asked['m']} records without "
            "replacement at these sizes."
        )
    return Answer(
        data,
        as_json=False,
        heading=f"{asked['n']} records, b = {asked['b']}, m = {asked['m']}; steps: {result.steps}, "
        f"delta {result.delta:g}, {asked['mechanism']} noise, relation {relation}; at {same}",
        columns=("scheme", "eta", "distinct", "noise", "epsilon, lower", "epsilon, upper"),
        rows=tuple(
            (
                row.scheme.name,
                readable(row.eta),
                readable(row.expected_distinct),
                readable(row.noise_multiplier, "up", 4),
                readable(row.epsilon.lower, "down"),
                readable(row.epsilon.upper, "up"),
            )
            for row in result
        ),
        note="\n".join(notes),
    )

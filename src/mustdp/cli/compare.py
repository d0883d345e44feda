"""``mustdp compare``: every scheme side by side, at the same guarantee or at the same noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from mustdp.cli import words
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
    StepsOption,
    exactly_one,
    read_delta,
    read_epsilon,
    read_relation,
    read_steps,
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
RelationOption = Annotated[
    str,
    target_option(
        "--relation",
        metavar="NAME",
        help="Which data sets are neighbours, for all schemes alike: replace-one (one record is "
        "swapped) or add-remove (one record more or less).",
        show_default=True,
    ),
]


def compare(
    n: NOption = None,
    b: BOption = None,
    m: MOption = None,
    steps: StepsOption = None,
    relation: RelationOption = "replace-one",
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    mechanism: MechanismOption = "gaussian",
    noise_multiplier: NoiseMultiplierOption = None,
    json: JsonOption = False,
) -> Answer:
    """Compare all schemes with batches of m (expected, for poisson) under one relation.

    Give --epsilon to see the noise that each scheme needs for the same guarantee, or
    --noise-multiplier to see what each guarantees at the same noise.

    Example: mustdp compare -n 10000 -b 500 -m 200 --steps 1000 --delta 1e-5 --epsilon 2
    """
    asked = read_question(
        n, b, m, steps=steps, relation=relation, epsilon=epsilon, delta=delta,
        noise_multiplier=noise_multiplier, mechanism=mechanism,
    )  # fmt: skip

    import mustdp
    from mustdp.calibration.compare import schemes_of

    with progress(len(schemes_of(asked["n"], asked["b"], asked["m"]))) as begin:
        result = mustdp.compare(**asked, progress=lambda scheme, *_: begin(scheme))
    return answer(result, asked, json)


def read_question(
    n: str | None,
    b: str | None,
    m: str | None,
    *,
    steps: str | None,
    relation: str,
    epsilon: list[str] | None,
    delta: list[str] | None,
    noise_multiplier: str | None,
    mechanism: str = "gaussian",
) -> dict[str, Any]:
    """The arguments of :func:`mustdp.compare`, read from what was typed."""
    sizes = {}
    for name, text in (("n", n), ("b", b), ("m", m)):
        if text is None:
            raise InvalidParameter(f"-{name} is missing: give -n, -b and -m")
        sizes[name] = whole(f"-{name}", text)
    exactly_one({"--epsilon": epsilon, "--noise-multiplier": noise_multiplier})
    asked: dict[str, Any] = {
        **sizes,
        "steps": read_steps(steps),
        "delta": read_delta(delta or ()),
        "mechanism": one_of("--mechanism", mechanism, MECHANISMS),
        "relation": read_relation(relation),
    }
    if epsilon:
        asked["epsilon"] = read_epsilon(epsilon, target=True)
    else:
        asked["noise_multiplier"] = number("--noise-multiplier", str(noise_multiplier))
    return asked


def answer(result: Comparison, asked: dict[str, Any], as_json: bool) -> Answer:
    """Every scheme a row, as data and as a table."""
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
        "distinct: expected distinct records per step; noise: noise multiplier, the noise scale "
        "divided by the bound on one record's contribution.",
        f"upper: certified, no pair of neighbouring data sets ({words.NEIGHBOURS[relation]}) has a "
        "larger epsilon.",
        "lower: attained by a concrete pair of data sets.",
    ]
    if absent:
        notes.append(
            f"Left out: {', '.join(absent)}, which cannot draw {asked['m']} without replacement."
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
                words.multiplier_in_words(row.noise_multiplier, 4),
                readable(row.epsilon.lower, "down"),
                readable(row.epsilon.upper, "up"),
            )
            for row in result
        ),
        note="\n".join(notes),
    )

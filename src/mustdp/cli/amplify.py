"""``mustdp amplify``: what one application of a scheme does to (epsilon, delta)."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from mustdp.accounting.explanations import THEOREM
from mustdp.cli import output
from mustdp.cli.options import NoiseOptions, SchemeOptions
from mustdp.cli.output import Answer
from mustdp.cli.parameters import Panel, read_number, with_bundles
from mustdp.errors import InvalidParameter
from mustdp.numerics.formatting import as_stated, chance_drawn, readable

FIELDS = ("epsilon", "delta", "epsilon_prime", "delta_prime", "kind", "ratio", "difference")

_amplify = Panel(
    None,
    """
    --epsilon E  Required: base epsilon, at least 0; may be given several times.
    """,
)
EpsilonOption = Annotated[
    list[float] | None, _amplify("--epsilon", partial(read_number, at_least=0))
]


@with_bundles
def amplify(
    scheme: SchemeOptions,
    noise: NoiseOptions,
    epsilon: EpsilonOption = None,
) -> Answer:
    """Amplify base points (epsilon, delta) of a mechanism by the theorem of the MUST paper.

    One application of the mechanism to a random subsample. delta is the mechanism's own at epsilon;
    epsilon' and delta' hold for the subsampled mechanism. The kind is strong (neither grows),
    weak-1 (only delta grows), weak-2 (only epsilon grows) or dilution (both grow).

    Example: mustdp amplify --scheme must-ow -n 1000 -b 500 -m 400 --mechanism laplace --shift 0.25
    --epsilon 0.05 --epsilon 0.5
    """
    plan, mechanism = scheme.build(), noise.build()
    if not epsilon:
        raise InvalidParameter("--epsilon is missing: give at least one number >= 0")

    import mustdp

    result = mustdp.amplify(plan, mechanism, epsilon)
    data = {
        **output.begun(result.scheme, result.mechanism, result.relation, result.shift),
        "theorem": THEOREM,
        "rows": [{name: row[name] for name in FIELDS} for row in result],
    }
    rows = tuple(
        (
            as_stated(row.epsilon),
            readable(row.delta, "up"),
            readable(row.epsilon_prime, "up"),
            readable(row.delta_prime, "up"),
            row.kind,
            readable(row.ratio, "up"),
            readable(row.difference, "up"),
        )
        for row in result
    )
    return Answer(
        data,
        heading=f"{output.describe(result.scheme)}: eta = {chance_drawn(result.eta)}, "
        f"expected distinct records = {readable(result.scheme.expected_distinct, 'nearest')}",
        columns=("epsilon", "delta", "epsilon'", "delta'", "kind", "ratio", "difference"),
        rows=rows,
        note=f"{result.mechanism.name} noise, "
        f"{output.shift_in_words(result.mechanism, result.shift)}"
        f"relation {result.relation.option}; by {THEOREM}.",
    )

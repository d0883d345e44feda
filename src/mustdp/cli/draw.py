"""``mustdp draw``: one batch of a scheme."""

from __future__ import annotations

from typing import Annotated

from mustdp.cli.bundles import with_bundles
from mustdp.cli.numbers import read_natural
from mustdp.cli.options import JsonOption, SchemeOptions
from mustdp.cli.output import Answer
from mustdp.cli.typed import as_typed, option
from mustdp.errors import InvalidParameter

#: A batch is printed record by record; larger ones are for Python.
LARGEST_BATCH = 1_000_000

SeedOption = Annotated[
    int | None,
    option(
        "--seed",
        read_natural,
        metavar="INT",
        help="Draw reproducibly, for experiments only: privacy rests on a draw that nobody can "
        "repeat. Without it, the operating system's entropy is used.",
    ),
]


@with_bundles
def draw(scheme: SchemeOptions, seed: SeedOption = None, json: JsonOption = False) -> Answer:
    """Draw one batch: the indices of the distinct records (from 0) and how often each was drawn.

    Example: mustdp draw --scheme must-ow -n 10000 -b 118 -m 200
    """
    plan = scheme.build()
    if plan.expected_size > LARGEST_BATCH:
        sizes = {"--stages": scheme.stages, "--rate": scheme.rate, "-m": scheme.m}
        name, value = next((name, value) for name, value in sizes.items() if value is not None)
        raise InvalidParameter(
            f"{name} {as_typed(value)} means batches of about {plan.expected_size:.7g} draws, and "
            f"at most {LARGEST_BATCH} are printed; draw larger ones in Python"
        )

    import numpy as np

    batch = plan.draw(None if seed is None else np.random.default_rng(seed))
    indices, counts = batch.indices.tolist(), batch.counts.tolist()
    remark = ""
    if seed is not None:
        remark = (
            f"a draw with --seed {seed} is reproducible and therefore for experiments only; "
            "a private release needs a draw without it"
        )
    return Answer(
        {"indices": indices, "counts": counts},
        as_json=json,
        heading=f"{batch.size} draws, {batch.distinct} distinct records",
        columns=("index", "count"),
        rows=() if json else tuple((str(i), str(c)) for i, c in zip(indices, counts, strict=True)),
        remark=remark,
    )

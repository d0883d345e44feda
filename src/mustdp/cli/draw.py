"""``mustdp draw``: one batch of a scheme."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from mustdp.cli.bundles import with_bundles
from mustdp.cli.epochs import BinsOption, sampling
from mustdp.cli.numbers import read_natural
from mustdp.cli.options import JsonOption, SchemeOptions
from mustdp.cli.output import Answer
from mustdp.cli.typed import Panel, as_typed
from mustdp.errors import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mustdp.sampling.batch import Batch

#: A batch is printed record by record; larger ones are for Python.
LARGEST_BATCH = 1_000_000

_draw = Panel(
    None,
    """
    --seed INT  Draw reproducibly, for experiments only: privacy rests on a draw that nobody can
                repeat. Without it, the operating system's entropy is used.
    """,
)


@with_bundles
def draw(
    scheme: SchemeOptions,
    seed: Annotated[int | None, _draw("--seed", read_natural)] = None,
    bins: BinsOption = None,
    json: JsonOption = False,
) -> Answer:
    """Draw one batch: the indices of the distinct records (from 0) and how often each was drawn.

    Of --scheme allocation and shuffle, draw all batches of one epoch.

    Example: mustdp draw --scheme must-ow -n 10000 -b 118 -m 200
    """
    plan = sampling(scheme, bins)

    from mustdp.sampling.epochs import Epoch

    if isinstance(plan, Epoch) and plan.n > LARGEST_BATCH:
        raise InvalidParameter(
            f"-n {plan.n} records are drawn in an epoch, and at most {LARGEST_BATCH} are printed; "
            "draw larger ones in Python"
        )
    if not isinstance(plan, Epoch) and plan.expected_size > LARGEST_BATCH:
        sizes = {"--stages": scheme.stages, "--rate": scheme.rate, "-m": scheme.m}
        name, value = next((name, value) for name, value in sizes.items() if value is not None)
        raise InvalidParameter(
            f"{name} {as_typed(value)} means batches of about {plan.expected_size:.7g} draws, and "
            f"at most {LARGEST_BATCH} are printed; draw larger ones in Python"
        )

    import numpy as np

    rng = None if seed is None else np.random.default_rng(seed)
    if isinstance(plan, Epoch):
        shown = _epoch(plan.draw(rng), json)
    else:
        shown = _batch(plan.draw(rng), json)
    remark = (
        f"a draw with --seed {seed} is reproducible and therefore for experiments only; "
        "a private release needs a draw without it"
    )
    return replace(shown, remark="" if seed is None else remark)


def _batch(batch: Batch, as_json: bool) -> Answer:
    # A million rows of text are made for those alone who read them.
    indices, counts = batch.indices.tolist(), batch.counts.tolist()
    rows = zip(map(str, indices), map(str, counts), strict=True)
    return Answer(
        {"indices": indices, "counts": counts},
        as_json=as_json,
        heading=f"{batch.size} draws, {batch.distinct} distinct records",
        columns=("index", "count"),
        rows=() if as_json else tuple(rows),
    )


def _epoch(batches: Sequence[Batch], as_json: bool) -> Answer:
    """All batches of one epoch, the records of each."""
    records = [batch.indices.tolist() for batch in batches]
    rows = ((str(k), " ".join(map(str, batch))) for k, batch in enumerate(records))
    return Answer(
        {"batches": records},
        as_json=as_json,
        heading=f"one epoch, {len(records)} batches",
        columns=("batch", "records"),
        rows=() if as_json else tuple(rows),
    )

"""``mustdp draw``: one batch of a scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mustdp.cli.bundles import with_bundles
from mustdp.cli.epochs import BinsOption, sampling
from mustdp.cli.numbers import read_natural
from mustdp.cli.options import JsonOption, SchemeOptions
from mustdp.cli.output import Answer
from mustdp.cli.typed import Panel, as_typed
from mustdp.errors import InvalidParameter

if TYPE_CHECKING:
    from mustdp.sampling.epochs import Epoch

#: A batch is printed record by record; larger ones are for Python.
LARGEST_BATCH = 1_000_000

_draw = Panel(
    None,
    """
    --seed INT  Draw reproducibly, for experiments only: privacy rests on a draw that nobody can
                repeat. Without it, the operating system's entropy is used.
    """,
)
SeedOption = Annotated[int | None, _draw("--seed", read_natural)]


@with_bundles
def draw(
    scheme: SchemeOptions,
    seed: SeedOption = None,
    bins: BinsOption = None,
    json: JsonOption = False,
) -> Answer:
    """Draw one batch: the indices of the distinct records (from 0) and how often each was drawn.

    Of --scheme allocation and shuffle, draw all batches of one epoch.

    Example: mustdp draw --scheme must-ow -n 10000 -b 118 -m 200
    """
    plan = sampling(scheme, bins)

    from mustdp.sampling.epochs import Epoch

    if isinstance(plan, Epoch):
        return _epoch(plan, seed, json)
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
    return Answer(
        {"indices": indices, "counts": counts},
        as_json=json,
        heading=f"{batch.size} draws, {batch.distinct} distinct records",
        columns=("index", "count"),
        rows=() if json else tuple((str(i), str(c)) for i, c in zip(indices, counts, strict=True)),
        remark=_remark(seed),
    )


def _remark(seed: int | None) -> str:
    if seed is None:
        return ""
    return (
        f"a draw with --seed {seed} is reproducible and therefore for experiments only; "
        "a private release needs a draw without it"
    )


def _epoch(epoch: Epoch, seed: int | None, as_json: bool) -> Answer:
    """All batches of one epoch, the records of each."""
    if epoch.n > LARGEST_BATCH:
        raise InvalidParameter(
            f"-n {epoch.n} records are drawn in an epoch, and at most {LARGEST_BATCH} are printed; "
            "draw larger ones in Python"
        )

    import numpy as np

    drawn = epoch.draw(None if seed is None else np.random.default_rng(seed))
    records = [batch.indices.tolist() for batch in drawn]
    return Answer(
        {"batches": records},
        as_json=as_json,
        heading=f"one epoch, {epoch.bins} batches",
        columns=("batch", "records"),
        rows=()
        if as_json
        else tuple((str(k), " ".join(map(str, batch))) for k, batch in enumerate(records)),
        remark=_remark(seed),
    )

"""``mustdp draw``: one batch of a scheme."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from mustdp.cli.options import BinsOption, SchemeOptions, TimesOption, sampling
from mustdp.cli.output import Answer
from mustdp.cli.parameters import JsonOption, Panel, as_typed, read_natural, with_bundles
from mustdp.errors import InvalidParameter
from mustdp.numerics.formatting import readable

#: A batch is printed record by record; larger ones are for Python.
LARGEST_BATCH = 1_000_000

_draw = Panel(
    None,
    """
    --seed INT  Draw reproducibly, for experiments only: privacy rests on a draw that cannot be
                repeated. Without it, the operating system's entropy is used.
    """,
)


@with_bundles
def draw(
    scheme: SchemeOptions,
    seed: Annotated[int | None, _draw("--seed", read_natural)] = None,
    bins: BinsOption = None,
    times: TimesOption = None,
    json: JsonOption = False,
) -> Answer:
    """Draw one batch: the indices of the distinct records (from 0) and how often each was drawn.

    Of --scheme allocation and shuffle, draw all batches of one epoch.

    Example: mustdp draw --scheme must-ow -n 10000 -b 118 -m 200
    """
    plan = sampling(scheme, bins, times)

    from mustdp.sampling.epochs import Epoch

    entries = plan.n * (times or 1)
    if isinstance(plan, Epoch) and entries > LARGEST_BATCH:
        raise InvalidParameter(
            f"-n {plan.n} means that {entries} records are drawn in an epoch, and at most "
            f"{LARGEST_BATCH} are printed; draw larger ones in Python"
        )
    if not isinstance(plan, Epoch) and plan.expected_size > LARGEST_BATCH:
        sizes = {"--stages": scheme.stages, "--rate": scheme.rate, "-m": scheme.m}
        name, value = next((name, value) for name, value in sizes.items() if value is not None)
        raise InvalidParameter(
            f"{name} {as_typed(value)} means batches of about "
            f"{readable(plan.expected_size, 'nearest', 7)} draws, and at most {LARGEST_BATCH} are "
            "printed; draw larger ones in Python"
        )

    import numpy as np

    rng = None if seed is None else np.random.default_rng(seed)
    data: dict[str, Any]
    rows: Iterable[tuple[str, str]]
    if isinstance(plan, Epoch):
        records = [batch.indices.tolist() for batch in plan.draw(rng)]
        data, columns = {"batches": records}, ("batch", "records")
        heading = f"one epoch, {plan.bins} batches"
        rows = ((str(k), " ".join(map(str, batch))) for k, batch in enumerate(records))
    else:
        drawn = plan.draw(rng)
        indices, counts = drawn.indices.tolist(), drawn.counts.tolist()
        data, columns = {"indices": indices, "counts": counts}, ("index", "count")
        heading = f"{drawn.size} draws, {drawn.distinct} distinct records"
        rows = zip(map(str, indices), map(str, counts), strict=True)
    remark = (
        f"a draw with --seed {seed} is reproducible and therefore for experiments only; "
        "a private release needs a draw without it"
    )
    return Answer(
        data,
        as_json=json,
        heading=heading,
        columns=columns,
        # A million rows of text are made for those alone who read them.
        rows=() if json else tuple(rows),
        remark="" if seed is None else remark,
    )

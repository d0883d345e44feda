"""``mustdp compare``: every scheme side by side, at the same guarantee or at the same noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mustdp.cli.options import (
    ComparisonOptions,
    JsonOption,
    MechanismOption,
)
from mustdp.cli.output import Answer, comparison_answer, progress
from mustdp.cli.parameters import Panel, with_bundles
from mustdp.errors import InvalidParameter
from mustdp.execution.processes import WorkerPool

if TYPE_CHECKING:
    pass

_compare = Panel(
    None,
    """
    --with-epochs     Rows for random allocation to n / m bins and for shuffling, with as many
                      batches. With --noise-multiplier and Gaussian noise they are there anyway.
    --without-epochs  Instead of --with-epochs: no rows for epochs, which take a second or two.
    """,
)


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
    arguments = options.read()
    if with_epochs and without_epochs:
        raise InvalidParameter("--with-epochs and --without-epochs exclude each other: give one")
    epochs = with_epochs if with_epochs or without_epochs else None

    with WorkerPool(preload=["mustdp.calibration.compare"]) as pool, progress() as move:
        import mustdp

        result = mustdp.compare(
            **arguments, mechanism=mechanism, epochs=epochs, progress=move, mapper=pool.map_parallel
        )
    return comparison_answer(result, arguments, mechanism, json)

"""``mustdp compare``, ``report`` and ``explore``: schemes side by side, as a table or as a page."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mustdp.accounting.explanations import explain_upper
from mustdp.cli.options import ComparisonOptions, MechanismOption
from mustdp.cli.output import Answer, ends, group_as_data, origin_as_data, progress, show, two_sided
from mustdp.cli.parameters import JsonOption, Panel, read_integer, with_bundles, writable_file
from mustdp.errors import InvalidParameter
from mustdp.execution.processes import WorkerPool
from mustdp.numerics.formatting import as_stated, chance_drawn, noise_needed, readable
from mustdp.sampling.catalogue import COMPARED

if TYPE_CHECKING:
    from mustdp.calibration.compare import Comparison


_compare = Panel(
    None,
    """
    --with-epochs     Add rows for random allocation to n / m bins and for shuffling, with as many
                      batches. They are the default with --noise-multiplier and Gaussian noise.
    --without-epochs  Instead of --with-epochs: no rows for epochs, which take a second or two.
    --out FILE        The page to write; its folder must exist.
    """,
)


@with_bundles
def compare(
    options: ComparisonOptions,
    mechanism: MechanismOption = "gaussian",
    with_epochs: Annotated[bool, _compare("--with-epochs")] = False,
    without_epochs: Annotated[bool, _compare("--without-epochs")] = False,
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
            **arguments, mechanism=mechanism, epochs=epochs, progress=move,
            mapper=pool.map_parallel,
        )  # fmt: skip
    return _answer(result, arguments, mechanism)


@with_bundles
def report(
    options: ComparisonOptions,
    out: Annotated[str, _compare("--out")] = "mustdp-report.html",
) -> Answer:
    """Write a page that compares all schemes in tables, pictures and plain words.

    The page is one file that needs no network. Numbers are those of compare, with Gaussian noise;
    pictures show bounds against epsilon and steps, copies, other sizes and one application.

    Example: mustdp report -n 60000 -b 3000 -m 2000 --steps 300 --delta 1e-5 --epsilon 2
    """
    arguments = options.read()
    target = writable_file("--out", out)
    with WorkerPool(preload=["mustdp.reporting.report"]) as pool, progress() as move:
        from mustdp.reporting.pages import check_installed

        check_installed("a report page")

        from mustdp.reporting import findings, report

        found = findings.gather(findings.ReportQuestion(**arguments), move, pool.map_parallel)
        move("drawing")
        report.report_page(found, out, pool.map_parallel).write(target)
    written, size = str(target.resolve()), f"{target.stat().st_size / 1e6:.1f} MB"
    sentence = report.reading(found)[0].replace("**", "")
    notes = (sentence, f"The page ({size}): {written}")
    return _answer(found.comparison, arguments, "gaussian", notes, {"report": written})


def _answer(
    result: Comparison,
    arguments: dict[str, Any],
    mechanism: str,
    notes: tuple[str, ...] = (),
    more: dict[str, str] | None = None,
) -> Answer:
    """Every scheme a row, as data and as a table."""
    relation, group = result.relation, arguments["group"]
    n, b, m = (arguments[name] for name in "nbm")
    rows = [
        {
            "scheme": row.scheme.name,
            "eta": row.eta,
            "expected_distinct": row.expected_distinct,
            "noise_multiplier": row.noise_multiplier,
            "epsilon": two_sided(
                row.epsilon, f"for {row.scheme.name} at --delta {as_stated(result.delta)}"
            ),
            **origin_as_data(row.epsilon),
        }
        for row in (*result, *result.epochs)
    ]
    absent = [name for name in COMPARED if name not in {row["scheme"] for row in rows}]
    calibrated = "epsilon" in arguments
    noise_shown = partial(noise_needed, digits=4) if calibrated else as_stated
    left_out = f"Left out: {', '.join(absent)}, which cannot draw {m} without replacement."
    return Answer(
        {
            "n": n,
            "b": b,
            "m": m,
            "mechanism": mechanism,
            "relation": relation.option,
            **group_as_data(group),
            "steps": result.steps,
            "delta": result.delta,
            **({"target_epsilon": arguments["epsilon"]} if calibrated else {}),
            "rows": rows,
            "left_out": absent,
            **(more or {}),
        },
        heading=f"{n} records, b = {b}, m = {m}; steps: {result.steps}, delta "
        f"{as_stated(result.delta)}, {mechanism} noise, relation {relation.option}; at the same "
        f"{'guarantee' if calibrated else 'noise'}",
        columns=("scheme", "eta", "distinct", "noise", "epsilon, lower", "epsilon, upper"),
        rows=tuple(
            (
                row.scheme.name,
                chance_drawn(row.eta),
                readable(row.expected_distinct, "nearest"),
                noise_shown(row.noise_multiplier),
                *ends(row.epsilon),
            )
            for row in (*result, *result.epochs)
        ),
        note="\n".join(
            (
                "distinct: expected distinct records per step; noise: noise multiplier, the noise "
                "scale divided by the bound on one record's contribution.",
                explain_upper("epsilon", relation, group=group),
                "lower: attained by a concrete pair of data sets.",
                *([left_out] if absent else []),
                *notes,
            )
        ),
    )


# ``mustdp explore``: a page on this machine that answers while sliders move.


_explore = Panel(
    None,
    """
    --port INT  The port to listen on; a free one by default.
    --no-open   Print the address and open no browser.
    """,
)
StateArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[ADDRESS]",
        help="A state to open, as copied with the page's Copy address.",
        show_default=False,
    ),
]


@with_bundles
def explore(
    state: StateArgument = None,
    port: Annotated[int | None, _explore("--port", partial(read_integer, high=65535))] = None,
    no_open: Annotated[bool, _explore("--no-open")] = False,
    json: JsonOption = False,
) -> None:
    """Explore all schemes in the browser, on this machine only, until Ctrl-C.

    The page compares the schemes as compare and risk do while sizes, steps and targets change. It
    listens on 127.0.0.1 under an address with a random token, and loads nothing from elsewhere.

    Example: mustdp explore --port 8765 --no-open
    """
    from urllib.parse import parse_qsl

    from mustdp.reporting.explorer import Explorer, address_of, in_browser, read_state

    fields = dict(parse_qsl((state or "").rpartition("?")[2], keep_blank_values=True))
    if state is not None and not fields:
        raise InvalidParameter.refusing("ADDRESS", "must be what Copy address gives", state[:40])
    question = read_state(fields)
    try:
        explorer = Explorer(port or 0)
    except OSError as problem:
        raise InvalidParameter.refusing(
            "--port", "must be a port that is free", f"{port}: {problem.strerror}"
        ) from None
    address = explorer.address + (f"?{address_of(question)}" if fields else "")
    # Some browsers may not read files of others.
    by_hand = "" if no_open else " If the browser does not show it, open it by hand."
    show(
        Answer(
            {"address": address, "port": explorer.port},
            as_json=json,
            heading=f"The explorer: {address}",
            note="Anyone on this machine who has this address can use it."
            f"{by_hand} Ctrl-C ends it.",
        )
    )
    try:
        with nullcontext() if no_open else in_browser(address):
            explorer.serve()
    except KeyboardInterrupt:
        if not explorer.free(patience=1.0):
            # Threads that still compute cannot be told to end, and nothing is lost with them.
            sys.stdout.flush()
            os._exit(0)

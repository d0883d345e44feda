"""``mustdp explore``: a page on this machine that answers while sliders move."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from functools import partial
from typing import Annotated

import typer

from mustdp.cli.output import Answer, show
from mustdp.cli.parameters import JsonOption, Panel, read_integer, with_bundles
from mustdp.errors import InvalidParameter

_explore = Panel(
    None,
    """
    --port P   The port to listen on; a free one by default.
    --no-open  Print the address and open no browser.
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

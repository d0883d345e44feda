"""A process that wants into a Dask cluster without its key; started by a test as a script.

It is given the addresses of scheduler and workers and the ports they listen on, tries every way in
that comes to mind, and prints what it got: nothing, if all is well.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from importlib import import_module
from typing import Any

distributed: Any = import_module("distributed")

#: Pages that Dask's servers show when they are allowed to.
PAGES = ("", "status", "health", "metrics", "json/identity.json", "info/main/workers.html",
         "info/main/logs.html", "api/v1/get_workers", "individual-task-stream")  # fmt: skip


def run_something(address: str, security: Any) -> Any:
    """Ask a scheduler to run code, as any client would."""
    options: dict[str, Any] = {"timeout": "1s", "set_as_default": False}
    if security is not None:
        options["security"] = security
    with distributed.Client(address, **options) as client:
        return client.submit(int, 1).result(timeout=1)


async def call(address: str, security: Any) -> Any:
    """Ask a scheduler or a worker who it is, past any client."""
    given = (security or distributed.Security()).get_connection_args("client")
    remote = distributed.core.rpc(address, timeout=1, connection_args=given)
    try:
        return await remote.identity()
    finally:
        await remote.close_rpc()


def got_in(addresses: list[str], ports: list[int]) -> list[str]:
    """What could be had, from any address in any way."""
    logging.disable(logging.CRITICAL)
    found = []
    for address in addresses:
        for scheme in ("tls", "tcp"):
            tried = f"{scheme}://{address.partition('://')[2]}"
            for security in (None, distributed.Security.temporary()):
                with suppress(Exception):
                    found.append(f"call {tried}: {asyncio.run(call(tried, security))}")
                if address == addresses[0]:  # the scheduler
                    with suppress(Exception):
                        found.append(f"run {tried}: {run_something(tried, security)}")
    for port in ports:
        for page in PAGES:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=2) as answer:
                    found.append(f"page {port}/{page}: {answer.read(200)!r}")
            except (urllib.error.URLError, OSError, ValueError):
                continue
    return found


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(got_in(given["addresses"], given["ports"])))

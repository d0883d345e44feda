"""Opens the explorer in the browser without telling its token to others on the same machine.

The words of a command can be read by everybody who lists processes, and a browser is a command. So
it is given a file that only its owner can read and that leads on to the address.
"""

from __future__ import annotations

import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from mustdp.files.replacing import PRIVATE, replace_file

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>mustdp explorer</title>
<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">
<meta http-equiv="refresh" content="0;url={address}"></head>
<body><p><a href="{address}">The explorer</a></p></body></html>
"""


@contextmanager
def in_browser(address: str) -> Iterator[None]:
    """Open the address; the file that leads there is removed at the end.

    Where no file can be written nothing is opened: the address has been printed.
    """
    with ExitStack() as kept:
        with suppress(OSError):
            made = TemporaryDirectory(prefix="mustdp-", ignore_cleanup_errors=True)
            path = Path(kept.enter_context(made)) / "explorer.html"
            replace_file(path, _PAGE.format(address=escape(address)).encode(), mode=PRIVATE)
            webbrowser.open(path.as_uri())
        yield

"""The tables of docs/interop.md and docs/deployments.md, computed and written.

``python docs/accountants.py`` brings those up to date whose libraries are installed, and leaves the
others; ``python docs/accountants.py NAME ...`` only the tables of these names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from mustdp.numerics.formatting import as_stated, readable

DOCS = Path(__file__).parent

Rows = Iterable[tuple[str, ...]]


def deployments() -> Rows:
    """Published deployments beside ours."""
    from mustdp.interop.deployments import deployments as shipped

    yield "deployment", "release", "delta", "published", "attained", "certified", "what differs"
    for name, one in shipped().items():
        for release in one.releases:
            found = release.epsilon()
            published = "" if release.published is None else as_stated(release.published)
            yield (
                f"`{name}`",
                release.name,
                "" if release.delta is None else as_stated(release.delta),
                published,
                readable(found.lower, "down", 4),
                readable(found.upper, "up", 4),
                release.differs,
            )


#: Page, and the function that makes the table, by the table's name.
TABLES: dict[str, tuple[str, Callable[[], Rows]]] = {
    "deployments": ("deployments.md", deployments),
}


def written(text: str, name: str, rows: Rows) -> str:
    """A page with one of its tables anew."""
    head, *body = rows
    lines = ["| " + " | ".join(row) + " |" for row in (head, *body)]
    table = "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])
    begin, end = f"<!-- table: {name} -->\n", "<!-- end -->"
    if text.count(begin) != 1:
        raise SystemExit(f"the page must have one table called {name}")
    before, _, rest = text.partition(begin)
    return f"{before}{begin}{table}\n{end}{rest.partition(end)[2]}"


def main(names: list[str]) -> None:
    """Write the tables of these names, or all."""
    for name, (page, rows) in TABLES.items():
        if names and name not in names:
            continue
        path = DOCS / page
        path.write_text(written(path.read_text(encoding="utf-8"), name, rows()), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

"""The directive ``registered``: a table of mechanisms, their options, schemes or statistics.

The rows come from the registries when the site is built, so that a new one needs no entry here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from mustdp.estimation.statistics import statistic
from mustdp.mechanisms.registry import arguments
from mustdp.mechanisms.registry import mechanisms as registered_mechanisms
from mustdp.sampling.catalogue import CATALOGUE, EPOCHS, SIZES

Row = tuple[str, ...]


def mechanisms() -> Iterator[Row]:
    """Every mechanism."""
    yield "mechanism", "what it is", "options", "``calibrate`` finds"
    for one in registered_mechanisms().values():
        found = "" if one.searched is None else f"``{arguments()[one.searched].option}``"
        yield f"``{one.name}``", one.summary, _code(one.takes()), found


def noise_options() -> Iterator[Row]:
    """Every option of every mechanism."""
    yield "option", "what it is"
    for one in arguments().values():
        yield f"``{one.option} {one.metavar}``", _code(one.help)


def schemes() -> Iterator[Row]:
    """Every scheme and every kind of epoch."""
    flags = {name: f"``{size.flag}``" for name, size in SIZES.items()}
    flags["bins"] = "``--bins`` or ``-m``"
    yield "scheme", "what it is", "options"
    for one in (*CATALOGUE, *EPOCHS.values()):
        yield f"``{one.name}``", one.summary, ", ".join(flags[size] for size in one.sizes)


def statistics() -> Iterator[Row]:
    """Every statistic that has a name on the command line."""
    yield "statistic", "what it is", "columns", "releases", "bootstraps"
    for name, one in statistic.registered().items():
        if one.usage is not None:
            columns = f"{one.fewest}" + (" or more" if one.most is None else "")
            runners = ("yes" if on else "" for on in (one.for_release, one.for_bootstrap))
            yield f"``{one.usage or name}``", one.about, columns, *runners


#: What can be listed.
LISTS: dict[str, Callable[[], Iterator[Row]]] = {
    "mechanisms": mechanisms,
    "noise-options": noise_options,
    "schemes": schemes,
    "statistics": statistics,
}


def _code(words: str) -> str:
    return re.sub(r"--[a-z-]+", lambda found: f"``{found[0]}``", words)


class Registered(SphinxDirective):
    """A table of what is registered."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table."""
        self.env.note_reread()  # the registries may have changed, which the page does not show
        lines = [".. list-table::", "   :header-rows: 1", ""]
        for row in LISTS[self.arguments[0]]():
            lines += [f"   {'  ' if k else '* '}- {cell}" for k, cell in enumerate(row)]
        holder = nodes.Element()
        self.state.nested_parse(StringList(lines, source="registered"), 0, holder)
        return holder.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("registered", Registered)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""The directive ``public-names``: every public name once, read from ``mustdp/__init__.pyi``.

Names are grouped by the room they live in. What a docstring or a signature calls by the name of its
module is linked to the public name.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from itertools import groupby
from types import ModuleType

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.autodoc.mock import mock
from sphinx.util.docutils import SphinxDirective

import mustdp

#: Rooms in the order in which people need them; others follow under their own names.
TITLES = {
    "sampling": "Sampling schemes",
    "mechanisms": "Noise",
    "accounting": "Accounting",
    "calibration": "Calibration",
    "amplification": "One application",
    "resampling": "Private resampling",
    "releasing": "Releases",
    "training": "Training",
    "ledger": "Ledgers",
    "auditing": "Auditing",
    "plots": "Pictures",
    "randomness": "Randomness",
    "progress": "Progress",
    "errors": "Errors",
    "version": "Version",
}


#: Bases whose members say how a statistic is released, which nobody has to call.
_INSIDE = {
    ("mustdp.estimation.statistics.statistic", "Statistic"),
    ("mustdp.estimation.statistics.moments", "InTwoForms"),
}


def rooms() -> dict[str, list[str]]:
    """The public names of every room, each once."""
    homes = mustdp._homes()
    room_of = {name: (*homes[name][0].split("."), homes[name][1])[1] for name in homes}
    order = [*TITLES, *sorted({*room_of.values()} - {*TITLES})]
    names = sorted(homes, key=lambda name: (order.index(room_of[name]), name.lower(), name))
    return {room: list(found) for room, found in groupby(names, room_of.__getitem__)}


def loaded(missing: list[str]) -> dict[str, object]:
    """What the public names stand for, with shapes in the place of ``missing`` packages.

    What needs none of them is loaded before: scipy would take the shape of torch for torch.
    """
    values: dict[str, object] = {}
    for name in dir(mustdp):
        with suppress(mustdp.MissingExtra):
            values[name] = getattr(mustdp, name)
    with mock(missing):
        return {name: getattr(mustdp, name) for name in dir(mustdp)} | values


def described(name: str, value: object) -> list[str]:
    """The reStructuredText that documents one name."""
    address = f"mustdp.{name}"
    if isinstance(value, ModuleType):
        first, *_ = (inspect.getdoc(value) or "").split("\n\n")
        lines = [f".. py:data:: {address}", "", f"   {first}", ""]
        for own in value.__all__:
            lines += described(f"{name}.{own}", getattr(value, own))
        return lines
    if inspect.isclass(value):
        kind = "exception" if issubclass(value, BaseException) else "class"
        options = ["   :members:"]
        options += inherited(value)
        return [f".. auto{kind}:: {address}", *options, ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {address}", ""]
    shown = repr(value) if isinstance(value, str) or not value.__doc__ else str(value)
    return [f".. py:data:: {address}", f"   :value: {shown}", ""]


def inherited(value: type) -> list[str]:
    """The options that show public bases, or the members of those that are not public."""
    public = {*mustdp._homes().values(), *_INSIDE}
    above = value.__mro__[1:]
    hidden = [
        place
        for place, one in enumerate(above)
        if one.__module__.startswith("mustdp") and (one.__module__, one.__name__) not in public
    ]
    if not hidden:
        return ["   :show-inheritance:"] if value.__bases__ != (object,) else []
    beyond = ", ".join(one.__name__ for one in above[hidden[-1] + 1 :])
    return [f"   :inherited-members: {beyond}"]


class PublicNames(SphinxDirective):
    """A section for every room, with what its public names are for."""

    def run(self) -> list[nodes.Node]:
        """Sections for the page."""
        values = loaded(self.config.autodoc_mock_imports)
        sections: list[nodes.Node] = []
        for room, names in rooms().items():
            title = TITLES.get(room, room)
            section = nodes.section(ids=[nodes.make_id(f"api-{room}")], names=[title.lower()])
            section += nodes.title(text=title)
            lines = [line for name in names for line in described(name, values[name])]
            self.state.nested_parse(StringList(lines, source="public-names"), 0, section)
            sections.append(section)
        return sections


def by_public_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.TextElement
) -> nodes.Element | None:
    """A reference to a name in its room, as one to the public name."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    public = {f"{home}.{own}": name for name, (home, own) in mustdp._homes().items()}
    head, _, member = target.rpartition(".")
    found = public.get(target) or (f"{public[head]}.{member}" if head in public else None)
    if found is None:
        return None
    domain = env.domains.python_domain
    return domain.resolve_xref(
        env, node["refdoc"], app.builder, "obj", f"mustdp.{found}", node, shown
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("public-names", PublicNames)
    app.connect("missing-reference", by_public_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

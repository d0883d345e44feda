"""The directive ``public-names``: every public name once, read from the ``.pyi`` files.

Names are grouped by the package they live in. What a docstring or a signature calls by the name of
its module is linked to the public name.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from types import ModuleType

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.autodoc.mock import mock
from sphinx.util.docutils import SphinxDirective

import mustdp
from mustdp.errors import MissingExtra
from mustdp.lazy import listed_names

#: Packages in the order in which people need them; others follow under their own names.
TITLES = {
    "sampling": "Sampling schemes",
    "mechanisms": "Noise",
    "accounting": "Accounting",
    "calibration": "Calibration",
    "estimation": "Releases and the bootstrap",
    "data": "Reading data",
    "training": "Training",
    "ledger": "Ledgers",
    "auditing": "Auditing",
    "reporting": "Pictures",
    "randomness": "Randomness",
    "progress": "Progress",
    "errors": "Errors",
    "limits": "Warnings",
    "interop": "Other libraries",
    "reproduction": "The MUST paper",
    "version": "Version",
}
#: Modules that list public names, and what their names are called after ``mustdp.``.
LISTS = {
    "__init__.pyi": "",
    "types.pyi": "types.",
    "calibration/__init__.pyi": "calibration.",
    "estimation/__init__.pyi": "estimation.",
    "data/__init__.pyi": "data.",
    "training/__init__.pyi": "training.",
    "interop/__init__.pyi": "interop.",
    "reproduction/__init__.pyi": "reproduction.",
}


#: Bases whose members say how a statistic is released, which users need not call.
_INSIDE = {
    ("mustdp.estimation.statistics.statistic", "Statistic"),
    ("mustdp.estimation.statistics.moments", "InTwoForms"),
    ("mustdp.estimation.statistics.moments", "MomentStatistic"),
}


def homes() -> dict[str, tuple[str, str]]:
    """Module and name behind every public name, as in ``types.Account``."""
    above = Path(mustdp.__file__).parent
    return {
        f"{before}{name}": home
        for listed, before in LISTS.items()
        for name, home in listed_names(above / listed).items()
        if f"{name}." not in LISTS.values()
    }


def packages() -> dict[str, list[str]]:
    """The public names of every package, each once."""
    package_of = {
        name: "reproduction" if name.startswith("reproduction.") else module.split(".")[1]
        for name, (module, _) in homes().items()
    }
    order = [*TITLES, *sorted({*package_of.values()} - {*TITLES})]

    def place(name: str) -> tuple[int, bool, str, str]:
        return order.index(package_of[name]), "." in name, name.lower(), name

    names = sorted(package_of, key=place)
    return {package: list(found) for package, found in groupby(names, package_of.__getitem__)}


def loaded(missing: list[str]) -> dict[str, object]:
    """What the public names stand for, with shapes in the place of ``missing`` packages.

    What needs none of them is loaded before: scipy would take the shape of torch for torch.
    """
    values: dict[str, object] = {}
    for name in homes():
        with suppress(MissingExtra):
            values[name] = attrgetter(name)(mustdp)
    with mock(missing):
        return {name: attrgetter(name)(mustdp) for name in homes()} | values


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
    public = {*homes().values(), *_INSIDE}
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
    """A section for every package, with what its public names are for."""

    def run(self) -> list[nodes.Node]:
        """Sections for the page."""
        values = loaded(self.config.autodoc_mock_imports)
        sections: list[nodes.Node] = []
        for package, names in packages().items():
            title = TITLES.get(package, package)
            section = nodes.section(ids=[nodes.make_id(f"api-{package}")], names=[title.lower()])
            section += nodes.title(text=title)
            lines = [line for name in names for line in described(name, values[name])]
            self.state.nested_parse(StringList(lines, source="public-names"), 0, section)
            sections.append(section)
        return sections


def by_public_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.TextElement
) -> nodes.Element | None:
    """A reference to a name in its package, as one to the public name."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    public = {f"{home}.{own}": name for name, (home, own) in homes().items()}
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

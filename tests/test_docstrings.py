"""Docstrings of public names list what is taken and given, as the signatures have it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from operator import attrgetter
from typing import Any, Protocol

import pytest

import mustdp
from mustdp import plot as plots
from mustdp.types import LedgerFile, MissingExtra

#: What is looked at: the package, and what is wrong here on purpose.
OURS = ("mustdp", __name__)
#: Set by scikit-learn itself.
FOREIGN = {"n_features_in_"}
TAKEN, GIVEN = ("Parameters", "Attributes"), ("Returns", "Yields")


def sections(docstring: str | None) -> dict[str, list[str]]:
    """The names in every underlined section; ``a, b : int`` has two of them."""
    found: dict[str, list[str]] = {}
    lines = inspect.cleandoc(docstring or "").splitlines()
    names: list[str] = []
    for line, after in zip(lines, [*lines[1:], ""], strict=False):
        if line and after == "-" * len(line):
            names = found.setdefault(line, [])
        elif line and not line.startswith((" ", "-")):
            names += line.split(" : ")[0].split(", ")
    return found


def parameters(called: Callable[..., Any], docstring: str | None, others: str = "") -> list[str]:
    """What is wrong with a list of parameters; ``others`` are docstrings that it refers to."""
    taken = [
        str(one.replace(annotation=one.empty, default=one.empty))  # with its stars
        for one in inspect.signature(called).parameters.values()
        if one.name not in ("self", "cls")
    ]
    text = f"{inspect.cleandoc(docstring or '')}\n\n{others}"
    listed = [name for title in TAKEN for name in sections(text).get(title, ())]
    wrong = [f"{name} is not documented" for name in taken if name not in listed]
    unknown = (name for name in sections(docstring).get("Parameters", ()) if name not in taken)
    return wrong + [f"there is no {name}" for name in unknown] + defaults(called, text)


def defaults(called: Callable[..., Any], docstring: str | None) -> list[str]:
    """Defaults that are another value in the signature; what is no plain value is passed over."""
    wrong, text = [], inspect.cleandoc(docstring or "")
    first = dict(reversed(re.findall(r"^(\w+) : (.+)$", text, re.MULTILINE)))
    for name, kind in first.items():
        value = kind.partition("default=")[2]
        one = inspect.signature(called).parameters.get(name)
        with suppress(SyntaxError, ValueError):
            if one is not None and one.default != ast.literal_eval(value):
                wrong.append(f"{name} is not {value} by default")
    return wrong


def returns(called: Callable[..., Any], docstring: str | None) -> list[str]:
    """What is wrong with what is said to be returned."""
    nothing = inspect.signature(called).return_annotation in (None, "None")
    if any(title in sections(docstring) for title in GIVEN):
        return ["nothing is returned"] if nothing and docstring == called.__doc__ else []
    return [] if nothing else ["Returns is missing"]


def attributes(described: type) -> list[str]:
    """Attributes that are documented and not there."""
    own = [one for one in described.__mro__ if one.__module__.startswith(OURS)]
    there = {*dir(described), *FOREIGN}
    for one in own:
        there |= {*inspect.get_annotations(one)}
        there |= {*re.findall(r"\bself\.(\w+)", inspect.getsource(one))}
    said = sections(described.__doc__).get("Attributes", [])
    return [f"there is no {name}" for name in said if name not in there]


def methods(described: type) -> Iterator[tuple[str, Callable[..., Any], str | None]]:
    """Public methods with the docstring that documents them: their own, or that of a base.

    Those of a statistic say how it is released: its runners call them, users do not.
    """
    if described.__module__.startswith("mustdp.estimation.statistics."):
        return
    for name in dir(described):
        value = inspect.getattr_static(described, name)
        plain = getattr(value, "__func__", value)
        home = getattr(plain, "__module__", None) or ""
        if name.startswith("_") or not inspect.isfunction(plain) or not home.startswith(OURS):
            continue
        bases = [one.__dict__[name] for one in described.__mro__ if name in one.__dict__]
        docs = [getattr(one, "__func__", one).__doc__ for one in bases]
        yield name, plain, next((doc for doc in docs if sections(doc)), docs[0])


def problems(public: Any) -> list[str]:
    """Everything that is wrong with the docstring of a function, or of a class and its methods."""
    if not inspect.isclass(public):
        others = referred(public)
        elsewhere = "what is returned" in public.__doc__ and sections(others).keys() & {*GIVEN}
        given = [] if elsewhere else returns(public, public.__doc__)
        return parameters(public, public.__doc__, others) + given
    wrong = attributes(public)
    if Protocol in public.__bases__:
        wrong += parameters(public.__call__, public.__doc__)
    elif not issubclass(public, Enum | Exception) or "__init__" in public.__dict__:
        wrong += parameters(public, public.__doc__, referred(public))
    return wrong + of_methods(public)


def referred(public: Any) -> str:
    """The docstrings of the functions and base classes to which one refers for what they share."""
    kinds = "class|func|meth"
    named = re.findall(rf"\bare\s+those\s+of\s+:(?:{kinds}):`([\w.]+)`", public.__doc__ or "")
    bases = {one.__name__: one for one in getattr(public, "__mro__", ())}
    others = [bases.get(name) or attrgetter(full_name(name))(mustdp) for name in named]
    return "\n\n".join(inspect.cleandoc(one.__doc__ or "") for one in others)


def full_name(name: str) -> str:
    """Where a public name, or a method of a public class, is found."""
    described, _, method = name.rpartition(".")
    return FULL_NAMES.get(name) or f"{FULL_NAMES[described]}.{method}"


def of_methods(described: type) -> list[str]:
    """What is wrong with the docstrings of a class's public methods."""
    wrong = []
    for name, plain, docstring in methods(described):
        others = referred(plain) if docstring == plain.__doc__ else ""
        elsewhere = "what is returned" in (docstring or "") and sections(others).keys() & {*GIVEN}
        found = parameters(plain, docstring, others)
        found += [] if elsewhere else returns(plain, docstring)
        wrong += [f"{name}: {one}" for one in found]
    return wrong


def bridges() -> dict[str, Any]:
    """The bridges whose libraries are installed."""
    found = {}
    for name in dir(mustdp.interop):
        with suppress(MissingExtra):
            found[name] = getattr(mustdp.interop, name)
    return found


#: Modules with public names of their own.
SPACES = ("types", "calibration", "estimation", "data", "training", "reproduction")
NAMES = [
    *dir(mustdp),
    *(f"plot.{name}" for name in plots.__all__),
    *(f"{space}.{name}" for space in SPACES for name in dir(getattr(mustdp, space))),
    *(
        f"interop.{module}.{name}"
        for module, bridge in bridges().items()
        for name in bridge.__all__
    ),
]
#: Public names as docstrings write them: as a whole, or the last part alone.
FULL_NAMES = {short: name for name in NAMES for short in (name, name.rpartition(".")[2])}
#: The name of a type, a version, modules, two themes.
NOT_CALLED = {
    "types.Plan", "__version__", "plot", "interop", *SPACES, "plot.LIGHT", "plot.DARK",
}  # fmt: skip


#: Made by ``Ledger.open``, which says what it takes.
NOT_CALLED.add("types.LedgerFile")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_CALLED])
def test_docstrings_say_what_signatures_do(name: str) -> None:
    assert problems(attrgetter(name)(mustdp)) == []


def test_so_do_those_of_an_open_ledger() -> None:
    """It is made by ``Ledger.open``, which says what it takes."""
    assert of_methods(LedgerFile) == []


class Wrong:
    """A class whose docstrings have drifted away.

    Parameters
    ----------
    kept, gone : int
        One is taken, one is not.

    Attributes
    ----------
    missing : int
        Never set.
    """

    def __init__(self, kept: int, new: int) -> None:
        self.kept, self.new = kept, new

    def told(self, of: int = 1, *more: int) -> int:
        """Parameters alone.

        Parameters
        ----------
        of : int, default=2
            Something.
        """
        return self.kept + of + sum(more)

    def silent(self) -> None:
        """What is returned is said.

        Returns
        -------
        int
            It is not.
        """


class Drawing:
    """A class whose method refers to another's for what they share."""

    def plot(self, label: str | None = None, other: int = 1) -> object:
        """The axes, and what is returned, are those of :meth:`ReleaseResult.plot`.

        Parameters
        ----------
        label : str, default=None
            One of its own.
        """
        return label, other


def referring(n: int, m: int = 3, other: int = 1) -> int:
    """The parameters are those of :func:`wor`, and ``m`` is 2 by default.

    Parameters
    ----------
    m : int, default=2
        Not so.
    """
    return n + m + other


def test_what_is_referred_to_is_compared_too() -> None:
    assert problems(referring) == [
        "other is not documented",
        "m is not 2 by default",
        "Returns is missing",
    ]
    assert problems(Drawing) == ["plot: other is not documented"]


def test_docstrings_that_have_drifted_are_found() -> None:
    assert problems(Wrong) == [
        "there is no missing",
        "new is not documented",
        "there is no gone",
        "silent: nothing is returned",
        "told: *more is not documented",
        "told: of is not 2 by default",
        "told: Returns is missing",
    ]

"""The mechanisms that have a name: their arguments, what they are for, how they are written down.

A mechanism registers itself: its public function is decorated with :func:`register`, in any file of
this folder. The command line takes its choices, options, readers and help from here; plans and
ledgers write and read mechanisms by it; calibration looks up which argument it searches; documents
and the conformance test run over it. What the decorators say is read from the source of the files,
so that loading this loads no numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mustdp.errors import InvalidParameter, NotCovered
from mustdp.limits import LARGEST_NOISE, SMALLEST_NOISE

if TYPE_CHECKING:
    from mustdp.mechanisms.mechanism import Mechanism


@dataclass(frozen=True)
class Argument:
    """One argument of a mechanism: a number from ``least`` to ``most``."""

    name: str
    #: What the help shows in place of the value.
    metavar: str
    #: For the help, which adds the mechanisms that take it.
    help: str
    least: float
    most: float
    #: Whether it is an integer.
    whole: bool = False
    #: Whether it is a list of such numbers.
    several: bool = False
    #: Used where the argument is not given; None where it must be.
    default: float | None = None
    #: Whether a larger value is the more private one, which decides how it is rounded when shown.
    larger_is_private: bool = False
    #: What the constructor calls it, where answers have another number of that name.
    parameter: str = ""

    @property
    def option(self) -> str:
        """As it is typed on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def words(self) -> str:
        """As it is written in sentences."""
        return self.name.replace("_", " ")


@dataclass(frozen=True)
class RegisteredMechanism:
    """A mechanism by name."""

    #: As typed on the command line and written into plans; with underscores, the public function.
    name: str
    #: The module with that function.
    module: str
    #: For the table of mechanisms, after the name.
    summary: str
    arguments: tuple[Argument, ...]
    #: Arguments of which exactly one is given.
    alternatives: tuple[str, ...] = ()
    #: The argument that calibration looks for: the smallest value that meets a target.
    searched: str | None = None
    #: Arguments of a few instances, from little noise to much, for the conformance test.
    examples: tuple[Mapping[str, float | tuple[float, ...]], ...] = ()

    def build(self, **given: object) -> Mechanism:
        """The mechanism with these arguments, which its constructor checks."""
        names = [argument.name for argument in self.arguments]
        if not given.keys() <= set(names):
            unknown = ", ".join(sorted(str(name) for name in given.keys() - set(names)))
            raise InvalidParameter(f"{self.name} takes {', '.join(names)}, got {unknown}")
        constructor = getattr(import_module(self.module), self.name.replace("-", "_"))
        called = {one.name: one.parameter or one.name for one in self.arguments}
        mechanism: Mechanism = constructor(**{called[name]: value for name, value in given.items()})
        return mechanism

    def takes(self) -> str:
        """The options of the command line, as a phrase."""
        either = " or ".join(one.option for one in self.arguments if one.name in self.alternatives)
        others = [one.option for one in self.arguments if one.name not in self.alternatives]
        return " and ".join(([either] if either else []) + others)


NOISE_MULTIPLIER = Argument(
    "noise_multiplier",
    "Z",
    "Noise scale divided by the bound C on one record's contribution. One copy moves the result by "
    "2/Z noise scales; by 1/Z under add-remove for poisson, truncated-poisson, allocation and "
    "shuffle.",
    SMALLEST_NOISE,
    LARGEST_NOISE,
    larger_is_private=True,
)
SHIFT = Argument(
    "shift",
    "S",
    "Instead of --noise-multiplier: how far one copy of a record can move the result, in noise "
    "scales (sensitivity / scale).",
    SMALLEST_NOISE,
    LARGEST_NOISE,
)
#: Arguments and options of noise that is scaled to the contribution of one record.
SCALED_NOISE: dict[str, Any] = {
    "arguments": (NOISE_MULTIPLIER, SHIFT),
    "alternatives": ("noise_multiplier", "shift"),
    "searched": "noise_multiplier",
    "examples": ({"shift": 1.5}, {"shift": 0.4}, {"noise_multiplier": 3.0}),
}
SENSITIVITY = Argument(
    "sensitivity",
    "INT",
    "The furthest that one copy of a record moves an integer, replaced or left out; 1 by default.",
    1,
    10**6,
    whole=True,
    default=1,
)
MECHANISM_EPSILON = Argument(
    "mechanism_epsilon",
    "E",
    "The epsilon of every release on its own.",
    1e-9,
    100.0,
    parameter="epsilon",
)

F = TypeVar("F", bound=Callable[..., Any])


def size_of_noise(name: str, least: float, most: float) -> Argument:
    """The scale parameter of noise on an integer, which calibration may search."""
    said = f"Scale parameter of the noise, from {least:g} to {most:g}."
    return Argument(name, name.upper(), said, least, most, larger_is_private=True)


def register(
    *,
    summary: str,
    arguments: tuple[Argument, ...],
    alternatives: tuple[str, ...] = (),
    searched: str | None = None,
    examples: tuple[Mapping[str, float | tuple[float, ...]], ...],
) -> Callable[[F], F]:
    """Make the mechanism that a function returns known everywhere by the function's name.

    The arguments are those of :class:`RegisteredMechanism`. They are read from the source before
    the module is loaded, so they are written with literals and names of this module alone.
    """
    return lambda function: function


#: The decorator and the name of a function that it registers.
_REGISTERED = re.compile(r"^@register(\(.*?\))\ndef (\w+)\(", re.MULTILINE | re.DOTALL)


@cache
def mechanisms() -> dict[str, RegisteredMechanism]:
    """All mechanisms by name: Gaussian and Laplace noise, then the others file by file."""
    found: dict[str, RegisteredMechanism] = {}
    files = sorted(
        Path(__file__).parent.glob("*.py"), key=lambda one: (one.stem != "mechanism", one)
    )
    for file in files:
        for stated, function in _REGISTERED.findall(file.read_text(encoding="utf-8")):
            name = function.replace("_", "-")
            if name in found:
                raise InvalidParameter(f"two mechanisms must not share the name {name!r}")
            says = eval(f"dict{stated}", dict(globals()))  # what the package's own source says
            found[name] = RegisteredMechanism(name, f"mustdp.mechanisms.{file.stem}", **says)
    return found


@cache
def arguments() -> dict[str, Argument]:
    """Every argument once, with the mechanisms that take it in its help."""
    takers: dict[Argument, list[str]] = {}
    for one in mechanisms().values():
        for argument in one.arguments:
            takers.setdefault(argument, []).append(one.name)
    if len({argument.name for argument in takers}) < len(takers):
        raise InvalidParameter("mechanisms must not have different arguments of one name")
    return {
        argument.name: replace(argument, help=f"{argument.help} For {', '.join(names)}.")
        for argument, names in takers.items()
    }


def registered(mechanism: Mechanism) -> RegisteredMechanism:
    """The entry of a mechanism; only what is rebuilt from its description exactly has one.

    A class derived from a registered one has none, whatever its name: what is read back would be
    another mechanism, with other proofs.
    """
    entry = mechanisms().get(mechanism.name)
    if entry is not None:
        given = mechanism.describe()
        try:
            if entry.build(**{k: v for k, v in given.items() if k != "mechanism"}) == mechanism:
                return entry
        except InvalidParameter:
            pass
    raise NotCovered(
        f"a mechanism of type {type(mechanism).__name__} is not registered and cannot be written "
        "as JSON"
    )


def searched_argument(mechanism: Mechanism) -> str | None:
    """The argument that calibration looks for; None for a mechanism that has none."""
    entry = mechanisms().get(mechanism.name)
    return None if entry is None else entry.searched


def described(mechanism: Mechanism) -> dict[str, Any]:
    """Plain description of a registered mechanism, for plans and ledgers."""
    registered(mechanism)
    return mechanism.describe()


def mechanism_from_description(description: Mapping[str, Any]) -> Mechanism:
    """Rebuild a mechanism from its description; everything is checked again."""
    name = description.get("mechanism")
    if not isinstance(name, str) or name not in mechanisms():
        listed = ", ".join(map(repr, mechanisms()))
        raise InvalidParameter.refusing("mechanism", f"must be one of {listed}", repr(name))
    given = {key: value for key, value in description.items() if key != "mechanism"}
    if not given.keys() <= {argument.name for argument in mechanisms()[name].arguments}:
        raise InvalidParameter(f"unknown entries in a mechanism's description: {description!r}")
    return mechanisms()[name].build(**given)

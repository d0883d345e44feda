"""The mechanisms that have a name: their arguments, what they are for, how they are written down.

A mechanism is registered once, here. The command line takes its choices, options, readers and help
from this list; plans and ledgers write and read mechanisms by it; calibration looks up which
argument it searches; the tables in docs/cli.md and the conformance test run over it. Loading this
loads no numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

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


_NOISE_MULTIPLIER = Argument(
    "noise_multiplier",
    "Z",
    "Noise scale divided by the bound C on one record's contribution. One copy moves the result by "
    "2/Z noise scales; by 1/Z under add-remove for poisson, truncated-poisson, allocation and "
    "shuffle.",
    SMALLEST_NOISE,
    LARGEST_NOISE,
    larger_is_private=True,
)
_SHIFT = Argument(
    "shift",
    "S",
    "Instead of --noise-multiplier: how far one copy of a record can move the result, in noise "
    "scales (sensitivity / scale).",
    SMALLEST_NOISE,
    LARGEST_NOISE,
)
_SENSITIVITY = Argument(
    "sensitivity",
    "INT",
    "The furthest that one copy of a record moves an integer, replaced or left out; 1 by default.",
    1,
    10**6,
    whole=True,
    default=1,
)
_STATED_EPSILON = Argument(
    "mechanism_epsilon",
    "E",
    "The epsilon of every release on its own (pure-dp, approximate-dp, randomized-response, "
    "exponential-mechanism, permute-and-flip, staircase).",
    1e-9,
    100.0,
    parameter="epsilon",
)
_BY_SIZE: dict[str, Any] = {
    "arguments": (_NOISE_MULTIPLIER, _SHIFT),
    "alternatives": ("noise_multiplier", "shift"),
    "searched": "noise_multiplier",
    "examples": ({"shift": 1.5}, {"shift": 0.4}, {"noise_multiplier": 3.0}),
}

MECHANISMS: tuple[RegisteredMechanism, ...] = (
    RegisteredMechanism(
        "gaussian",
        "mustdp.mechanisms.mechanism",
        "Gaussian noise on a vector whose contributions are bounded in the 2-norm",
        **_BY_SIZE,
    ),
    RegisteredMechanism(
        "laplace", "mustdp.mechanisms.mechanism", "Laplace noise on a single number", **_BY_SIZE
    ),
    RegisteredMechanism(
        "discrete-laplace",
        "mustdp.mechanisms.integers",
        "discrete Laplace noise on an integer",
        arguments=(
            Argument(
                "scale",
                "SCALE",
                "Scale parameter of the noise (discrete-laplace).",
                SMALLEST_NOISE,
                LARGEST_NOISE,
                larger_is_private=True,
            ),
            _SENSITIVITY,
        ),
        searched="scale",
        examples=({"scale": 0.7}, {"scale": 4.0, "sensitivity": 3}, {"scale": 30.0}),
    ),
    RegisteredMechanism(
        "discrete-gaussian",
        "mustdp.mechanisms.integers",
        "discrete Gaussian noise on an integer",
        arguments=(
            Argument(
                "sigma",
                "SIGMA",
                "Scale parameter of the noise (discrete-gaussian), from 0.001 to 100000.",
                1e-3,
                1e5,
                larger_is_private=True,
            ),
            _SENSITIVITY,
        ),
        searched="sigma",
        examples=({"sigma": 0.8}, {"sigma": 3.0, "sensitivity": 4}, {"sigma": 20.0}),
    ),
    RegisteredMechanism(
        "pure-dp",
        "mustdp.mechanisms.stated",
        "any mechanism with this epsilon (Kairouz et al. 2015)",
        arguments=(_STATED_EPSILON,),
        examples=({"mechanism_epsilon": 1.0}, {"mechanism_epsilon": 0.2}),
    ),
    RegisteredMechanism(
        "approximate-dp",
        "mustdp.mechanisms.stated",
        "any mechanism with this epsilon and delta (Kairouz et al. 2015)",
        arguments=(
            _STATED_EPSILON,
            Argument(
                "mechanism_delta",
                "D",
                "The delta of every release on its own (approximate-dp).",
                1e-30,
                0.5,
                parameter="delta",
            ),
        ),
        examples=(
            {"mechanism_epsilon": 0.8, "mechanism_delta": 1e-6},
            {"mechanism_epsilon": 0.3, "mechanism_delta": 2e-4},
        ),
    ),
    RegisteredMechanism(
        "randomized-response",
        "mustdp.mechanisms.randomized_response",
        "one answer out of several categories",
        arguments=(
            _STATED_EPSILON,
            Argument(
                "categories",
                "INT",
                "Number of possible answers (randomized-response), 2 by default.",
                2,
                10**9,
                whole=True,
                default=2,
            ),
        ),
        examples=(
            {"mechanism_epsilon": 1.0},
            {"mechanism_epsilon": 0.3, "categories": 3},
            {"mechanism_epsilon": 2.0, "categories": 50},
        ),
    ),
    RegisteredMechanism(
        "exponential-mechanism",
        "mustdp.mechanisms.exponential_mechanism",
        "one candidate by its utility; any mechanism of bounded range (Dong et al. 2020)",
        arguments=(_STATED_EPSILON,),
        examples=(
            {"mechanism_epsilon": 2.0},
            {"mechanism_epsilon": 1.0},
            {"mechanism_epsilon": 0.2},
        ),
    ),
    RegisteredMechanism(
        "permute-and-flip",
        "mustdp.mechanisms.exponential_mechanism",
        "one candidate by permute-and-flip (McKenna & Sheldon 2020)",
        arguments=(_STATED_EPSILON,),
        examples=({"mechanism_epsilon": 1.0}, {"mechanism_epsilon": 0.2}),
    ),
    RegisteredMechanism(
        "staircase",
        "mustdp.mechanisms.staircase",
        "staircase noise on a single number, for its sensitivity (Geng & Viswanath 2014)",
        arguments=(
            _STATED_EPSILON,
            Argument(
                "gamma",
                "GAMMA",
                "Half of the width of the central step, in sensitivities, at most 1 (staircase); "
                "1 / (1 + exp(E/2)) has the least error.",
                1e-9,
                1.0,
            ),
        ),
        examples=(
            {"mechanism_epsilon": 2.0, "gamma": 0.27},
            {"mechanism_epsilon": 0.8, "gamma": 0.7},
            {"mechanism_epsilon": 1.0, "gamma": 1.0},
            {"mechanism_epsilon": 0.2, "gamma": 0.5},
        ),
    ),
    RegisteredMechanism(
        "zcdp",
        "mustdp.mechanisms.stated",
        "any mechanism with this rho of zero-concentrated privacy; upper bounds alone",
        arguments=(
            Argument("rho", "RHO", "The rho of every release on its own (zcdp).", 1e-12, 1e4),
        ),
        examples=({"rho": 0.5}, {"rho": 0.01}),
    ),
    RegisteredMechanism(
        "renyi",
        "mustdp.mechanisms.stated",
        "any mechanism with these Renyi divergences; upper bounds alone (Mironov 2017)",
        arguments=(
            Argument(
                "renyi_orders",
                "A,...",
                "Increasing orders above 1 at which --renyi-epsilons are stated (renyi).",
                1.0,
                1e6,
                several=True,
                parameter="orders",
            ),
            Argument(
                "renyi_epsilons",
                "E,...",
                "The Renyi divergence of every release on its own, at each of the --renyi-orders.",
                0.0,
                1e6,
                several=True,
                parameter="epsilons",
            ),
        ),
        examples=(
            {"renyi_orders": (2.0, 4.0, 8.0, 32.0), "renyi_epsilons": (0.4, 0.8, 1.6, 6.4)},
            {"renyi_orders": (1.5, 6.0, 60.0), "renyi_epsilons": (0.03, 0.1, 0.7)},
        ),
    ),
)
BY_NAME = {one.name: one for one in MECHANISMS}
NAMES = tuple(BY_NAME)
#: Every argument once; mechanisms that share one share its meaning.
ARGUMENTS = {argument.name: argument for one in MECHANISMS for argument in one.arguments}


def registered(mechanism: Mechanism) -> RegisteredMechanism:
    """The entry of a mechanism; only what is rebuilt from its description exactly has one.

    A class derived from a registered one has none, whatever its name: what is read back would be
    another mechanism, with other proofs.
    """
    entry = BY_NAME.get(mechanism.name)
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


def described(mechanism: Mechanism) -> dict[str, Any]:
    """Plain description of a registered mechanism, for plans and ledgers."""
    registered(mechanism)
    return mechanism.describe()


def mechanism_from_description(description: Mapping[str, Any]) -> Mechanism:
    """Rebuild a mechanism from its description; everything is checked again."""
    name = description.get("mechanism")
    if not isinstance(name, str) or name not in BY_NAME:
        listed = ", ".join(map(repr, NAMES))
        raise InvalidParameter.refusing("mechanism", f"must be one of {listed}", repr(name))
    given = {key: value for key, value in description.items() if key != "mechanism"}
    if not given.keys() <= {argument.name for argument in BY_NAME[name].arguments}:
        raise InvalidParameter(f"unknown entries in a mechanism's description: {description!r}")
    return BY_NAME[name].build(**given)

"""What the page asks about: read from its address, checked, and written back as command and Python.

The same fields describe a state in the address, on the command line and in Python, so that what is
shared, copied or computed cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from mustdp.calibration.compare import epochs_of, schemes_of
from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_EPSILON, LARGEST_NOISE, MOST_STEPS, SMALLEST_DELTA, SMALLEST_NOISE
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.sampling.epochs import Sampling

#: The state of a page that was opened without one.
DEFAULTS = {
    "n": "10000", "b": "500", "m": "200", "steps": "1000", "delta": "1e-5", "epsilon": "2",
    "noise": "", "relation": "replace-one", "group": "1", "with-epochs": "no",
}  # fmt: skip
_LARGEST = 10**9
_LONGEST = 40


@dataclass(frozen=True)
class Asked:
    """Sizes, steps, relation and group, and either a target epsilon or a noise multiplier."""

    n: int
    b: int
    m: int
    steps: int
    delta: float
    epsilon: float | None
    noise: float | None
    relation: Relation
    #: How many records of one person the guarantee covers.
    group: int
    #: Whether random allocation and shuffling, which share out whole epochs, are asked about too.
    with_epochs: bool

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Asked:
        """The state in an address; fields that are missing have their defaults.

        A refusal names the field.
        """
        for name, text in given.items():
            if name not in DEFAULTS:
                raise InvalidParameter.refusing("address", "must have known fields only", name[:20])
            if len(text) > _LONGEST:
                raise InvalidParameter.refusing(
                    name, f"must have at most {_LONGEST} characters", "more"
                )
        fields = {**DEFAULTS, **given}
        if given.get("noise", "").strip():
            fields["epsilon"] = given.get("epsilon", "")
        n = _whole("n", fields["n"], _LARGEST)
        target, noise = fields["epsilon"].strip(), fields["noise"].strip()
        if bool(target) == bool(noise):
            raise InvalidParameter.refusing(
                "epsilon", "must be given, or a noise multiplier instead", "both or neither"
            )
        return cls(
            n,
            _whole("b", fields["b"], n),
            _whole("m", fields["m"], _LARGEST),
            _whole("steps", fields["steps"], MOST_STEPS),
            _number("delta", fields["delta"], at_least=SMALLEST_DELTA, below=1.0),
            _number("epsilon", target, above=0.0, at_most=LARGEST_EPSILON) if target else None,
            _number("noise", noise, at_least=SMALLEST_NOISE, at_most=LARGEST_NOISE)
            if noise
            else None,
            Relation.read(fields["relation"].replace("-", "_")),
            _whole("group", fields["group"], n),
            checks.choice("with-epochs", fields["with-epochs"], ("yes", "no")) == "yes",
        )

    @property
    def schemes(self) -> list[Sampling]:
        """The schemes that exist for these sizes, those of whole epochs last."""
        passes = epochs_of(self.n, self.m) if self.with_epochs else []
        return [*schemes_of(self.n, self.b, self.m), *passes]

    def _fields(self) -> dict[str, str]:
        chosen = {"epsilon": self.epsilon} if self.noise is None else {"noise": self.noise}
        return {
            "n": str(self.n),
            "b": str(self.b),
            "m": str(self.m),
            "steps": str(self.steps),
            "delta": repr(self.delta),
            **{name: repr(value) for name, value in chosen.items()},
            "relation": self.relation.option,
            "group": str(self.group),
            "with-epochs": "yes" if self.with_epochs else "no",
        }

    @property
    def address(self) -> str:
        """The state as it stands in an address."""
        return urlencode(self._fields())

    @property
    def command(self) -> str:
        """The command that prints the same table."""
        target = (
            f"--noise-multiplier {self.noise!r}"
            if self.noise is not None
            else f"--epsilon {self.epsilon!r}"
        )
        return (
            f"mustdp compare -n {self.n} -b {self.b} -m {self.m} --steps {self.steps} "
            f"--delta {self.delta!r} {target} --relation {self.relation.option}"
            f"{f' --group {self.group}' if self.group > 1 else ''}"
            f"{' --with-epochs' if self.with_epochs else ''}"
        )

    @property
    def python(self) -> str:
        """Python that gives the same numbers."""
        target = (
            f"noise_multiplier={self.noise!r}"
            if self.noise is not None
            else f"epsilon={self.epsilon!r}"
        )
        if self.group > 1:
            target += f", group={self.group}"
        if self.with_epochs:
            target += ", epochs=True"
        return (
            "import mustdp as md\n\n"
            f"found = md.compare(n={self.n}, b={self.b}, m={self.m}, steps={self.steps}, "
            f'delta={self.delta!r}, {target}, relation="{self.relation.value}")\n'
            "print(found)\n"
        )


def _whole(name: str, text: str, most: int) -> int:
    try:
        value: object = int(text)
    except ValueError:
        value = text
    return checks.integer(name, value, 1, most)


def _number(name: str, text: str, **limits: float) -> float:
    try:
        value: object = float(text)
    except ValueError:
        value = text
    return checks.real(name, value, **limits)

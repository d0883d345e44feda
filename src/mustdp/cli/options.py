"""The options that describe a scheme and a noise, shared by every command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mustdp.cli.numbers import clipped, number, one_of, whole
from mustdp.errors import InvalidParameter

if TYPE_CHECKING:
    from mustdp.mechanisms.mechanism import Mechanism
    from mustdp.sampling.scheme import Scheme

#: What each scheme is described by.
TAKES = {
    "poisson": ("n", "rate"),
    "wor": ("n", "m"),
    "wr": ("n", "m"),
    "must-ow": ("n", "b", "m"),
    "must-ww": ("n", "b", "m"),
    "must-wo": ("n", "b", "m"),
    "must-oo": ("n", "b", "m"),
}
MECHANISMS = ("gaussian", "laplace")
_FLAGS = {"n": "-n", "b": "-b", "m": "-m", "rate": "--rate"}


def _scheme_option(*names: str, metavar: str, help: str) -> Any:
    return typer.Option(
        *names, metavar=metavar, help=help, rich_help_panel="Scheme", show_default=False
    )


def _noise_option(*names: str, metavar: str, help: str, show_default: bool = False) -> Any:
    return typer.Option(
        *names, metavar=metavar, help=help, rich_help_panel="Noise", show_default=show_default
    )


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
NOption = Annotated[
    str | None, _scheme_option("-n", metavar="INT", help="Number of records in the data set.")
]
BOption = Annotated[
    str | None, _scheme_option("-b", metavar="INT", help="Size of the first of two stages.")
]
MOption = Annotated[
    str | None, _scheme_option("-m", metavar="INT", help="Size of the batch, copies counted.")
]
MechanismOption = Annotated[
    str,
    _noise_option("--mechanism", metavar="NAME", help="gaussian or laplace.", show_default=True),
]
NoiseMultiplierOption = Annotated[
    str | None,
    _noise_option(
        "--noise-multiplier",
        metavar="Z",
        help="Noise scale divided by the bound C on one record's contribution. One copy moves "
        "the result by 2/Z noise scales (1/Z for poisson under add-remove).",
    ),
]


def paragraphs(docstring: str) -> str:
    """Help text from a docstring: one line per paragraph, so that it is wrapped only once."""
    return "\n\n".join(" ".join(part.split()) for part in docstring.split("\n\n"))


@dataclass(frozen=True)
class SchemeOptions:
    """``--scheme`` with its sizes, or ``--stages``, as typed."""

    scheme: Annotated[
        str | None,
        _scheme_option(
            "--scheme",
            metavar="NAME",
            help="poisson (-n, --rate); wor, wr: one stage without or with replacement (-n, -m); "
            "must-ow, must-ww, must-wo, must-oo: two stages, o without and w with replacement "
            "(-n, -b, -m).",
        ),
    ] = None
    stages: Annotated[
        str | None,
        _scheme_option(
            "--stages",
            metavar="KIND:SIZE,...",
            help="Any number of stages instead of --scheme, for example wor:118,wr:200 (-n).",
        ),
    ] = None
    n: NOption = None
    b: BOption = None
    m: MOption = None
    rate: Annotated[
        str | None,
        _scheme_option("--rate", metavar="P", help="Chance of each record (poisson), 0 to 1."),
    ] = None

    def build(self) -> Scheme:
        """Check that the options fit together and return the scheme they describe."""
        import mustdp

        if self.scheme is not None and self.stages is not None:
            raise InvalidParameter(
                f"--scheme {clipped(self.scheme)} and --stages {clipped(self.stages)} exclude each "
                "other: give one of them"
            )
        if self.scheme is None and self.stages is None:
            raise InvalidParameter(
                f"--scheme is missing: one of {', '.join(TAKES)}, or --stages instead"
            )
        if self.scheme is None:
            sizes = self._sizes(("n",), "--stages")
            return _staged(sizes["n"], str(self.stages))
        name = one_of("--scheme", self.scheme, tuple(TAKES))
        factory = getattr(mustdp, name.replace("-", "_"))
        scheme: Scheme = factory(**self._sizes(TAKES[name], f"--scheme {name}"))
        return scheme

    def named(self, unknown: str, allowed: tuple[str, ...]) -> tuple[str, dict[str, int]]:
        """Name and sizes of a scheme whose size ``unknown`` is still to be found."""
        owner = f"--solve-for {unknown}"
        if self.stages is not None:
            raise InvalidParameter(
                f"--stages {clipped(self.stages)} does not fit {owner}, which takes --scheme"
            )
        if self.scheme is None:
            raise InvalidParameter(
                f"--scheme is missing: {owner} takes one of {', '.join(allowed)}"
            )
        name = one_of(f"--scheme with {owner}", self.scheme, allowed)
        takes = tuple(size for size in TAKES[name] if size not in (unknown, "rate"))
        return name, self._sizes(takes, f"--scheme {name} with {owner}")

    def _sizes(self, takes: tuple[str, ...], owner: str) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in _FLAGS}
        wanted = " and ".join(_FLAGS[name] for name in takes).replace(" and ", ", ", len(takes) - 2)
        for name, text in given.items():
            if name in takes and text is None:
                raise InvalidParameter(f"{_FLAGS[name]} is missing: {owner} takes {wanted}")
            if name not in takes and text is not None:
                raise InvalidParameter(
                    f"{_FLAGS[name]} {clipped(text)} does not fit {owner}, which takes {wanted}"
                )
        return {
            name: number("--rate", given[name], at_least=0, at_most=1)
            if name == "rate"
            else whole(_FLAGS[name], given[name])
            for name in takes
        }


def _staged(n: int, text: str) -> Scheme:
    import mustdp

    pairs = []
    for part in text.split(","):
        kind, colon, size = part.partition(":")
        if not colon:
            raise InvalidParameter(
                "--stages must be a list of kind:size such as wor:118,wr:200, "
                f"got {clipped(text)!r}"
            )
        pairs.append(
            (one_of("--stages: a kind", kind, ("wor", "wr")), whole("--stages: a size", size))
        )
    try:
        return mustdp.multistage(n, pairs)
    except InvalidParameter as problem:
        raise InvalidParameter(f"--stages {clipped(text)}: {problem}") from None


@dataclass(frozen=True)
class NoiseOptions:
    """``--mechanism`` and its scale, as typed."""

    mechanism: MechanismOption = "gaussian"
    noise_multiplier: NoiseMultiplierOption = None
    shift: Annotated[
        str | None,
        _noise_option(
            "--shift",
            metavar="S",
            help="Instead of --noise-multiplier: how far one copy of a record can move the result, "
            "in noise scales (sensitivity / scale).",
        ),
    ] = None

    def build(self) -> Mechanism:
        """Check that exactly one scale was given and return the mechanism."""
        import mustdp

        name = one_of("--mechanism", self.mechanism, MECHANISMS)
        factory = mustdp.gaussian if name == "gaussian" else mustdp.laplace
        if self.noise_multiplier is not None and self.shift is not None:
            raise InvalidParameter(
                f"--noise-multiplier {clipped(self.noise_multiplier)} and --shift "
                f"{clipped(self.shift)} exclude each other: give exactly one"
            )
        if self.noise_multiplier is not None:
            return factory(noise_multiplier=number("--noise-multiplier", self.noise_multiplier))
        if self.shift is not None:
            return factory(shift=number("--shift", self.shift))
        raise InvalidParameter("--noise-multiplier or --shift is missing: give exactly one")

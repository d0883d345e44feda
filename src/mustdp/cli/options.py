"""The options that describe a scheme and a noise, shared by every command."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mustdp.cli.numbers import clipped, one_of, read_integer, read_number, read_rate
from mustdp.cli.typed import Panel, as_typed, exactly_one, word_from, word_of
from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_NOISE, SMALLEST_NOISE
from mustdp.mechanisms.relation import Relation
from mustdp.sampling.catalogue import BY_NAME, EPOCH_NAMES, KINDS, NAMES

if TYPE_CHECKING:
    from mustdp.mechanisms.mechanism import Mechanism
    from mustdp.sampling.epochs import Epoch, Sampling
    from mustdp.sampling.scheme import Scheme

Stages = tuple[tuple[str, int], ...]
_FLAGS = {"n": "-n", "b": "-b", "m": "-m", "rate": "--rate"}

read_noise = partial(read_number, at_least=SMALLEST_NOISE, at_most=LARGEST_NOISE)


def read_stages(name: str, text: str) -> Stages:
    """A list of kinds and sizes such as ``wor:118,wr:200``."""
    pairs = []
    for part in text.split(","):
        kind, colon, size = part.partition(":")
        if not colon:
            raise InvalidParameter.refusing(
                name, "must be a list of kind:size such as wor:118,wr:200", repr(clipped(text))
            )
        pairs.append(
            (one_of(f"{name}: a kind", kind, KINDS), read_integer(f"{name}: a size", size))
        )
    return tuple(pairs)


_scheme = Panel(
    "Scheme",
    """
    --scheme NAME           poisson (-n, --rate); wor, wr: one stage without or with replacement
                            (-n, -m); must-ow, must-ww, must-wo, must-oo: two stages, o without and
                            w with replacement (-n, -b, -m). Where --bins can be given also
                            allocation (-n, --bins or -m) and shuffle (-n, -m): the batches of whole
                            epochs.
    --stages KIND:SIZE,...  Any number of stages instead of --scheme, for example wor:118,wr:200
                            (-n).
    -n INT                  Number of records in the data set.
    -b INT                  Size of the first of two stages.
    -m INT                  Size of the batch, copies counted.
    --rate P                Chance of each record (poisson), 0 to 1.
    """,
)
_noise = Panel(
    "Noise",
    """
    --mechanism NAME      gaussian or laplace.
    --noise-multiplier Z  Noise scale divided by the bound C on one record's contribution. One copy
                          moves the result by 2/Z noise scales; by 1/Z under add-remove for
                          poisson, allocation and shuffle.
    --shift S             Instead of --noise-multiplier: how far one copy of a record can move the
                          result, in noise scales (sensitivity / scale).
    """,
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
NOption = Annotated[int | None, _scheme("-n", read_integer)]
BOption = Annotated[int | None, _scheme("-b", read_integer)]
MOption = Annotated[int | None, _scheme("-m", read_integer)]
MechanismOption = Annotated[
    str, _noise("--mechanism", word_from("mustdp.mechanisms.mechanism", "MECHANISMS"))
]
NoiseMultiplierOption = Annotated[float | None, _noise("--noise-multiplier", read_noise)]


def paragraphs(docstring: str) -> str:
    """Help text from a docstring: one line per paragraph, so that it is wrapped only once."""
    return "\n\n".join(" ".join(part.split()) for part in docstring.split("\n\n"))


@dataclass(frozen=True)
class SchemeOptions:
    """``--scheme`` with its sizes, or ``--stages``."""

    scheme: Annotated[str | None, _scheme("--scheme", word_of((*NAMES, *EPOCH_NAMES)))] = None
    stages: Annotated[Stages | None, _scheme("--stages", read_stages)] = None
    n: NOption = None
    b: BOption = None
    m: MOption = None
    rate: Annotated[float | None, _scheme("--rate", read_rate)] = None

    def check(self, later: tuple[str, ...] = ()) -> dict[str, Any]:
        """The sizes, if the options fit together; those known ``later`` may still be missing."""
        if self.scheme is None and self.stages is None:
            raise InvalidParameter(
                f"--scheme is missing: one of {', '.join(NAMES)}, or --stages instead"
            )
        exactly_one({"--scheme": self.scheme, "--stages": self.stages})
        if self.scheme in EPOCH_NAMES:
            raise InvalidParameter(
                f"--scheme {self.scheme} does not fit here: batches are drawn one by one, by one "
                f"of {', '.join(NAMES)} or --stages"
            )
        if self.scheme is None:
            return self._sizes(("n",), "--stages", later)
        return self._sizes(BY_NAME[self.scheme].sizes, f"--scheme {self.scheme}", later)

    def build(self) -> Scheme:
        """Check that the options fit together and return the scheme they describe."""
        import mustdp

        sizes = self.check()
        if self.stages is not None:
            try:
                return mustdp.multistage(sizes["n"], self.stages)
            except InvalidParameter as problem:
                raise InvalidParameter(
                    f"--stages {as_typed(self.stages)}: {problem.called(_FLAGS)}"
                ) from None
        scheme: Scheme = getattr(mustdp, str(self.scheme).replace("-", "_"))(**sizes)
        return scheme

    def size_is_private(self, relation: Relation | None) -> bool:
        """Whether -n is an estimate, since data must not tell their number; it must be given then.

        So it is with batches of random size under add-remove.
        """
        if self.scheme not in ("poisson", "allocation") or relation == Relation.REPLACE_ONE:
            return False
        if self.n is None:
            raise InvalidParameter(
                "-n is missing: under add-remove the number of records is private; give a public "
                "estimate of it, or --relation replace-one"
            )
        return True

    def check_trains(self, built: Sampling) -> None:
        """Refuse a scheme that draws nothing."""
        if not built.expected_size > 0:
            allowed = "must be above 0 to train on anything"
            raise InvalidParameter.refusing("--rate", allowed, self.rate)

    def named(self, unknown: str, allowed: tuple[str, ...]) -> tuple[str, dict[str, int]]:
        """Name and sizes of a scheme whose size ``unknown`` is still to be found."""
        owner = f"--solve-for {unknown}"
        if self.stages is not None:
            raise InvalidParameter(
                f"--stages {as_typed(self.stages)} does not fit {owner}, which takes --scheme"
            )
        if self.scheme is None:
            raise InvalidParameter(
                f"--scheme is missing: {owner} takes one of {', '.join(allowed)}"
            )
        name = one_of(f"--scheme with {owner}", self.scheme, allowed)
        takes = tuple(size for size in BY_NAME[name].sizes if size not in (unknown, "rate"))
        return name, self._sizes(takes, f"--scheme {name} with {owner}")

    def epoch(self, bins: int | None, times: int | None) -> Epoch:
        """The epoch that the options describe."""
        from mustdp.sampling.epochs import random_allocation, shuffle

        owner = f"--scheme {self.scheme}"
        if self.stages is not None:
            raise InvalidParameter(f"--stages {as_typed(self.stages)} does not fit {owner}")
        if self.scheme == "shuffle":
            for name, value in {"--bins": bins, "--times": times}.items():
                if value is not None:
                    takes = "which takes -n and -m"
                    raise InvalidParameter(f"{name} {value} does not fit {owner}, {takes}")
            return shuffle(**self._sizes(("n", "m"), owner))
        exactly_one({"--bins": bins, "-m": self.m})
        n = self._sizes(("n", "m") if bins is None else ("n",), owner)["n"]
        often = 1 if times is None else times
        size = bins if bins is not None else -(-n * often // (self.m or 1))
        return random_allocation(n, size, often)

    def _sizes(
        self, takes: tuple[str, ...], owner: str, later: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in _FLAGS}
        wanted = " and ".join(_FLAGS[name] for name in takes).replace(" and ", ", ", len(takes) - 2)
        for name, value in given.items():
            if name in takes and value is None and name not in later:
                raise InvalidParameter(f"{_FLAGS[name]} is missing: {owner} takes {wanted}")
            if name not in takes and value is not None:
                raise InvalidParameter(
                    f"{_FLAGS[name]} {as_typed(value)} does not fit {owner}, which takes {wanted}"
                )
        return {name: given[name] for name in takes}


@dataclass(frozen=True)
class NoiseOptions:
    """``--mechanism`` and its scale."""

    mechanism: MechanismOption = "gaussian"
    noise_multiplier: NoiseMultiplierOption = None
    shift: Annotated[float | None, _noise("--shift", read_noise)] = None

    def build(self) -> Mechanism:
        """Check that exactly one scale was given and return the mechanism."""
        from mustdp.mechanisms.mechanism import MECHANISMS

        exactly_one({"--noise-multiplier": self.noise_multiplier, "--shift": self.shift})
        return MECHANISMS[self.mechanism](noise_multiplier=self.noise_multiplier, shift=self.shift)

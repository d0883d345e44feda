"""Options for schemes, noise, steps, targets, epochs and budgets, shared by the commands."""

from __future__ import annotations

from dataclasses import asdict, dataclass, make_dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

from mustdp.cli.parameters import (
    Panel,
    as_typed,
    clipped,
    exactly_one,
    one_of,
    read_integer,
    read_natural,
    read_rate,
    read_several,
    read_within,
    word_of,
)
from mustdp.errors import InvalidParameter
from mustdp.limits import (
    DELTA_RANGE,
    EPSILON_RANGE,
    MOST_STEPS,
    NOISE_RANGE,
    TARGET_RANGE,
)
from mustdp.mechanisms.registry import Argument, RegisteredMechanism, arguments, mechanisms
from mustdp.mechanisms.relation import Relation
from mustdp.sampling.catalogue import (
    BY_NAME,
    EPOCH_NAMES,
    EPOCHS,
    KINDS,
    NAMES,
    SIZES,
    Size,
)

if TYPE_CHECKING:
    from mustdp.ledger.file import LedgerFile
    from mustdp.mechanisms.mechanism import Mechanism
    from mustdp.sampling.epochs import Epoch, Sampling
    from mustdp.sampling.schemes import Scheme

# Schemes and noise.


Stages = tuple[tuple[str, int], ...]
_FLAGS = {size.name: size.flag for size in SIZES.values()}

read_noise = partial(read_within, limits=NOISE_RANGE)


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
    f"--scheme NAME  How batches are drawn: {', '.join(NAMES)}; in account, risk, calibrate, train "
    f"and draw also {' and '.join(EPOCH_NAMES)}; docs/cli.md explains them.\n"
    "--stages KIND:SIZE,...  Instead of --scheme: any number of stages of -n records, for example "
    "wor:118,wr:200.\n"
    + "\n".join(f"{one.flag} {one.metavar}  {one.help}" for one in SIZES.values()),
)
_noise = Panel(
    "Noise",
    f"--mechanism NAME  One of {', '.join(mechanisms())}.\n"
    + "\n".join(f"{one.option} {one.metavar}  {one.help}" for one in arguments().values()),
)

MechanismOption = Annotated[str, _noise("--mechanism", word_of(tuple(mechanisms())))]


def paragraphs(docstring: str) -> str:
    """Help text from a docstring: one line per paragraph, so that it is wrapped only once."""
    return "\n\n".join(" ".join(part.split()) for part in docstring.split("\n\n"))


def _size_option(size: Size) -> Any:
    """A size of schemes as an option; all are left out unless they are given."""
    kind: Any = float if size.chance else int
    return Annotated[kind | None, _scheme(size.flag, read_rate if size.chance else read_integer)]


class SchemeChoice:
    """``--scheme`` with its sizes, or ``--stages``."""

    scheme: str | None
    stages: Stages | None
    n: int | None
    b: int | None
    m: int | None
    rate: float | None
    cap: int | None

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
        return cast("Scheme", BY_NAME[str(self.scheme)].build(**sizes))

    def size_is_private(self, relation: Relation | None) -> bool:
        """Whether -n is an estimate, since data must not tell their number; it must be given then.

        So it is with batches of random size under add-remove.
        """
        entry = {**BY_NAME, **EPOCHS}.get(str(self.scheme))
        if entry is None or not entry.random_size or relation == Relation.REPLACE_ONE:
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


if TYPE_CHECKING:

    @dataclass(frozen=True)
    class SchemeOptions(SchemeChoice):
        """The options themselves; their sizes are those that the registry of schemes lists."""

        scheme: str | None = None
        stages: Stages | None = None
        n: int | None = None
        b: int | None = None
        m: int | None = None
        rate: float | None = None
        cap: int | None = None
else:
    SchemeOptions = make_dataclass(
        "SchemeOptions",
        [
            (
                "scheme",
                Annotated[str | None, _scheme("--scheme", word_of((*NAMES, *EPOCH_NAMES)))],
                None,
            ),
            ("stages", Annotated[Stages | None, _scheme("--stages", read_stages)], None),
            *((size.name, _size_option(size), None) for size in SIZES.values()),
        ],
        bases=(SchemeChoice,),
        frozen=True,
    )


def _noise_option(argument: Argument) -> Any:
    """An argument of a mechanism as an option; all are left out unless they are given."""
    kind: Any = int if argument.whole else float
    if argument.several:
        limits = {"at_least": argument.least, "at_most": argument.most}
        return Annotated[
            tuple[float, ...] | None,
            _noise(argument.option, partial(read_several, limits=limits)),
        ]
    if argument.whole:
        read: Any = partial(read_integer, low=int(argument.least), high=int(argument.most))
    else:
        read = partial(read_within, limits={"at_least": argument.least, "at_most": argument.most})
    return Annotated[kind | None, _noise(argument.option, read)]


class NoiseChoice:
    """``--mechanism`` and the arguments of all mechanisms, of which those that fit are taken."""

    mechanism: str

    @property
    def given(self) -> dict[str, Any]:
        """The arguments that were given, by name."""
        found = {name: getattr(self, name) for name in arguments()}
        return {name: value for name, value in found.items() if value is not None}

    def build(self) -> Mechanism:
        """Check that the arguments belong to the mechanism, and return it."""
        entry = self._fitting()
        given = self.given
        if entry.alternatives:
            exactly_one({arguments()[name].option: given.get(name) for name in entry.alternatives})
        for argument in entry.arguments:
            needed = argument.default is None and argument.name not in entry.alternatives
            if needed and argument.name not in given:
                raise InvalidParameter(
                    f"{argument.option} is missing: --mechanism {entry.name} takes {entry.takes()}"
                )
        return entry.build(**given)

    def kind(self) -> str | Mechanism:
        """The kind of noise whose size is to be found; its other arguments may be given."""
        entry = self._fitting()
        for name in {str(entry.searched), *entry.alternatives} & self.given.keys():
            raise InvalidParameter(
                f"{arguments()[name].option} {as_typed(self.given[name])} does not fit --solve-for "
                "noise, which finds it; --solve-for steps, m and b take a noise"
            )
        if entry.searched is None:
            raise InvalidParameter(
                f"--mechanism {entry.name} does not fit --solve-for noise: it has no noise "
                "to search for"
            )
        if not self.given:
            return self.mechanism
        return entry.build(**self.given, **{entry.searched: 1.0})

    def _fitting(self) -> RegisteredMechanism:
        """What the mechanism takes, if nothing else was given."""
        entry = mechanisms()[self.mechanism]
        own = {argument.name for argument in entry.arguments}
        for name, value in self.given.items():
            if name not in own:
                raise InvalidParameter(
                    f"{arguments()[name].option} {as_typed(value)} does not fit --mechanism "
                    f"{entry.name}, which takes {entry.takes()}"
                )
        return entry


if TYPE_CHECKING:

    class NoiseOptions(NoiseChoice):
        """The options themselves, which the registry of mechanisms lists."""
else:
    NoiseOptions = make_dataclass(
        "NoiseOptions",
        [
            ("mechanism", MechanismOption, "gaussian"),
            *((name, _noise_option(argument), None) for name, argument in arguments().items()),
        ],
        bases=(NoiseChoice,),
        frozen=True,
    )


# Accounting: how many steps, which neighbours, which epsilon and delta.


ACCOUNTING = "Accounting"
_RELATIONS = {one.option: one for one in Relation}

read_repeats = partial(read_integer, high=MOST_STEPS)
read_delta = partial(read_within, limits=DELTA_RANGE)
#: An epsilon at which delta is computed.
read_epsilon = partial(read_within, limits=EPSILON_RANGE)


def read_target(name: str, text: str) -> float:
    """An epsilon to be kept."""
    try:
        return read_within(name, text, TARGET_RANGE)
    except InvalidParameter as problem:
        if problem.got not in ("0.0", "-0.0"):
            raise
        why = "a target is met to within a fraction of itself, which leaves nothing at 0"
        raise InvalidParameter.refusing(name, f"{problem.allowed} ({why})", "0") from None


def read_relation(name: str, text: str) -> Relation:
    """A relation, as it is typed on the command line."""
    return _RELATIONS[one_of(name, text, tuple(_RELATIONS))]


#: The schemes whose default relation is add-remove.
_RANDOM_SIZES = [one.name for one in {**BY_NAME, **EPOCHS}.values() if one.random_size]
_accounting = Panel(
    ACCOUNTING,
    f"""
    --steps K        Number of applications, each with a fresh draw and fresh noise. Required (or
                     --epochs, where it can be given).
    --relation NAME  Which data sets are neighbours: replace-one (one record is replaced) or
                     add-remove (one record added or removed). Default: add-remove for
                     {", ".join(_RANDOM_SIZES)}; replace-one otherwise.
    --group G        The most records that one person has: the guarantee covers all of them,
                     replaced together, or all present or absent.
    --epsilon E      The largest epsilon allowed, above 0; the noise is calibrated for it.
                     Required, unless an option that replaces it is given.
    --delta D        The delta at which epsilon is stated, well below 1/n. Required.
    """,
)
StepsOption = Annotated[int | None, _accounting("--steps", read_repeats)]
RelationOption = Annotated[Relation | None, _accounting("--relation", read_relation)]
GroupOption = Annotated[int, _accounting("--group", read_integer)]
TargetOption = Annotated[float | None, _accounting("--epsilon", read_target)]
DeltaOption = Annotated[float | None, _accounting("--delta", read_delta)]


@dataclass(frozen=True)
class RunOptions:
    """``--steps`` and ``--relation``."""

    steps: StepsOption = None
    #: None for the scheme's default.
    relation: RelationOption = None

    def count(self) -> int:
        """The number of steps, which has no default."""
        if self.steps is None:
            raise InvalidParameter("--steps is missing: give the number of applications, 1 or more")
        return self.steps


def stated(delta: float | None, n: int | None) -> float:
    """The delta that was given; a missing one is refused with one that is usual for n records."""
    if delta is None:
        raise InvalidParameter(
            "--delta is missing: give the delta at which epsilon is stated, well below 1/n; "
            f"{usual_delta(n or 10_000)} is usual for n = {n or 10_000}"
        )
    if n is not None:
        from mustdp.numerics.checks import warn_of_large_delta

        warn_of_large_delta(delta, n)
    return delta


def usual_delta(n: int) -> str:
    """The largest power of ten that is at most 1 / (10 n).

    >>> usual_delta(1000), usual_delta(1347)
    ('1e-4', '1e-5')
    """
    return f"1e-{len(str(10 * n - 1))}"


# Batches of whole epochs: ``--bins``, ``--times``, ``--epochs``.


_epoch = Panel(
    "Scheme",
    """
    --bins INT  Instead of -m: batches of an epoch of --scheme allocation; -m gives n / m, rounded
                up.
    --times T   In how many distinct batches of an epoch every record is (--scheme allocation), 1
                by default. With -m there are T times as many batches.
    """,
)
_epoch_count = Panel(
    ACCOUNTING,
    """
    --epochs INT  Instead of --steps: number of epochs (--scheme allocation and shuffle).
    """,
)
BinsOption = Annotated[int | None, _epoch("--bins", read_integer)]
TimesOption = Annotated[int | None, _epoch("--times", read_repeats)]


def sampling(scheme: SchemeOptions, bins: int | None, times: int | None) -> Sampling:
    """The scheme or the epoch that the options describe."""
    if scheme.scheme in EPOCH_NAMES:
        return scheme.epoch(bins, times)
    for name, value in {"--bins": bins, "--times": times}.items():
        if value is not None:
            raise InvalidParameter(f"{name} {value} only fits --scheme allocation")
    return scheme.build()


@dataclass(frozen=True)
class EpochOptions:
    """``--bins``, ``--times`` and ``--epochs``."""

    bins: BinsOption = None
    times: TimesOption = None
    epochs: Annotated[int | None, _epoch_count("--epochs", read_repeats)] = None

    def drawn(self, scheme: SchemeOptions) -> Sampling:
        """The scheme or the epoch that the options describe."""
        return sampling(scheme, self.bins, self.times)

    def refuse(self, why: str) -> None:
        """Refuse all of them, where only batches that are drawn one by one will do."""
        given = {"--bins": self.bins, "--times": self.times, "--epochs": self.epochs}
        for name, value in given.items():
            if value is not None:
                raise InvalidParameter(f"{name} {value} {why}")

    def batches(self, drawn: Sampling, run: RunOptions) -> int:
        """The number of batches, given as epochs or as steps."""
        from mustdp.limits import MOST_STEPS
        from mustdp.sampling.epochs import Epoch

        epochs = self.epochs
        if not isinstance(drawn, Epoch):
            if epochs is not None:
                raise InvalidParameter(
                    f"--epochs {epochs} only fits --scheme allocation and shuffle; give --steps"
                )
            return run.count()
        if epochs is None:
            if run.steps is None:
                raise InvalidParameter("--epochs is missing: give the number of epochs, 1 or more")
            return run.steps
        if run.steps is not None:
            raise InvalidParameter(f"--steps {run.steps} does not fit --epochs {epochs}: give one")
        if epochs * drawn.bins > MOST_STEPS:
            most = MOST_STEPS // drawn.bins
            raise InvalidParameter(f"--epochs must be at most {most} here, got {epochs}")
        return epochs * drawn.bins


@dataclass(frozen=True)
class PlanOptions:
    """A plan of equal steps: how batches are drawn, the noise, how often, and the neighbours."""

    scheme: SchemeOptions
    noise: NoiseOptions
    run: RunOptions
    epochs: EpochOptions
    group: GroupOption = 1

    def sampling(self) -> tuple[Sampling, int]:
        """How batches are drawn, and how many."""
        drawn = self.epochs.drawn(self.scheme)
        return drawn, self.epochs.batches(drawn, self.run)

    def build(self) -> tuple[Sampling, Mechanism, int]:
        """Scheme or epoch, mechanism and number of steps."""
        drawn = self.epochs.drawn(self.scheme)
        return drawn, self.noise.build(), self.epochs.batches(drawn, self.run)


def counted(drawn: Sampling, steps: int) -> dict[str, Any]:
    """The number of epochs, where there are any, beside that of the steps."""
    from mustdp.sampling.epochs import Epoch

    return {"epochs": steps / drawn.bins} if isinstance(drawn, Epoch) else {}


# Comparisons (compare and report): sizes and steps that all schemes share, and one target.


_compared_sizes = Panel(
    "Scheme",
    """
    -n INT  Required: number of records in the data set.
    -b INT  Required: size of the first of two stages.
    -m INT  Required: size of the batch, copies counted.
    """,
)
_comparison = Panel(
    ACCOUNTING,
    """
    --steps K             Required: number of applications, each with a fresh draw and fresh noise.
    --relation NAME       Which data sets are neighbours, for all schemes alike: replace-one (one
                          record is replaced; the default) or add-remove (one record added or
                          removed).
    --noise-multiplier Z  Instead of --epsilon: noise scale divided by the bound C on one record's
                          contribution, the same for all schemes.
    """,
)


@dataclass(frozen=True)
class ComparisonOptions:
    """Sizes, steps and relation of all schemes, and what is the same for them."""

    n: Annotated[int | None, _compared_sizes("-n", read_integer)] = None
    b: Annotated[int | None, _compared_sizes("-b", read_integer)] = None
    m: Annotated[int | None, _compared_sizes("-m", read_integer)] = None
    steps: Annotated[int | None, _comparison("--steps", read_repeats)] = None
    relation: Annotated[Relation | None, _comparison("--relation", read_relation)] = None
    epsilon: TargetOption = None
    delta: DeltaOption = None
    noise_multiplier: Annotated[float | None, _comparison("--noise-multiplier", read_noise)] = None
    group: GroupOption = 1

    def read(self) -> dict[str, Any]:
        """The arguments of :func:`mustdp.compare`."""
        sizes = {"n": self.n, "b": self.b, "m": self.m}
        for name, size in sizes.items():
            if size is None:
                raise InvalidParameter(f"-{name} is missing: give -n, -b and -m")
        target = {"epsilon": self.epsilon, "noise_multiplier": self.noise_multiplier}
        exactly_one({"--epsilon": self.epsilon, "--noise-multiplier": self.noise_multiplier})
        return {
            **sizes,
            "steps": RunOptions(self.steps).count(),
            "delta": stated(self.delta, self.n),
            "relation": self.relation or Relation.REPLACE_ONE,
            "group": self.group,
            **{name: value for name, value in target.items() if value is not None},
        }


# Runs on data: a seed for experiments, a ledger to charge.


RUN = "Run"
_run = Panel(
    RUN,
    """
    --seed INT     Reproducible, for experiments only: anyone who knows the seed can subtract the
                   noise.
    --ledger FILE  Charge the release to this ledger (mustdp ledger create); one that would exceed
                   its limit is refused before the data are read.
    """,
)
SeedOption = Annotated[int | None, _run("--seed", read_natural)]
LedgerOption = Annotated[str | None, _run("--ledger")]


# Budgets of runs: a target epsilon or a noise multiplier.


_budget = Panel(
    ACCOUNTING,
    """
    --noise-multiplier Z  Instead of --epsilon: noise scale divided by the bound on what one record
                          contributes (--clip in training, half a statistic's sensitivity in
                          resampling).
    """,
)


@dataclass(frozen=True)
class BudgetOptions:
    """``--epsilon`` or ``--noise-multiplier``, and ``--delta``."""

    epsilon: TargetOption = None
    delta: DeltaOption = None
    noise_multiplier: Annotated[float | None, _budget("--noise-multiplier", read_noise)] = None

    def read(self, n: int | None) -> dict[str, Any]:
        """The one way that was chosen, and delta, as the package takes them.

        ``n``, the number of records where it is known already, only serves to recommend a delta.
        """
        exactly_one({"--epsilon": self.epsilon, "--noise-multiplier": self.noise_multiplier})
        return {**asdict(self), "delta": stated(self.delta, n)}


def declared_release(ledger: LedgerFile) -> dict[str, Any]:
    """Noise, delta and relation of the release that comes next in the plan a ledger declares."""
    from mustdp.mechanisms.mechanism import Mechanism, Proof, has_proof

    step = ledger.next_step
    if step is None:
        raise InvalidParameter(
            "--epsilon or --noise-multiplier is missing: give exactly one, since no releases were "
            "declared for this --ledger (mustdp ledger declare)"
        )
    multiplier = step.describe().get("noise_multiplier") if isinstance(step, Mechanism) else None
    if not has_proof(step, Proof.GAUSSIAN) or multiplier is None:
        raise InvalidParameter(
            "--ledger must declare releases on all records (mustdp ledger declare), got one whose "
            "declared plan has other steps next"
        )
    header = ledger.header
    noise = {"epsilon": None, "noise_multiplier": multiplier}
    return {**noise, "delta": header.delta, "relation": header.relation}

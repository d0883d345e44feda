"""``mustdp bootstrap``: estimates and intervals from noisy replicates on random subsets."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from mustdp.accounting.explanations import explain_bounds
from mustdp.cli import output
from mustdp.cli.data_options import (
    STATISTICS,
    ColumnOption,
    FileArgument,
    FileOptions,
    ReadingOptions,
    per_column,
    write_files,
)
from mustdp.cli.options import (
    ACCOUNTING,
    RUN,
    BudgetOptions,
    LedgerOption,
    SchemeOptions,
    SeedOption,
    read_relation,
    read_repeats,
)
from mustdp.cli.output import Answer, progress
from mustdp.cli.parameters import (
    Panel,
    exactly_one,
    read_inner_rate,
    read_integer,
    read_natural,
    read_number,
    with_bundles,
    word_from,
    word_of,
)
from mustdp.errors import InvalidParameter
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.formatting import percent_stated

if TYPE_CHECKING:
    from mustdp.estimation.designs import Design
    from mustdp.estimation.result import BootstrapResult

# Resampling designs.


#: Designs by the names statisticians know, and the scheme behind each.
DESIGNS = {
    "subsampling": "wor",
    "m-out-of-n": "wr",
    "poisson": "poisson",
    "must-ow": "must-ow",
    "must-ww": "must-ww",
    "double": "must-ww",
    "blb": "must-ow",
}
_resampling = Panel(
    "Resampling",
    """
    --design NAME     Instead of --scheme: subsampling (-m), m-out-of-n (-m), poisson (--rate),
                      must-ow and must-ww (-b, -m), double (double bootstrap: -b, -m, --subsets,
                      --reuse) or blb (bag of little bootstraps: -b, --subsets, --reuse).
    --replicates INT  Number of subsets, one release each. Required, unless --subsets and --reuse
                      are given.
    --subsets INT     With --reuse: number of first-stage subsets.
    --reuse R         With --subsets: second-stage draws from each first-stage subset.
    """,
)


def read_replicates(name: str, text: str) -> int:
    """A number of subsets that fits into memory."""
    from mustdp.estimation.bootstrap import FEWEST_SUBSETS
    from mustdp.estimation.designs import MOST_REPLICATES

    return read_integer(name, text, FEWEST_SUBSETS, MOST_REPLICATES)


@dataclass(frozen=True)
class DesignOptions:
    """``--design`` or a scheme, and how many subsets."""

    design: Annotated[str | None, _resampling("--design", word_of(tuple(DESIGNS)))] = None
    replicates: Annotated[int | None, _resampling("--replicates", read_replicates)] = None
    subsets: Annotated[int | None, _resampling("--subsets", read_repeats)] = None
    reuse: Annotated[int | None, _resampling("--reuse", read_repeats)] = None

    def check(self, options: SchemeOptions) -> tuple[SchemeOptions, tuple[int, int]]:
        """The scheme's options with a design's name turned into its scheme's, and the counts."""
        given = {"--design": self.design, "--scheme": options.scheme, "--stages": options.stages}
        if all(value is None for value in given.values()):
            raise InvalidParameter(
                f"--design is missing: one of {', '.join(DESIGNS)}, or --scheme or --stages instead"
            )
        exactly_one(given)
        counts = self._counts()
        if self.design in ("double", "blb") and self.reuse is None:
            raise InvalidParameter(
                f"--design {self.design} takes --subsets and --reuse: both are missing"
            )
        if self.design == "blb" and options.m is not None:
            raise InvalidParameter(
                f"-m {options.m} does not fit --design blb, which draws n of every subset"
            )
        if self.design is not None:
            options = dataclasses.replace(options, scheme=DESIGNS[self.design])
        options.check(later=("n", "m") if self.design == "blb" else ("n",))
        return options, counts

    def build(self, options: SchemeOptions, n: int, counts: tuple[int, int]) -> Design:
        """The design, once the number of records is known."""
        from mustdp.estimation.designs import Design

        m = n if self.design == "blb" else options.m
        return Design(dataclasses.replace(options, n=n, m=m).build(), *counts)

    def _counts(self) -> tuple[int, int]:
        """Number of first-stage subsets and how often each is used."""
        if self.subsets is None and self.reuse is None:
            if self.replicates is None:
                raise InvalidParameter(
                    "--replicates is missing: give the number of subsets, 2 or more"
                )
            return self.replicates, 1
        if self.subsets is None or self.reuse is None:
            raise InvalidParameter("--subsets and --reuse go together: one of them is missing")
        releases = self.subsets * self.reuse
        if self.replicates not in (None, releases):
            raise InvalidParameter.refusing(
                "--replicates",
                f"must be left out or be --subsets times --reuse = {releases}",
                self.replicates,
            )
        return self.subsets, self.reuse


# The command.


_statistics = Panel(
    STATISTICS,
    """
    --lower L          Required: lower end of the public range; values below are clipped to it.
                       Once, or once for each --column. Public means known without looking at the
                       data.
    --upper U          Required: upper end of the public range; values above are clipped to it.
    --statistic NAME   What to estimate, mean by default: {for_bootstrap}; docs/cli.md explains
                       them. May be repeated.
    --interval KIND    normal; percentile, bootstrap-t and BCa raise an error that says why.
    --level LEVEL      Coverage of the interval.
    --simultaneous     Widen all intervals until they hold together (Bonferroni).
    --population SIZE  Size of the population that the records were drawn from, without replacement.
    """,
)
_run = Panel(
    RUN,
    """
    --workers INT   Processes on this machine. Default: as many as the work is worth.
    --dask ADDRESS  Run on a Dask cluster: the scheduler's address (tls://...), or local.
    --insecure      Accept a scheduler without certificates (tcp://...): anyone who reaches it can
                    read the records and run code.
    """,
)
_accounting = Panel(
    ACCOUNTING,
    """
    --relation NAME  Which data sets are neighbours: replace-one (one record is replaced) or
                     add-remove (one record added or removed). Default: add-remove for poisson and
                     truncated-poisson, replace-one otherwise.
    """,
)


@dataclass(frozen=True)
class ResamplingOptions:
    """What :func:`mustdp.private_bootstrap` takes under the same names."""

    relation: Annotated[Relation | None, _accounting("--relation", read_relation)] = None
    interval: Annotated[
        str,
        _statistics("--interval", word_from("mustdp.estimation.bootstrap", "WORDS")),
    ] = "normal"
    level: Annotated[float, _statistics("--level", read_inner_rate)] = 0.95
    simultaneous: Annotated[bool, _statistics("--simultaneous")] = False
    population: Annotated[int | None, _statistics("--population", read_natural)] = None
    seed: SeedOption = None


@dataclass(frozen=True)
class ExecutionOptions:
    """What :class:`mustdp.types.Execution` takes under the same names."""

    workers: Annotated[int | None, _run("--workers", partial(read_integer, high=4096))] = None
    dask: Annotated[str | None, _run("--dask")] = None
    insecure: Annotated[bool, _run("--insecure")] = False


@with_bundles
def bootstrap(
    file: FileArgument,
    *,
    scheme: SchemeOptions,
    design: DesignOptions,
    budget: BudgetOptions,
    reading: ReadingOptions,
    column: ColumnOption = None,
    lower: Annotated[list[float] | None, _statistics("--lower", read_number)] = None,
    upper: Annotated[list[float] | None, _statistics("--upper", read_number)] = None,
    statistic: Annotated[list[str] | None, _statistics("--statistic")] = None,
    settings: ResamplingOptions,
    execution: ExecutionOptions,
    ledger: LedgerOption = None,
    files: FileOptions,
) -> Answer:
    """Estimate with confidence intervals from noisy replicates, at a certified total cost.

    -n may be left out: it is the number of rows of the file (not with poisson under add-remove,
    where that number is private and -n a public estimate of it). Only drawn rows of a Parquet file
    are read. Everything is checked, calibrated and certified before anything is computed from the
    data.

    Example: mustdp bootstrap ages.csv --column age --lower 0 --upper 100 --statistic mean
    --design subsampling -m 500 --replicates 100 --epsilon 1 --delta 1e-6
    """
    limits: dict[str, Any] = {
        "lower": _limits("--lower", lower, column),
        "upper": _limits("--upper", upper, column),
    }
    noise = budget.read(scheme.n)
    options, counts = design.check(scheme)
    written = files.paths()

    from mustdp.data.opening import open_source, refuse_dropping
    from mustdp.estimation.bootstrap import Execution, check_ranges, private_bootstrap
    from mustdp.estimation.result import InferenceNote
    from mustdp.estimation.schema import check_limits
    from mustdp.estimation.statistics.statistic import read_statistic
    from mustdp.randomness.keys import SeededRelease
    from mustdp.reporting.release_page import bootstrap_page

    where = Execution(**asdict(execution))
    check_limits(**limits)
    wanted = [read_statistic(name) for name in statistic or ("mean",)]
    check_ranges(wanted, column or None, **limits)
    data: Any = reading.of(file)
    refuse_dropping(data)
    if options.n is None:
        options.size_is_private(settings.relation)  # the answer shows it
        with progress(f"opening {file}"):
            data = open_source(data, tuple(column) if column else None)
    plan = design.build(options, options.n or data.n, counts)
    from mustdp.ledger.release import open_existing

    opened = nullcontext() if ledger is None else open_existing(ledger)
    with (
        warnings.catch_warnings(),
        progress("certifying and resampling") as move,
        opened as charged,
    ):
        # Both are part of the answer: the notes below the table, the seed as a remark.
        warnings.simplefilter("ignore", InferenceNote)
        warnings.simplefilter("ignore", SeededRelease)
        result = private_bootstrap(
            data, wanted, design=plan, columns=tuple(column) if column else None,
            execution=where, progress=move, ledger=charged, **limits, **noise, **asdict(settings),
        )  # fmt: skip
        standing = None if charged is None else charged.standing()
        write_files(written, lambda: bootstrap_page(result, standing), result)
    return _answer(result, settings.seed)


def _limits(
    name: str, values: list[float] | None, columns: list[str] | None
) -> float | tuple[float, ...]:
    if not values:
        raise InvalidParameter(f"{name} is missing: give the end of the range that is known")
    return per_column(name, values, columns or ("",))


def _answer(result: BootstrapResult, seed: int | None) -> Answer:
    privacy = result.privacy
    if privacy.plan is not None:
        output.two_sided(privacy.epsilon, "here")
    data = result.as_dict()
    data["privacy"]["relation"] = privacy.relation.option
    percent = f"{percent_stated(result.level)} interval"
    design = result.design
    reused = f", each used {design.reuse} times" if design.reuse > 1 else ""
    return Answer(
        data,
        heading=output.heading_with_seed(
            privacy, f"{output.describe(design.scheme)}; subsets: {design.subsets}{reused}"
        ),
        columns=("estimate of", "value", "standard error", percent, "noise share"),
        rows=tuple(
            (
                estimate.description or estimate.label,
                *output.estimate_cells(estimate),
                f"{100 * estimate.noise_share:.0f} %",
            )
            for estimate in result.estimates
        ),
        note="\n".join((*_cost(result), *(f"note: {note}." for note in result.notes))),
        remark=output.seed_in_words(seed),
    )


def _cost(result: BootstrapResult) -> Iterator[str]:
    privacy = result.privacy
    relation = privacy.relation
    if privacy.plan is None:
        yield f"epsilon: no guarantee is known ({privacy.source})."
    else:
        yield output.spent_in_words(privacy, "for all replicates together")
        yield explain_bounds(privacy.epsilon, "epsilon", relation, result.design.scheme)
    settled = output.run_noise_in_words(privacy.noise_multiplier, privacy.source, relation)
    yield f"gaussian noise, {settled}"
    if privacy.dimension == 1:
        yield "accounted for as one number a subset (dimension 1)."
    yield "noise share: part of the squared standard error that the noise causes."

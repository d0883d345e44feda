"""The sum of clipped gradients over a multiset: the only thing noise is added to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.dropout import _DropoutNd
from torch.utils._pytree import tree_leaves

from mustdp.errors import InvalidParameter, NotCovered, NumericalFailure
from mustdp.mechanisms.relation import Relation, most_copies
from mustdp.numerics import checks
from mustdp.randomness.keys import BatchKey, Substreams
from mustdp.sampling.epochs import Sampling
from mustdp.sampling.schemes import Batch
from mustdp.training.networks.bookkeeping import (
    Bookkeeping,
    Contributions,
    MaskContext,
    RecordByRecord,
    trainable,
)
from mustdp.training.networks.devices import full_precision, sent
from mustdp.training.networks.graphs import PieceGraph, Totals, captured, settings_of
from mustdp.training.networks.layers import gamma
from mustdp.training.networks.loaders import Rows, TrainingRecords
from mustdp.training.networks.rules import ClippingRule
from mustdp.training.networks.separation import Loss, Unsuitable, Watch
from mustdp.training.networks.single_precision import (
    FEWEST_WEIGHTS,
    relative_error,
    rows_of_blocks,
    underflow,
)
from mustdp.training.networks.units import Slots, UnitRecords, Views

# The clipping bound: how much shorter than C a record is clipped, so that rounding cannot carry it
# beyond C.
#
# The sum that is released differs from the sum of the clipped contributions in real arithmetic by
# E at most: by the rounding of products and sums in double precision, and by the rounding to a
# lattice. Contributions are clipped to C' <= C - 2 E. Replacing a record that was drawn j >= 1
# times then moves the sum by 2 j C' + 2 E <= 2 j C at most, adding one by j C' + 2 E <= j C, and
# the plan's noise multiplier is what it was. C' depends on sizes that are settled before the first
# step and on nothing in the data. The derivation is in docs/derivations/clipping.md.


#: Clipping norms C that are allowed: between them no weight and no weighted product underflows or
#: overflows.
SMALLEST_NORM, LARGEST_NORM = 1e-30, 1e30
#: By how much the terms of a record may cancel before it is scaled down further, at most.
_MOST_CANCELLATION = 2**10
#: Share of C that the rounding of sums should not exceed; the above is reduced for it, but not
#: below what terms of random signs at some hundred places come to.
_USUAL_ROUNDING, _LEAST_CANCELLATION = 2.0**-10, 16
#: Share of C that rounding may take in all; beyond it the sizes are refused.
_MOST_ROUNDING = 2.0**-7
#: The lattice is finer than the noise by this factor, unless the integers would not fit.
_BELOW_NOISE = 2.0**-24
#: Sums are integers below this on the lattice, so that doubles hold them exactly.
_LARGEST_INTEGER = 2.0**52
#: The lattice is no finer than this part of the noise: finer noise cannot be made exactly.
_FINEST_STEP = 2.0**-32


@dataclass(frozen=True)
class Workload:
    """The most that one step may ask for, whatever the data are.

    ``copies`` are records with their counts, over all processes; ``terms`` products are added up
    in one entry of the sum over a piece of the batch; ``pieces`` are added up by one process.
    Batches of at most ``in_blocks`` copies may be added up in blocks of single precision, 0 for
    none.
    """

    copies: int
    terms: int
    pieces: int
    parameters: int
    processes: int = 1
    in_blocks: int = 0


@dataclass(frozen=True)
class Bound:
    """What a contribution is scaled down to, and the lattice its sum is rounded to.

    ``inner`` is C', ``cancellation`` the largest ratio of absolute size to C', ``step`` a power of
    two and ``error`` the E that all of it was derived from. Of batches that are not too large,
    ``block`` rows are added up in single precision, 0 for none.
    """

    max_grad_norm: float
    inner: float
    cancellation: float
    step: float
    error: float
    workload: Workload
    block: int = 0

    def block_for(self, copies: int) -> int:
        """Rows of a block for a batch of so many records, over all processes."""
        return self.block if copies <= self.workload.in_blocks else 0

    def check(self, terms: int, pieces: int) -> None:
        """Refuse a step that asks for more than the error was derived for."""
        most = self.workload
        if not (terms <= most.terms and pieces <= most.pieces):
            raise NumericalFailure(
                "a step is larger than the bound on its rounding was derived for, with more than "
                f"{most.terms} terms in a sum or {most.pieces} pieces; all records must have the "
                "shape of those the model was tried on. Nothing of it was released"
            )

    def check_size(self, copies: int) -> None:
        """Refuse a batch of more records than the error was derived for."""
        if not copies <= self.workload.copies:
            raise NumericalFailure(
                f"a batch has more than the {self.workload.copies} records that the bound on its "
                "rounding was derived for. Nothing of it was released"
            )


def check_max_grad_norm(max_grad_norm: object) -> float:
    """The bound C as a number in the range that the arithmetic is proven for."""
    return checks.real("max_grad_norm", max_grad_norm, at_least=SMALLEST_NORM, at_most=LARGEST_NORM)


def bound_for(max_grad_norm: float, deviation: float, workload: Workload) -> Bound:
    """The bound for contributions of norm ``max_grad_norm`` under noise of this deviation."""
    relative = gamma(workload.terms + workload.pieces + 3) * workload.copies
    cancellation = float(_MOST_CANCELLATION)
    while cancellation > 1.0 and cancellation * relative > (
        _USUAL_ROUNDING if cancellation > _LEAST_CANCELLATION else _MOST_ROUNDING / 2.0
    ):
        cancellation /= 2.0
    step = _step(max_grad_norm, deviation, workload)
    in_lattice = workload.processes * math.sqrt(workload.parameters) * step / 2.0
    error = (cancellation * relative * max_grad_norm + in_lattice) * (1.0 + 2.0**-40)
    block, of_blocks = _blocks(max_grad_norm, workload)
    if not error <= _MOST_ROUNDING * max_grad_norm:
        raise InvalidParameter(
            f"rounding could move the sum by {error / max_grad_norm:.2g} times the clipping norm, "
            f"which leaves too little of it: batches of up to {workload.copies} records and "
            f"{workload.parameters} parameters are too many; smaller batches or max_rows help"
        )
    error = (error + of_blocks) * (1.0 + 2.0**-40)
    inner = (max_grad_norm - 2.0 * error) * (1.0 - 2.0**-48)
    return Bound(max_grad_norm, inner, cancellation, step, error, workload, block)


def _blocks(max_grad_norm: float, workload: Workload) -> tuple[int, float]:
    """Rows of a block in single precision, and by how much their rounding can move a sum."""
    block = rows_of_blocks(workload.in_blocks) if workload.in_blocks else 0
    under = underflow(workload.terms, workload.pieces, workload.parameters)
    if not block or under > 2.0**-20 * max_grad_norm:
        return 0, 0.0
    return block, relative_error(block) * workload.in_blocks * max_grad_norm + under


def _step(max_grad_norm: float, deviation: float, workload: Workload) -> float:
    """The lattice: far below the noise, fine enough for many parameters, and fit for integers."""
    among = workload.processes * math.sqrt(workload.parameters)
    fine = min(deviation * _BELOW_NOISE, max_grad_norm * 2.0**-12 / among)
    fits = max(2.0 * workload.copies * max_grad_norm / _LARGEST_INTEGER, deviation * _FINEST_STEP)
    if fine <= fits:
        return 2.0 ** math.ceil(math.log2(fits))
    return 2.0 ** max(math.floor(math.log2(fine)), math.ceil(math.log2(fits)))


# The sum over a multiset. Each distinct record is computed once. Its gradient is scaled down to
# norm C if it is longer and then counted as often as the record was drawn. A batch may be worked on
# in pieces; sums add up.
#
# In floating point "to norm C" means: a bound from above of the norm, a weight rounded down, and a
# little less than C, so that the rounding of the sum fits in between (:func:`bound_for`).


#: Records, and how often each of them was drawn.
Piece = tuple[Rows, Tensor]
Scales = Callable[[int], Tensor]


@dataclass(frozen=True)
class Trial:
    """A few records, and the same in every second place among others."""

    rows: Rows
    other: Rows


class Way(Protocol):
    """A way to the contributions of the records of a piece."""

    name: str
    reason: str
    most_rows: int

    def contributions(self, rows: Rows, scales: Tensor | None = None) -> Contributions:
        """Losses and gradients of these records; with ``scales``, checked for separation."""

    def alike(self, loss: Loss | None = None) -> AbstractContextManager[None]:
        """Inside, what is drawn at random is the same for all records; ``loss`` if it is given."""


@dataclass
class ClippedSum:
    """Sum of clipped gradients, in the order of the parameters, then a rule's further numbers.

    ``loss`` is the sum of the losses over the multiset; it is not private. ``not_finite`` counts
    records whose gradient is not a number or infinite: if there are any the sum is worthless.
    """

    gradients: list[Tensor]
    loss: Tensor
    not_finite: Tensor


class Clipper:
    """Clips the gradients of a model; how they are found is decided once, on a few records."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        trials: Sequence[Trial],
        masks: MaskContext,
        mixed: torch.dtype | None = None,
        rule: ClippingRule | None = None,
        slots: Slots | None = None,
    ) -> None:
        self._model, self.rule = model, rule or ClippingRule()
        self.slots = slots or Slots()
        self.parameters = list(trainable(model).values())
        self._watch, self._loss, self._mixed = Watch(model, loss), loss, mixed
        #: What adds up pieces of the usual shape in place of Python, once it was tried.
        self.graph: PieceGraph | None = None
        with torch.enable_grad():
            self.way, self.places = self._decide(loss, trials, masks, mixed)

    def _decide(
        self, loss: Loss, trials: Sequence[Trial], masks: MaskContext, mixed: torch.dtype | None
    ) -> tuple[Way, int]:
        """Follow the model layer by layer if that works for all trials, else as a whole.

        With trials of several sizes a layer whose first dimension is not the record shows itself
        in one of them, even if it looks like a model that mixes records in another.
        """
        before = self._watch.start()
        problems: list[NotCovered] = []
        try:
            way = Bookkeeping(self._model, loss, mixed, self.slots.number)
        except Unsuitable as problem:
            problems.append(problem)
        else:
            places = 1
            failure: Exception | None = None
            for trial in trials:
                try:
                    terms = way.try_out(trial.rows, trial.other, masks)
                    places = max(places, -(-terms // len(trial.rows.target)))
                except NotCovered as problem:
                    problems.append(problem)
                except Exception as problem:
                    failure = problem
                # What a model or a loss keeps explains a failure best.
                self._watch.check(before)
                if failure is not None:
                    raise failure
            if not problems:
                return way, places
        reasons = [str(problem) for problem in problems if isinstance(problem, Unsuitable)]
        if not reasons:
            raise problems[0]
        self._watch.check(before)
        slow = RecordByRecord(self._model, loss, mixed, reasons[0], self.slots.number)
        for trial in trials:
            with masks():
                slow.contributions(trial.rows.copied())
        self._watch.check(before)
        return slow, 1

    @property
    def is_dense(self) -> bool:
        """Whether most of the work is in products at one place, enough for single precision."""
        dense = [m.weight.numel() for m in self._model.modules() if isinstance(m, nn.Linear)]
        followed = isinstance(self.way, Bookkeeping) and self.places == 1
        return followed and max(dense, default=0) >= FEWEST_WEIGHTS

    def try_again(self, trial: Trial, masks: MaskContext) -> None:
        """Try a few records of a batch, unless they are alone; what is found now ends the run."""
        self._watch.start()
        if isinstance(self.way, Bookkeeping) and not self.way.alone:
            try:
                self.way.compare(trial.rows, trial.other, masks)
            except Unsuitable as problem:
                raise NotCovered(str(problem)) from None

    def results(self, rows: Rows) -> list[Tensor]:
        """All that decides what these records contribute to a sum, records first."""
        found = self.way.contributions(self.slots.plain(rows))
        with torch.no_grad(), full_precision(rows.target.device):
            return found.by_record()

    def sum(
        self,
        pieces: Iterable[Piece],
        masks: AbstractContextManager[None],
        bound: Bound,
        scales: Scales | None = None,
        block: int = 0,
    ) -> ClippedSum:
        """Clip and add up; no piece at all is an empty batch, whose sum is zero.

        With ``scales`` the records of every piece are checked for separation on the way. ``block``
        is what :meth:`Bound.block_for` gives for the batch.
        """
        before = self._watch.start()
        device = self.parameters[0].device
        totals = Totals.empty(device, self.rule.released)
        terms = number = 0
        with torch.enable_grad(), masks:
            graph = None if scales is not None else self.graph
            for rows, counts in pieces:
                if graph is not None and not graph.takes(rows):
                    graph = None
                if graph is not None:
                    if not number:
                        graph.begin()
                        totals = graph.totals
                    graph.add(rows, counts)
                    found_terms = graph.terms
                else:
                    tried = None if scales is None else scales(len(rows.target)).to(device)
                    found_terms = self._add(rows, counts, totals, bound, tried, block).terms
                terms, number = max(terms, found_terms), number + 1
        self._watch.check(before)
        bound.check(terms, number)
        for p in self.parameters:
            if id(p) not in totals.sums:
                totals.sums[id(p)] = torch.zeros_like(p, dtype=torch.float64)
        released = [totals.sums[id(p)] for p in self.parameters]
        numbers = [totals.numbers] * bool(self.rule.released)
        return ClippedSum(released + numbers, totals.loss, totals.bad)

    def _add(
        self,
        rows: Rows,
        counts: Tensor,
        totals: Totals,
        bound: Bound,
        tried: Tensor | None = None,
        block: int = 0,
    ) -> Contributions:
        """Clip a piece and add it to the totals."""
        found = self.way.contributions(rows, tried)
        with torch.no_grad(), full_precision(rows.target.device):
            sizes, counts = found.sizes(), counts.double()
            limits = bound.inner, bound.cancellation
            weights = self.rule.weights(found, *limits)
            counted = {id(own): own * counts for own in weights}
            found.add_weighted([counted[id(own)] for own in weights], totals.sums, block)
            further = self.rule.numbers(sizes, counts, *limits)
            if further is not None:
                totals.numbers += further
            totals.loss += found.losses.double() @ counts
            totals.bad += (sizes.squares + sizes.absolute).isfinite().logical_not_().sum()
        return found

    def captured(self, rows: Rows, bound: Bound) -> PieceGraph | None:
        """A graph for pieces like this one, where nothing but torch's own modules runs.

        What a rule remembers, or a layer draws, changes from step to step and would not in a graph.
        """
        known = isinstance(self.way, Bookkeeping) and not self.way.alone
        draws = any(isinstance(m, _DropoutNd) and m.training and m.p for m in self._model.modules())
        fixed = self.rule.state() is None and not self.rule.released and self._mixed is None
        plain = self.slots.number == 1 and rows.weights is None and rows.target.is_cuda
        if not known or draws or not fixed or not plain:
            return None

        def add(piece: Rows, counts: Tensor, totals: Totals) -> Contributions:
            return self._add(piece, counts, totals, bound)

        def settings() -> Any:
            return settings_of(self._model, self._loss)

        with torch.enable_grad():
            return captured(add, rows, self.parameters, settings)


# A record's contribution must not depend on its place in a piece, to the last bit.
#
# A matrix product may treat the last rows of a block, or rows at odd addresses, with another
# kernel that adds up in another order. Adding one record then moves all others by a place and
# changes their last bits, and a record made for it (heavy cancellation, a target at the midpoint)
# turns its whole clipped gradient round: the sum moves by many times C where C is charged.
#
# So every piece has one shape, filled up with copies that count zero times, and before the first
# step the same record is put at every place of a piece. What decides its contribution must come
# out the same, bit by bit: at every place, among copies of itself and among others. Where it does
# not, pieces are made smaller, in the end of one record each, which has one place only; a model
# that then still gives the same record different results is refused. On a CPU, linear layers are
# given a multiple of eight rows and columns, with which all rows were found to agree.
#
# That places agree is tried, not proved: on a few records, on this machine, and again on the
# batches 1, 2, 4, 8, ... and whenever shapes or threads change.


#: Rows of a piece come in multiples of this where there are as many: no kernel that works on
#: several rows or numbers at once is left with a remainder.
ROW_MULTIPLE = 32
#: On a CPU fewer do, where the trial agrees; rows that are filled up cost as much as others.
CPU_ROW_MULTIPLE = 8
#: Different records that are compared at two places at least: another order of addition changes
#: the last bits of many records, but not of all.
_RECORDS_TURNED = 128
_DIFFERENT = (
    "the results of a record depend on its place in the batch, or are not the same whenever it is "
    "computed, so that one record may change those of all others; "
)
#: What decides the contributions of the records of a piece, records first.
Results = list[Tensor]


class Places:
    """Finds the number of rows with which all places agree, and watches that it stays so."""

    def __init__(
        self, clipper: Clipper, model: nn.Module, masks: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._clipper, self._model, self._masks = clipper, model, masks
        self._tried: set[Any] = set()

    def find_rows(self, records: Rows, rows: int) -> int:
        """The largest number of rows, at most this, with which two records agree everywhere."""
        with torch.enable_grad(), _stirred(self._model):
            while not all(
                self._agree(_filled_with(records, 2), rows, loss)
                and all(
                    self._turn_round(_filled_with(records, rows, piece), loss)
                    for piece in range(-(-_RECORDS_TURNED // rows))
                )
                for loss in (_projected, None)
            ):
                if rows == 1:
                    raise NotCovered(
                        _DIFFERENT + "no part of the model may draw at random by itself, keep "
                        "a state or add up in an order that changes"
                    )
                rows = smaller(rows)
        self._tried = {_kind(records)}
        return rows

    def capture(self, records: Rows, rows: int, bound: Bound) -> None:
        """Let a graph add up pieces, where one can be made and has the same result at all places.

        It is tried as the kernels that Python launches are, on records like these.
        """
        with self._masks():
            graph = self._clipper.captured(_filled_with(records, rows), bound)
        if graph is None:
            return
        with torch.enable_grad(), _stirred(self._model):
            if self._agree(_filled_with(records, 2), rows, None, graph) and all(
                self._turn_round(_filled_with(records, rows, piece), None, graph)
                for piece in range(-(-_RECORDS_TURNED // rows))
            ):
                self._clipper.graph = graph

    def watched(self, pieces: Iterable[Piece], again: bool) -> Iterator[Piece]:
        """The pieces; those of a kind that was not tried yet are, and the first if ``again``."""
        for rows, counts in pieces:
            kind = _kind(rows)
            if again or kind not in self._tried:
                graph = self._clipper.graph
                ways = [None] if graph is None or not graph.takes(rows) else [None, graph]
                two, number = _first_two(rows), len(rows.target)
                if not all(self._agree(two, number, None, way) for way in ways):
                    raise NotCovered(_DIFFERENT + "a smaller max_rows may help")
                self._tried.add(kind)
            again = False
            yield rows, counts

    def _agree(
        self, both: Rows, rows: int, loss: Loss | None = None, graph: PieceGraph | None = None
    ) -> bool:
        """Whether each of two records gives the same at all places, alone and side by side."""
        places = torch.arange(rows, device=both.target.device)
        found = []
        for record in (0, 1):
            first: Results = []
            results = self._results(_at(both, torch.full_like(places, record)), loss, graph)
            for values in results:
                if not _equal(values, values[:1].expand_as(values)):
                    return False
                first.append(values[0].clone())
            found.append(first)
            del results
        which = places % 2
        mixed = self._results(_at(both, which), loss, graph)
        return all(
            _equal(values[which == record], first.expand_as(values[which == record]))
            for record in (0, 1)
            for values, first in zip(mixed, found[record], strict=True)
        )

    def _turn_round(self, rows: Rows, loss: Loss | None, graph: PieceGraph | None = None) -> bool:
        """Whether different records give the same in the opposite order."""
        opposite = torch.arange(len(rows.target) - 1, -1, -1, device=rows.target.device)
        found = [values.clone() for values in self._results(rows.copied(), loss, graph)]
        turned = self._results(_at(rows, opposite), loss, graph)
        return all(_equal(one, other.flip(0)) for one, other in zip(found, turned, strict=True))

    def _results(self, rows: Rows, loss: Loss | None, graph: PieceGraph | None) -> Results:
        if graph is not None:
            return graph.results(rows)
        with self._clipper.way.alike(loss), self._masks():
            return self._clipper.results(rows)


def _projected(outputs: Any, target: Any) -> Tensor:
    """A loss whose errors are the same for every record and none of them zero.

    Of the loss that is trained, records may be chosen so that it is flat, or hides small changes.
    """
    first: Tensor = tree_leaves(target)[0]
    found = first.new_zeros(len(first), dtype=torch.get_default_dtype())
    for values in tree_leaves(outputs):
        if isinstance(values, Tensor) and values.ndim and values.is_floating_point():
            flat = values.reshape(len(found), -1)
            factors = torch.arange(flat.shape[1], device=flat.device).add(1.0).sin().to(flat.dtype)
            found = found + (flat * factors).sum(1)
    return found


def smaller(rows: int) -> int:
    """The next number of rows to be tried."""
    if rows > ROW_MULTIPLE and rows % ROW_MULTIPLE:
        return rows // ROW_MULTIPLE * ROW_MULTIPLE
    if rows > ROW_MULTIPLE:
        return max(ROW_MULTIPLE, rows // 2 // ROW_MULTIPLE * ROW_MULTIPLE)
    return 1 << ((rows - 1).bit_length() - 1)


def _kind(rows: Rows) -> Any:
    """What a choice of kernels may depend on, beside the values."""
    shapes = tuple((x.shape[1:], x.dtype) for x in (*rows.inputs, rows.target))
    return shapes, torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()


def _at(records: Rows, which: Tensor) -> Rows:
    return records.changed(lambda x: x.index_select(0, which))


def _first_two(rows: Rows) -> Rows:
    """Two records of a piece, which may be the same one."""
    last = len(rows.target) - 1
    return _at(rows, torch.tensor([0, min(1, last)], device=rows.target.device))


def _filled_with(records: Rows, count: int, number: int = 0) -> Rows:
    """``count`` records made of these: all but the first have numbers with all bits in use.

    Another ``number`` gives others; in every second piece signs change as well, so that units are
    active that are not for the records of the trial.
    """
    which = torch.arange(count, device=records.target.device) % len(records.target)
    found = _at(records, which)
    generator = torch.Generator().manual_seed(count + (number << 32))
    for values in (*found.inputs, found.target):
        if values.is_floating_point():
            factors = torch.rand(values.shape, generator=generator).add_(0.5)
            if number % 2:
                factors *= torch.rand(values.shape, generator=generator).sub_(0.5).sign_()
            factors[0] = 1.0
            values *= factors.to(values)
    return found


def _equal(one: Tensor, other: Tensor) -> bool:
    same = one == other
    if one.is_floating_point():
        same |= one.isnan() & other.isnan()
    return bool(same.all())


@contextmanager
def _stirred(model: nn.Module) -> Iterator[None]:
    """The parameters moved a little inside: zeros and round numbers would hide what is rounded."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        kept = [(p, p.detach().clone()) for p in model.parameters() if p.is_floating_point()]
    try:
        with torch.no_grad():
            for p, _ in kept:
                size = float(p.square().mean().sqrt()) or max(1, p[:1].numel()) ** -0.5
                p.add_(torch.randn(p.shape, generator=generator).to(p), alpha=size / 4.0)
        yield
    finally:
        with torch.no_grad():
            for p, before in kept:
                p.copy_(before)


# A batch in pieces of one shape, and the most that a step of a scheme may ask for.


#: Records that are worked on at once, at most: the rounding of a sum grows with their number.
_MOST_ROWS = 1 << 13
#: How many times longer than in the trial a record may be.
_MOST_TIMES_LONGER = 4


def rows_of_pieces(
    scheme: Sampling,
    relation: Relation,
    processes: int,
    fit: int,
    max_rows: int | None,
    slots: int = 1,
    multiple: int = ROW_MULTIPLE,
) -> int:
    """How many rows every piece has, from public sizes alone.

    One piece is enough for nearly all batches, unless fewer rows fit; rows that are filled up cost
    as much as others.
    """
    most = max(1, min(fit, _MOST_ROWS // slots, (max_rows or _MOST_ROWS) // slots))
    distinct = scheme.expected_distinct / processes
    varies = 1.0 - scheme.expected_distinct / _most_distinct(scheme, relation)
    usual = max(1, math.ceil(distinct + 2.0 * math.sqrt(distinct * max(0.0, varies))))
    rows = -(-usual // -(-usual // most))
    filled = -(-rows // multiple) * multiple
    return filled if filled <= most else most // multiple * multiple or most


def _most_distinct(scheme: Sampling, relation: Relation) -> int:
    copies = most_copies(scheme, relation)
    return min(copies, scheme.n + 1) if scheme.fixed_size else copies


class Pieces:
    """Cuts batches into pieces of ``rows`` rows; the last piece is filled up."""

    def __init__(
        self,
        records: TrainingRecords | UnitRecords,
        device: torch.device,
        clipper: Clipper,
        rows: int,
    ) -> None:
        self._records, self._device, self._clipper = records, device, clipper
        self._rows = rows

    def of(self, batch: Batch) -> Iterator[Piece]:
        """Records on the device, each piece with the counts of its records; 0 where filled up."""
        rows = self._rows
        for start in range(0, batch.distinct, rows):
            part = slice(start, start + rows)
            counts = torch.tensor(batch.counts[part], dtype=torch.float64)
            counts = functional.pad(counts, (0, rows - len(counts)))
            found = self._clipper.slots.filled(self._records.take(batch.indices[part], rows))
            yield found, sent(counts, self._device)

    def workload(self, scheme: Sampling, relation: Relation, processes: int) -> Workload:
        """The most that one step of the scheme may ask for, from its description alone.

        A Poisson batch, or a bin of an allocation, may be as large as the data, of whose size the
        scheme has an estimate only under add/remove. Records may turn out longer than those that
        were tried, up to a point.
        """
        clipper = self._clipper
        copies = most_copies(scheme, relation)
        size = scheme.expected_size
        usual = min(copies, math.ceil(size + 8.0 * math.sqrt(size)))
        return Workload(
            copies=copies,
            terms=_MOST_TIMES_LONGER * self._clipper.places * self._rows * clipper.slots.number,
            pieces=-(-_most_distinct(scheme, relation) // self._rows),
            parameters=sum(p.numel() for p in clipper.parameters) + clipper.rule.released,
            processes=processes,
            in_blocks=usual if clipper.is_dense and self._device.type == "cpu" else 0,
        )


# Which records a model is tried on for separation: before the first step, and again on the way.
#
# The records are drawn at random, in two numbers that are primes, so that a layer whose first
# dimension is something else than the record cannot pass for one that counts records in both. In
# training the records of the batches 1, 2, 4, 8, ... are tried: a model may mix records only where
# the data has something that the first trials did not show.


#: The purpose of the generators of trials (``randomness/keys.py``): "tria" in ASCII.
_TRIALS = 0x74726961
#: Records in the trials before the first step; the last number is also that of later ones.
_TRIAL_SIZES = (5, 7)


class Trials:
    """Draws the records of trials, each from a stream of its own."""

    def __init__(
        self, records: TrainingRecords, key: BatchKey, rank: int = 0, views: Views | None = None
    ) -> None:
        self._records, self._views = records, views
        self._generators = Substreams(key, _TRIALS, (rank,))

    def at_first(self) -> list[Trial]:
        """Records from all of the data."""
        everything = np.arange(self._records.n)
        rng = self._generators.at(0)
        return [self._trial(everything, size, rng) for size in _TRIAL_SIZES]

    @staticmethod
    def due(step: int) -> bool:
        """Whether a step, the first one being 0, is one of those that are tried."""
        return step & (step + 1) == 0

    def of_batch(self, step: int, indices: NDArray[np.int64]) -> Trial:
        """A few records of this step's batch, which must not be empty."""
        return self._trial(indices, _TRIAL_SIZES[-1], self._generators.at(step + 1))

    def scales(self, step: int) -> Scales:
        """Factors 1, 2, 4 or 8, at random, for each of a number of records."""
        rng = self._generators.at(step + 1)
        return lambda rows: torch.tensor(2.0 ** rng.integers(4, size=rows))

    def _trial(self, among: NDArray[np.int64], size: int, rng: np.random.Generator) -> Trial:
        """Every record is fetched once: a dataset may draw a new view of it each time."""
        rows = self._records.take(rng.choice(among, 2 * size))
        rows = rows if self._views is None else self._views.once(rows)
        beside = torch.arange(size, 2 * size, device=rows.target.device)
        beside[::2] -= size
        return Trial(rows.changed(lambda x: x[:size]), _at(rows, beside))

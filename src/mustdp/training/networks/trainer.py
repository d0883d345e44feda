"""Train a torch model with a certified budget: draw, clip, add noise, update, be charged."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn
from weakref import ref

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from mustdp.calibration.budget import STRATEGY_UNIT, Budget, scheme_of_a_group
from mustdp.errors import InvalidParameter, MustdpError, NotCovered
from mustdp.ledger.ledger import Ledger
from mustdp.ledger.release import LedgerOrPath
from mustdp.mechanisms.relation import drawn_from
from mustdp.numerics import checks
from mustdp.randomness.keys import BatchKey, Substreams, release_key
from mustdp.sampling.schemes import Batch, BatchesInTurn, BatchStream
from mustdp.training.networks.bookkeeping import MaskContext, trainable
from mustdp.training.networks.checkpoint import (
    RunCharge,
    SavedRun,
    check_state,
    ledger_after,
    restore_state,
    run_description,
    shared_facts,
)
from mustdp.training.networks.clipping import (
    CPU_ROW_MULTIPLE,
    ROW_MULTIPLE,
    ClippedSum,
    Clipper,
    Pieces,
    Places,
    Trial,
    Trials,
    bound_for,
    check_max_grad_norm,
    rows_of_pieces,
)
from mustdp.training.networks.distributed import Ranks
from mustdp.training.networks.events import (
    Callback,
    RunPrivacy,
    StepEvent,
    TrainingBar,
    TrainingResult,
)
from mustdp.training.networks.loaders import Rows, TrainingRecords, check_budget
from mustdp.training.networks.noise import (
    Bands,
    StepNoise,
    as_gradients,
    on_lattice,
    refuse_not_finite,
)
from mustdp.training.networks.rules import (
    AutomaticClipping,
    ClippingRule,
    QuantileClipping,
    clipping_rule,
)
from mustdp.training.networks.separation import (
    Loss,
    as_before,
    no_activation_checkpoints,
    place_of,
    refuse_mixing,
)
from mustdp.training.networks.settings import Checkpoint, Compute, Schedule
from mustdp.training.networks.units import Augment, Slots, UnitRecords, Units, Views

# Ownership: a run belongs to one trainer, in one process, and to one thread at a time.
#
# A copy of a trainer, a fork of its process or a second thread would draw the same batches again
# under other noise, or release steps that nothing was charged for.


_taking = threading.Lock()
#: The parameters that a run is working on at the moment, by their identity.
_in_use: set[int] = set()


@contextmanager
def exclusive(model: nn.Module) -> Iterator[None]:
    """Keep other trainers away from the parameters of a model."""
    mine = {id(p) for p in model.parameters()}
    with _taking:
        if mine & _in_use:
            raise InvalidParameter(
                "model must not be trained by two runs at the same time, got one that another "
                "run is working on"
            )
        _in_use.update(mine)
    try:
        yield
    finally:
        with _taking:
            _in_use.difference_update(mine)


class Ownership:
    """Who may go on with a run."""

    def __init__(self, owner: object) -> None:
        self._owner, self._process = ref(owner), os.getpid()
        self._running = threading.Lock()

    @contextmanager
    def held(self, by: object, model: nn.Module) -> Iterator[None]:
        """Make steps of the run inside; a copy, another process and a second thread are refused."""
        if by is not self._owner():
            raise InvalidParameter(COPIED)
        if os.getpid() != self._process:
            raise InvalidParameter(
                "a run must go on in the process that began it: in two, the same batches would be "
                "released twice and charged once"
            )
        if not self._running.acquire(blocking=False):
            raise InvalidParameter(
                "train must not be called while the run is under way, in another thread or from a "
                "callback"
            )
        try:
            with exclusive(model):
                yield
        finally:
            self._running.release()


COPIED = (
    "a trainer must not be copied or pickled: the copy would release steps of the same batches "
    "that nothing was charged for; a checkpoint carries a run to another process"
)


class NotCopied:
    """Refuses ``copy``, ``deepcopy`` and ``pickle``."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise InvalidParameter(COPIED)


# The checks of a trainer's arguments.


_CLASSIFIES = (functional.cross_entropy, functional.nll_loss)


def bare(model: Any) -> nn.Module:
    """The model itself; the wrapper of DistributedDataParallel has no part in a private run."""
    if isinstance(model, nn.parallel.DistributedDataParallel):
        model = model.module
    if not isinstance(model, nn.Module):
        raise InvalidParameter(f"model must be a torch module, got {type(model).__name__}")
    for name, module in model.named_modules():
        if type(module).__name__.startswith(("FSDP", "FullyShardedDataParallel")):
            raise NotCovered(
                f"module {name or 'model'} is sharded (FSDP), so that no process holds a record's "
                "whole gradient: leave fully_shard out, every process then has all of the model"
            )
    for name, parameter in model.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise InvalidParameter(f"parameter {name} of the model has no shape yet: call it once")
    if not trainable(model):
        raise InvalidParameter("model must have parameters to train, all of them are frozen")
    return model


def steps_left(steps: int | None, left: int, planned: int) -> int:
    """How many steps are to be made, all that are ``left`` for None; never more than these."""
    if steps is None:
        if not left:
            raise InvalidParameter(
                f"the budget is used up: all of its {planned} steps are made, and the model is "
                "the trained one; more steps need a budget of their own"
            )
        return left
    wanted = checks.integer("steps", steps, 0)
    if wanted > left:
        allowed = f"must be at most {left}, which is left of the {planned} steps of the budget"
        raise InvalidParameter.refusing("steps", allowed, wanted)
    return wanted


def check_optimizer(optimizer: Any, model: nn.Module) -> None:
    """An optimiser of this model's parameters, all of them, that takes one gradient a step."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidParameter(
            f"optimizer must be a torch.optim optimiser, got {type(optimizer).__name__}"
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise NotCovered("LBFGS asks for several gradients in one step, each of them a release")
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not held <= {id(p) for p in model.parameters()}:
        raise InvalidParameter("optimizer must hold parameters of the model only")
    for name, parameter in trainable(model).items():
        if id(parameter) not in held:
            raise InvalidParameter(
                f"optimizer must hold every parameter that is to be trained, {name} is missing; "
                "freeze it with requires_grad_(False) or add it"
            )


def check_targets(
    model: nn.Module, loss: Any, inputs: tuple[Tensor, ...], target: Tensor | None
) -> None:
    """Class labels must be below the number of outputs, all of them, before the first step."""
    known = isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss) or loss in _CLASSIFIES
    if not known or target is None or target.is_floating_point():
        return
    with torch.no_grad():
        outputs = model(*inputs)
    if not isinstance(outputs, Tensor) or outputs.ndim < 2:
        return
    classes = outputs.shape[1]
    counted = target[target != getattr(loss, "ignore_index", -100)]
    if counted.numel() and not (int(counted.min()) >= 0 and int(counted.max()) < classes):
        raise InvalidParameter(
            f"targets must be from 0 to {classes - 1}, as the model has {classes} outputs, got "
            "others"
        )


def try_out(
    model: nn.Module,
    loss: Loss,
    trials: Sequence[Trial],
    target: Tensor | None,
    masks: MaskContext,
    mixed: torch.dtype | None,
    rule: ClippingRule,
    slots: Slots,
) -> Clipper:
    """What clips the gradients of the model, tried on a few records; it is left as it was."""
    refuse_mixing(model.named_modules())
    try:
        with as_before(model):
            with masks(), no_activation_checkpoints(model):
                check_targets(model, loss, trials[0].rows.copied().inputs, target)
            with no_activation_checkpoints(model):
                return Clipper(model, loss, trials, masks, mixed, rule, slots)
    except MustdpError:
        raise
    except (RuntimeError, IndexError, TypeError, ValueError) as problem:
        raise InvalidParameter(
            "model and loss fail on the first records of the data that they are tried on, "
            f"with a {type(problem).__name__}{place_of(problem, model, loss)}"
        ) from problem


def average_of(model: nn.Module, decay: float) -> AveragedModel:
    """The moving average of a model's weights, which begins with those after the first step."""
    checks.real("ema", decay, above=0, below=1)
    averaging: Any = get_ema_multi_avg_fn
    return AveragedModel(model, multi_avg_fn=averaging(decay), use_buffers=True)


# What a model draws itself, such as dropout: a function of the run's key and the step.


#: The substream that a model's own draws come from.
_MASKS = 0x6D61736B


class Masks:
    """What a model draws itself, such as dropout: fixed by the step, global state untouched."""

    def __init__(self, key: BatchKey, device: torch.device, rank: int = 0) -> None:
        self._generators = Substreams(key, _MASKS, (rank,))
        self._device = device

    @contextmanager
    def __call__(self, step: int) -> Iterator[None]:
        """torch's generators, seeded for this step inside and as before afterwards."""
        seed = int(self._generators.at(step).integers(2**63))
        on_gpu = self._device.type == "cuda"
        with torch.random.fork_rng([self._device] if on_gpu else []):
            torch.default_generator.manual_seed(seed)
            if on_gpu:
                torch.cuda.manual_seed(seed)
            yield


# The trainer itself. One step is the plan's own mechanism: the scheme draws a multiset, the
# gradients of its distinct records are clipped to C and weighted by their counts, Gaussian noise of
# deviation z C is added to the sum, and the result is divided by the scheme's size (the expected
# one for Poisson sampling), never by the size that came out. What the optimiser then does is
# post-processing.
#
# **Charged before released.** A step is *released* when a callback sees it, when ``train`` returns
# or raises, or when it is in the checkpoint. Before that it is in the ledger, and with a
# checkpoint the ledger that holds it has reached the disk. So wherever a run is killed, what has
# been seen has been paid for. The model is changed in place while ``train`` runs; another thread
# that reads it there and then is not covered by this.
#
# After a kill the run goes on with the same batches and fresh noise (``checkpoint.py``).


class PrivateTrainer(NotCopied):
    """Trains a torch model within a budget: every step is charged before it is released.

    Under ``torch.distributed`` all processes make one run together.

    Parameters
    ----------
    model : torch.nn.Module
        The model; it is changed in place while ``train`` runs.
    loss : callable or None
        From the model's outputs and the targets to one value per record; where records are
        dictionaries, from the outputs and the whole batch. None takes the ``loss`` that the model
        returns itself, which is then computed for every record alone.
    data : tuple of Tensor, dict of Tensor, Dataset or DataLoader
        The records: tensors ``(inputs, ..., target)`` or a dictionary of tensors, a dataset with a
        length and ``data[i]``, or a shuffling ``DataLoader``, whose batches are then drawn by the
        scheme of the budget. Dictionaries are given to the model by name.
    budget : Budget
        What :func:`calibrated_budget` gives, or for the epochs of a loader :func:`loader_budget`.
    max_grad_norm : float
        The bound C on the norm of one record's gradient, above 0.
    clipping : {"flat", "per_layer", "automatic", "quantile"} or settings, default="flat"
        How gradients are brought to norm C: all parameters together; each layer to an equal part of
        C; normalised (:class:`AutomaticClipping`); or with a norm that follows a quantile and
        begins at C (:class:`QuantileClipping`). All cost the same.
    augment : callable, default=None
        From the inputs of one record to those of a view of it, drawn anew in every step. It must
        look at this record alone: what it remembers of others is not covered by the budget. Before
        the first step it is tried once, with records of NaN before others.
    views : int, default=1
        How many views of a record have their gradients averaged before they are clipped.
    units : Units or array_like, default=None
        Who each record belongs to: users are drawn, clipped and protected, and the scheme's n is
        their number.
    optimizer : torch.optim.Optimizer, default=None
        One of all parameters of the model that are to be trained; it may be left out where
        :meth:`compute_gradients` is all that is used.
    ema : float, default=None
        Decay of the exponential moving average of the weights, above 0 and below 1, such as 0.999:
        ``averaged`` is then a model with the averaged weights, at no charge.
    scheduler : Schedule or torch.optim.lr_scheduler.LRScheduler, default=None
        Moves the learning rate on, after every step where it is no :class:`Schedule`.
    checkpoint : Checkpoint, str or path, default=None
        A file; if it exists the run goes on from it.
    compute : Compute, default=None
        Device, size of pieces, precision and time-out; None means where the model is, as it is.
    seed : int, default=None
        Repeats a run, for experiments only: anyone who knows the seed can subtract the noise.
        None takes fresh entropy from the operating system.
    ledger : Ledger, str or path, default=None
        Charged for the whole budget, once, before the first step; what would pass its limit is
        refused before the data are read. With a checkpoint it must be one in a file, which a path
        leads to.
    callbacks : iterable of callable, default=()
        Called with a :class:`StepEvent` whenever steps are released.
    progress : bool, default=None
        Whether to show a line on the terminal; None means where there is one.
    losses : bool, default=False
        Whether to hand out the mean losses of batches, which are **not private**.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NotCovered
        No theorem of this package covers the request, such as a layer that mixes records.
    BudgetExceeded
        The budget does not fit the limit of the ledger; nothing was written.

    Examples
    --------
    >>> import mustdp as md
    >>> import torch
    >>> budget = md.calibrated_budget(md.wor(50, 5), noise_multiplier=2.0, steps=3, delta=1e-5)
    >>> model, data = torch.nn.Linear(2, 1), (torch.randn(50, 2), torch.randn(50, 1))
    >>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> squared = lambda outputs, target: (outputs - target).square().sum(1)
    >>> trainer = md.PrivateTrainer(model, squared, data, budget, optimizer=sgd, max_grad_norm=1.0)
    >>> trainer.train().steps
    3
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        data: Any,
        budget: Budget,
        *,
        max_grad_norm: float,
        clipping: str | AutomaticClipping | QuantileClipping = "flat",
        augment: Augment | None = None,
        views: int = 1,
        units: Any = None,
        optimizer: torch.optim.Optimizer | None = None,
        ema: float | None = None,
        scheduler: Any = None,
        checkpoint: Checkpoint | str | Path | None = None,
        compute: Compute | None = None,
        seed: int | None = None,
        ledger: LedgerOrPath | None = None,
        callbacks: Iterable[Callback] = (),
        progress: bool | None = None,
        losses: bool = False,
    ) -> None:
        compute = compute or Compute()
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(checkpoint)
        if scheduler is not None and not isinstance(scheduler, Schedule):
            scheduler = Schedule(scheduler)
        self._ranks, self._seeded = Ranks(compute.timeout), seed is not None
        self._ownership = Ownership(self)
        with self._ranks.together():
            self._model, self._budget, self._module = model, check_budget(budget, data), bare(model)
            self._steps, self._max_grad_norm = 0, check_max_grad_norm(max_grad_norm)
            self._deviation = budget.noise_multiplier * self._max_grad_norm
            self._size = checks.real(
                "expected size of the scheme", budget.scheme.expected_size, above=0
            )
            self._bands = None if budget.bands == 1 else Bands(budget.strategy)
            if self._bands is not None and checkpoint is not None:
                raise NotCovered(
                    "checkpoint must be left out with banded noise: it would have to hold sums "
                    "without their noise"
                )
            self._every = 1 if checkpoint is None else checkpoint.every
            self._extra = None if checkpoint is None else checkpoint.extra
            self._callbacks, self._show, self._losses = tuple(callbacks), progress, losses
            if optimizer is not None:
                check_optimizer(optimizer, self._module)
            elif scheduler is not None or checkpoint is not None or ema is not None:
                raise InvalidParameter(
                    "scheduler, checkpoint and ema must be left out where there is no optimizer, "
                    "whose steps they follow"
                )
            self._optimizer, self._schedule = optimizer, scheduler
            self._scheduled_every = 1 if scheduler is None else scheduler.steps(budget.scheme)
            self._device = compute.device_for(self._module)
            if units is not None and not isinstance(units, Units):
                units = Units(units)
            noise = budget.noise_multiplier
            rule = clipping_rule(clipping, self._module, self._max_grad_norm, noise, self._size)
            how = f"{rule.describe()}; {views!r} views; ema {ema!r}; " + (
                "records" if units is None else f"{units.combine} of {units.most} records"
            )
            self._run = run_description(
                budget, self._max_grad_norm, self._module, optimizer, self._seeded, how
            )
            saves = checkpoint is not None
            charge = RunCharge(ledger, budget, seeded=self._seeded, checkpoint=saves)
            self._saved = SavedRun(checkpoint, self._ranks, charge)
            # Refused here, before the data are touched, where the ledger's limit would be passed.
            state = self._saved.found(lambda found: self._checked(found).position)
            # Whatever gradients are left over are not private.
            (self._module if optimizer is None else optimizer).zero_grad()
            self._module.to(self._device)
            self._average = None if ema is None else average_of(self._module, ema)
            self._records = TrainingRecords(data, self._device)
            #: What is drawn: records, or users with their records.
            self._drawn: TrainingRecords | UnitRecords = self._records
            if units is not None:
                self._drawn = UnitRecords(self._records, units)
            # Of a private number of records the budget's scheme has an estimate; this one draws.
            self._scheme = drawn_from(budget.scheme, budget.relation, self._drawn.n)
        # A process that cannot reach the ledger may leave it out: the first one charges.
        charges = self._ranks.agree(charge.ledger)
        shared = shared_facts(
            self._run, budget, self._drawn, self._scheduler, charge.ledger or charges
        )
        own = {"losses": str(losses), "max_rows": str(compute.max_rows)}
        self._ranks.same(shared | own | {"checkpoint": f"{saves}, {self._every}"})
        self._ranks.agree_on([*self._module.parameters(), *self._module.buffers()])
        key: BatchKey = self._ranks.agree(release_key(seed, name="seed"))
        with self._ranks.together():
            self._draw_by(key)
            with self._masks(0):
                seen = Views(augment, views, self._records)
            slots = Slots(seen, 1 if units is None else units.most)
            self._trials = Trials(self._records, key, self._ranks.rank, seen)
            tried, masks = self._trials.at_first(), lambda: self._masks(0)
            with exclusive(self._module):
                target, mixed = self._records.target, compute.mixed_precision
                self._clipper = try_out(
                    self._module, loss, tried, target, masks, mixed, rule, slots
                )
            self._places = Places(self._clipper, self._module, masks)
            rows = rows_of_pieces(
                budget.scheme,
                budget.relation,
                self._ranks.size,
                self._clipper.way.most_rows,
                compute.max_rows,
                slots.number,
                CPU_ROW_MULTIPLE if self._device.type == "cpu" else ROW_MULTIPLE,
            )
        rows = self._agreed_rows(tried[0].rows, rows)
        with self._ranks.together():
            self._pieces = Pieces(self._drawn, self._device, self._clipper, rows)
            workload = self._pieces.workload(budget.scheme, budget.relation, self._ranks.size)
            # Banded noise has a finer lattice than the sums, which factors multiply.
            unit = 1.0 if self._bands is None else STRATEGY_UNIT
            self._bound = bound_for(self._max_grad_norm, self._deviation / unit, workload)
            self._noise = StepNoise(key, self._deviation / (self._bound.step * unit))
            with exclusive(self._module):
                self._places.capture(tried[0].rows, rows, self._bound)
            if self._bands is not None:
                self._bands.check(
                    2.0 * workload.copies * max_grad_norm / self._bound.step + 2.0**40
                )
        self._ranks.same({"lattice": repr(self._bound)})
        state = self._ranks.agree(state)
        with self._ranks.together():
            self._restore(state)

    @property
    def _scheduler(self) -> Any:
        return None if self._schedule is None else self._schedule.scheduler

    @property
    def model(self) -> Any:
        """The model, as it was given."""
        return self._model

    @property
    def averaged(self) -> Any:
        """A copy of the model with the moving average of the weights; None without ``ema``."""
        return None if self._average is None else self._average.module

    @property
    def budget(self) -> Budget:
        """What the run may spend."""
        return self._budget

    @property
    def steps(self) -> int:
        """Steps made so far."""
        return self._steps

    @property
    def remaining(self) -> int:
        """Steps that are left of the budget."""
        return self.budget.steps - self._steps

    @property
    def ledger(self) -> Ledger:
        """What the steps so far are charged as; an epoch as a whole when it begins.

        Nothing is where the run has a seed, which is an experiment.
        """
        return ledger_after(self.budget, 0 if self._seeded else self._steps)

    @property
    def privacy(self) -> RunPrivacy:
        """What has been spent so far and what is planned, certified."""
        both = (self.budget.spent(self.steps), self.budget.spent())
        return RunPrivacy(*(replace(one, seeded=self._seeded) for one in both))

    @property
    def method(self) -> str:
        """How gradients are clipped: "book-keeping", or "torch.func" and why."""
        way = self._clipper.way
        return f"{way.name} ({way.reason})" if way.reason else way.name

    def _agreed_rows(self, records: Rows, rows: int) -> int:
        """Rows of a piece with which all places give the same, on every process."""
        while True:
            with self._ranks.together(), exclusive(self._module):
                rows = self._places.find_rows(records, rows)
            found = self._ranks.each(rows)
            rows = min(found)
            if len(set(found)) == 1:
                return rows

    def train(self, steps: int | None = None) -> TrainingResult:
        """Make more steps.

        Parameters
        ----------
        steps : int, default=None
            How many; None means all that are left of the budget, and more are refused.

        Returns
        -------
        TrainingResult
            The model and what it cost.
        """
        return self._train(steps, self._show)

    def step(self) -> TrainingResult:
        """One more step, released when this returns: for a custom loop.

        Returns
        -------
        TrainingResult
            The model and what it cost.
        """
        return self._train(1, show=False)

    def compute_gradients(self) -> TrainingResult:
        """The noisy gradient of one more step, written to ``.grad`` of the model's parameters.

        It is charged as a step is and released when this returns; what the user's own optimizers
        do with it costs nothing more. It takes the place of ``loss.backward()``: gradients that
        are added to it by another backward pass on the records are not private.

        Returns
        -------
        TrainingResult
            The model, not changed yet, and what it will have cost.

        Raises
        ------
        InvalidParameter
            The run has a checkpoint, which would miss the optimizer's step, or the budget is used
            up.
        """
        if self._saved.file is not None:
            raise InvalidParameter(
                "checkpoint must be left out for compute_gradients: the step that an optimizer "
                "makes afterwards would not be in it"
            )
        with self._ownership.held(self, self._module):
            return self._make(1, show=False, update=False)

    def _train(self, steps: int | None, show: bool | None) -> TrainingResult:
        if self._optimizer is None:
            raise InvalidParameter(
                "optimizer must be given to train; without one compute_gradients() writes the "
                "gradient of a step for the user's own"
            )
        with self._ownership.held(self, self._module):
            return self._make(steps, show)

    def _make(self, steps: int | None, show: bool | None, *, update: bool = True) -> TrainingResult:
        with self._ranks.together():
            last = self.steps + steps_left(steps, self.remaining, self.budget.steps)
        self._ranks.same({"number of steps": f"{self.steps} to {last}"})
        losses: list[float] = []
        with self._ranks.patient(), ExitStack() as held:
            with self._ranks.together():
                held.enter_context(self._saved.held())
            try:
                self._saved.begin(self._state())
                shows = show and self._ranks.first
                with TrainingBar(self.budget, self.steps, shows, self._seeded) as bar:
                    shown = 0
                    while self.steps < last:
                        loss = self._step(update)
                        losses += [] if loss is None else [loss]
                        bar.step(self.steps, loss)
                        saves = not self.steps % self._every or self.steps == last or self._waits
                        if self._saved.file and not saves:
                            continue
                        if self._release(tuple(losses[shown:])):
                            break
                        shown = len(losses)
            except BaseException as problem:
                self._ranks.leave(problem)
                if self._saved.file is not None:
                    self._forget_gradients()
                self._restore(self._saved.back())
                raise
        return TrainingResult(
            self.model,
            self.steps,
            self.budget,
            self.ledger,
            tuple(losses),
            seeded=self._seeded,
            averaged=self.averaged,
        )

    def _step(self, update: bool) -> float | None:
        number = self.steps
        with self._ranks.together():
            if update and self._schedule is not None and self._waits:
                self._schedule.move(self._module)
            batch = self._batches.batch(number)
            self._bound.check_size(batch.size)
            if self._ranks.first:
                self._noise.begin(number, self._bound.workload.parameters, self._device)
            block = self._bound.block_for(batch.size)
            found = self._clipped(number, self._ranks.part(batch), block)
        rule, parameters, step = self._clipper.rule, self._clipper.parameters, self._bound.step
        count = self._bound.workload.parameters
        alone = self._ranks.size == 1 and self._bands is None
        if alone and self._noise.fuses(count, parameters):
            refuse_not_finite(int(found.not_finite), number + 1)
            self._steps = number + 1  # charged from here on
            numbers = self._noise.release(
                number, found.gradients, step, self._size, parameters, rule.scale
            )
        else:
            with self._ranks.together():
                sums = on_lattice(found.gradients, step)
                if self._bands is not None:
                    sums = self._bands.row(number, sums)
                if self._ranks.first:
                    self._noise.add(number, sums)
            sums, bad = self._ranks.add_up([sums, found.not_finite])
            with self._ranks.together():
                refuse_not_finite(int(bad), number + 1)
                self._steps = number + 1  # charged from here on
                if self._bands is not None:
                    sums = self._bands.estimate(number, sums)
                numbers = as_gradients(sums, step, self._size, parameters, rule.scale)
        with self._ranks.together():
            rule.update(numbers, self._bound.inner)
            if update:
                self._update()
        if not self._losses:
            return None
        [loss] = self._ranks.add_up([found.loss])
        return float(loss) / max(1, batch.size)

    def _clipped(self, number: int, batch: Batch, block: int) -> ClippedSum:
        """The clipped sum of this process's part; now and then records are tried for separation."""
        scales, due = None, self._trials.due(number)
        if due and batch.distinct:
            trial = self._trials.of_batch(number, self._drawn.numbers(batch.indices))
            self._clipper.try_again(trial, lambda: self._masks(number))
            scales = self._trials.scales(number)
        pieces = self._places.watched(self._pieces.of(batch), again=due)
        return self._clipper.sum(pieces, self._masks(number), self._bound, scales, block)

    def _update(self) -> None:
        if self._optimizer is not None:
            self._optimizer.step()
            self._optimizer.zero_grad()
        if self._average is not None:
            self._average.update_parameters(self._module)
        if self._schedule is not None and self._due and self._schedule.metric is None:
            self._schedule.move(self._module)

    @property
    def _due(self) -> bool:
        return self._steps % self._scheduled_every == 0

    @property
    def _waits(self) -> bool:
        """Whether a metric is to see the model: after it was released, before the next step."""
        told = self._schedule is not None and self._schedule.metric is not None
        return told and self._steps > 0 and self._due

    def _release(self, losses: tuple[float, ...]) -> bool:
        """Charge on disk, then show; whether a callback has stopped the run."""
        if self._saved.file is not None:
            self._saved.save(self._state(), self.steps)
        event = StepEvent(self.model, self.steps, losses, self.budget, self._seeded)
        with self._ranks.together():
            for callback in self._callbacks:
                callback(event)
        return bool(self._ranks.agree(event.stopped))

    def _state(self) -> dict[str, Any]:
        at = BatchStream(
            self.budget.scheme, self._batches.key, position=self.steps, stop=self.budget.steps
        )
        return {
            "run": self._run,
            "batches": at.state,
            "ledger": ledger_after(self.budget, self._steps).to_json(),
            "clipping": self._clipper.rule.state(),
            **{
                name: None if part is None else part.state_dict()
                for name, part in self._parts().items()
            },
        }

    def _parts(self) -> dict[str, Any]:
        """All that a checkpoint holds the state of, by name."""
        return {
            "model": self._module,
            "optimizer": self._optimizer,
            "scheduler": self._scheduler,
            "average": self._average,
            "extra": self._extra,
        }

    def _checked(self, state: dict[str, Any]) -> BatchStream:
        return check_state(state, self._run, self.budget, self._saved.path)

    def _restore(self, state: dict[str, Any] | None) -> None:
        """Back to a state: one to go on from, or what was shown last of a run that broke off."""
        if state is None:
            return
        batches = self._checked(state)
        if self._seeded and batches.key != self._batches.key:
            raise InvalidParameter(f"checkpoint {self._saved.path} was made with another seed")
        restore_state(state, self._parts())
        self._clipper.rule.restore(state["clipping"])
        self._steps = batches.position
        self._draw_by(batches.key)

    def _forget_gradients(self) -> None:
        """Steps that are taken back are made again, with fresh noise: nothing may be left."""
        for parameter in self._clipper.parameters:
            parameter.grad = None

    def _draw_by(self, key: BatchKey) -> None:
        self._batches: BatchStream | BatchesInTurn
        bands, stop = self.budget.bands, self.budget.steps
        if bands == 1:
            self._batches = BatchStream(self._scheme, key, stop=stop)
        else:
            group = scheme_of_a_group(self._scheme, bands).resized(self._scheme.n)
            self._batches = BatchesInTurn(group, bands, key, stop)
        self._masks = Masks(key, self._device, self._ranks.rank)

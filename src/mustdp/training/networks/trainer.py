"""Train a torch model with a certified budget: draw, clip, add noise, update, be charged.

One step is the plan's own mechanism: the scheme draws a multiset, the gradients of its distinct
records are clipped to C and weighted by their counts, Gaussian noise of deviation z C is added to
the sum, and the result is divided by the scheme's size (the expected one for Poisson sampling),
never by the size that came out. What the optimiser then does is post-processing.

**Charged before released.** A step is *released* when a callback sees it, when ``train`` returns or
raises, or when it is in the checkpoint. Before that it is in the ledger, and with a checkpoint the
ledger that holds it has reached the disk. So wherever a run is killed, what has been seen has been
paid for. The model is changed in place while ``train`` runs; another thread that reads it there
and then steps outside of this.

After a kill the run goes on with the same batches and fresh noise (``saving.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mustdp.errors import InvalidParameter
from mustdp.ledger.release import LedgerOrPath
from mustdp.mechanisms.relation import drawn_from
from mustdp.numerics import checks
from mustdp.randomness.keys import BatchKey, release_key
from mustdp.sampling.batch import Batch
from mustdp.sampling.streams import BatchStream
from mustdp.training.budget import Budget
from mustdp.training.documented import documented
from mustdp.training.networks import release, run_state, setup
from mustdp.training.networks.alone import Loss
from mustdp.training.networks.charging import RunCharge
from mustdp.training.networks.clipping import ClippedSum
from mustdp.training.networks.events import Callback, Released, Trained
from mustdp.training.networks.loaders import Terms, budget_of
from mustdp.training.networks.masks import Masks
from mustdp.training.networks.ownership import NotCopied, Ownership, exclusive
from mustdp.training.networks.parameters import PARAMETERS
from mustdp.training.networks.pieces import Pieces, rows_of_pieces
from mustdp.training.networks.places import Places
from mustdp.training.networks.progress import Progress
from mustdp.training.networks.ranks import Ranks
from mustdp.training.networks.records import Records, Rows
from mustdp.training.networks.run_answers import RunAnswers
from mustdp.training.networks.saving import SavedRun
from mustdp.training.networks.sensitivity import bound_for, check_clip
from mustdp.training.networks.step_noise import StepNoise
from mustdp.training.networks.trials import Trials


@documented(PARAMETERS)
class PrivateTrainer(RunAnswers, NotCopied):
    """Trains a torch model within a budget: what has been seen has been paid for.

    Under ``torch.distributed`` all processes make one run together.

    Examples
    --------
    >>> import mustdp as md
    >>> import torch
    >>> budget = md.settle(md.wor(50, 5), noise_multiplier=2.0, steps=3, delta=1e-5)
    >>> model, data = torch.nn.Linear(2, 1), (torch.randn(50, 2), torch.randn(50, 1))
    >>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> squared = lambda outputs, target: (outputs - target).square().sum(1)
    >>> md.PrivateTrainer(model, squared, data, budget, optimizer=sgd, clip=1.0).train().steps
    3
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        data: Any,
        budget: Budget | None = None,
        *,
        optimizer: torch.optim.Optimizer,
        clip: float,
        epochs: int | None = None,
        epsilon: float | None = None,
        noise_multiplier: float | None = None,
        delta: float | None = None,
        relation: str | None = None,
        n: int | None = None,
        scheduler: Any = None,
        scheduler_every: str = "step",
        max_rows: int | None = None,
        device: Any = None,
        mixed_precision: torch.dtype | None = None,
        seed: int | None = None,
        ledger: LedgerOrPath = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 1,
        resume: bool = True,
        callbacks: Iterable[Callback] = (),
        progress: bool | None = None,
        losses: bool = False,
        timeout: float = 600.0,
    ) -> None:
        self._ranks, self._seeded = Ranks(timeout), seed is not None
        self._ownership = Ownership(self)
        with self._ranks.together():
            terms = Terms(epochs, epsilon, noise_multiplier, delta, relation, n)
            budget = budget_of(data, budget, terms)
            self._model, self._budget, self._module = model, budget, setup.bare(model)
            self._steps, self._clip = 0, check_clip(clip)
            self._deviation = budget.noise_multiplier * self._clip
            self._size = checks.real(
                "expected size of the scheme", budget.scheme.expected_size, above=0
            )
            most_rows = None if max_rows is None else checks.integer("max_rows", max_rows, 1)
            self._every = checks.integer("checkpoint_every", checkpoint_every, 1)
            self._callbacks, self._show, self._losses = tuple(callbacks), progress, losses
            setup.check_optimizer(optimizer, self._module)
            self._optimizer, self._scheduler = optimizer, scheduler
            self._scheduled_every = setup.read_schedule(scheduler_every, budget.scheme)
            self._device = setup.read_device(device, self._module)
            self._run = run_state.description(
                budget, self._clip, self._module, optimizer, self._seeded
            )
            saves = checkpoint is not None
            charge = RunCharge(ledger, budget, seeded=self._seeded, checkpoint=saves)
            self._saved = SavedRun(checkpoint, self._ranks, charge)
            # Refused here, before the data are touched, where the ledger's limit would be passed.
            state = self._saved.found(resume, lambda found: self._checked(found).position)
            optimizer.zero_grad()  # whatever gradients are left over are not private
            self._module.to(self._device)
            self._records = Records(data, self._device)
            # Of a private number of records the budget's scheme has an estimate; this one draws.
            self._scheme = drawn_from(budget.scheme, budget.relation, self._records.n)
        # A process that cannot reach the ledger may leave it out: the first one charges.
        charges = self._ranks.agree(charge.ledger)
        shared = run_state.facts(
            self._run, budget, self._records, scheduler, charge.ledger or charges
        )
        own = {"losses": str(losses), "max_rows": str(most_rows)}
        self._ranks.same(shared | own | {"checkpoint": f"{saves}, {self._every}"})
        self._ranks.agree_on([*self._module.parameters(), *self._module.buffers()])
        key: BatchKey = self._ranks.agree(release_key(seed, name="seed"))
        with self._ranks.together():
            self._draw_by(key)
            self._trials = Trials(self._records, key, self._ranks.rank)
            tried, mixed = self._trials.at_first(), setup.read_mixed(mixed_precision)
            with exclusive(self._module):
                self._clipper = setup.try_out(
                    self._module, loss, tried, self._records.target, lambda: self._masks(0), mixed
                )
            self._places = Places(self._clipper, self._module, lambda: self._masks(0))
            rows = rows_of_pieces(
                budget.scheme,
                budget.relation,
                self._ranks.size,
                self._clipper.way.most_rows,
                most_rows,
            )
        rows = self._agreed_rows(tried[0].rows, rows)
        with self._ranks.together():
            self._pieces = Pieces(self._records, self._device, self._clipper, rows)
            workload = self._pieces.workload(budget.scheme, budget.relation, self._ranks.size)
            self._bound = bound_for(self._clip, self._deviation, workload)
            self._noise = StepNoise(key, self._deviation / self._bound.step)
        self._ranks.same({"lattice": repr(self._bound)})
        state = self._ranks.agree(state)
        with self._ranks.together():
            self._restore(state)

    def _agreed_rows(self, records: Rows, rows: int) -> int:
        """Rows of a piece with which all places give the same, on every process."""
        while True:
            with self._ranks.together(), exclusive(self._module):
                rows = self._places.settle(records, rows)
            found = self._ranks.each(rows)
            rows = min(found)
            if len(set(found)) == 1:
                return rows

    def train(self, steps: int | None = None) -> Trained:
        """Make more steps.

        Parameters
        ----------
        steps : int, default=None
            How many; None means all that are left of the budget, and more are refused.

        Returns
        -------
        Trained
            The model and what it cost.
        """
        return self._train(steps, self._show)

    def step(self) -> Trained:
        """One more step, released when this returns: for a loop of one's own.

        Returns
        -------
        Trained
            The model and what it cost.
        """
        return self._train(1, show=False)

    def _train(self, steps: int | None, show: bool | None) -> Trained:
        with self._ownership.held(self, self._module):
            return self._make(steps, show)

    def _make(self, steps: int | None, show: bool | None) -> Trained:
        with self._ranks.together():
            last = self.steps + setup.steps_left(steps, self.remaining, self.budget.steps)
        self._ranks.same({"number of steps": f"{self.steps} to {last}"})
        losses: list[float] = []
        with self._ranks.patient(), ExitStack() as held:
            with self._ranks.together():
                held.enter_context(self._saved.held())
            try:
                self._saved.begin(self._state())
                shows = show and self._ranks.first
                with Progress(self.budget, self.steps, shows, self._seeded) as bar:
                    shown = 0
                    while self.steps < last:
                        loss = self._step()
                        losses += [] if loss is None else [loss]
                        bar.step(self.steps, loss)
                        if self._saved.file and self.steps % self._every and self.steps < last:
                            continue
                        if self._release(tuple(losses[shown:])):
                            break
                        shown = len(losses)
            except BaseException as problem:
                self._ranks.leave(problem)
                self._restore(self._saved.back())
                raise
        return Trained(
            self.model, self.steps, self.budget, self.ledger, tuple(losses), seeded=self._seeded
        )

    def _step(self) -> float | None:
        number = self.steps
        with self._ranks.together():
            batch = self._batches.batch(number)
            self._bound.check_size(batch.size)
            if self._ranks.first:
                self._noise.begin(number, self._bound.workload.parameters, self._device)
            found = self._clipped(number, self._ranks.part(batch))
            sums = release.on_lattice(found.gradients, self._bound.step)
            if self._ranks.first:
                self._noise.add(number, sums)
        sums, bad = self._ranks.add_up([sums, found.not_finite])
        with self._ranks.together():
            release.refuse_not_finite(int(bad), number + 1)
            self._steps = number + 1  # charged from here on
            self._update(sums)
        if not self._losses:
            return None
        [loss] = self._ranks.add_up([found.loss])
        return float(loss) / max(1, batch.size)

    def _clipped(self, number: int, batch: Batch) -> ClippedSum:
        """The clipped sum of this process's part; now and then records are tried for separation."""
        scales, due = None, self._trials.due(number)
        if due and batch.distinct:
            trial = self._trials.of_batch(number, batch.indices)
            self._clipper.try_again(trial, lambda: self._masks(number))
            scales = self._trials.scales(number)
        pieces = self._places.watched(self._pieces.of(batch), again=due)
        return self._clipper.sum(pieces, self._masks(number), self._bound, scales)

    def _update(self, sums: Tensor) -> None:
        parameters = self._clipper.parameters
        release.as_gradients(sums, self._bound.step, self._size, parameters)
        self._optimizer.step()
        self._optimizer.zero_grad()
        if self._scheduler is not None and self._steps % self._scheduled_every == 0:
            self._scheduler.step()

    def _release(self, losses: tuple[float, ...]) -> bool:
        """Charge on disk, then show; whether a callback asked for the end."""
        if self._saved.file is not None:
            self._saved.save(self._state(), self.steps)
        event = Released(self.model, self.steps, losses, self.budget, self._seeded)
        with self._ranks.together():
            for callback in self._callbacks:
                callback(event)
        return bool(self._ranks.agree(event.stopped))

    def _state(self) -> dict[str, Any]:
        at = BatchStream(
            self.budget.scheme, self._batches.key, position=self.steps, stop=self.budget.steps
        )
        parts = (self._module, self._optimizer, self._scheduler)
        ledger = run_state.charged(self.budget, self._steps)
        return run_state.state_of(self._run, at, ledger, *parts)

    def _checked(self, state: dict[str, Any]) -> BatchStream:
        return run_state.check_state(state, self._run, self.budget, self._saved.path)

    def _restore(self, state: dict[str, Any] | None) -> None:
        """Back to a state: one to go on from, or what was shown last of a run that broke off."""
        if state is None:
            return
        batches = self._checked(state)
        if self._seeded and batches.key != self._batches.key:
            raise InvalidParameter(f"checkpoint {self._saved.path} was made with another seed")
        run_state.restore(state, self._module, self._optimizer, self._scheduler)
        self._steps = batches.position
        self._draw_by(batches.key)

    def _draw_by(self, key: BatchKey) -> None:
        self._batches = BatchStream(self._scheme, key, stop=self.budget.steps)
        self._masks = Masks(key, self._device, self._ranks.rank)

"""Views, users and clipping rules: what is released beside the definition, record by record."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.seams import quantile_rule

torch = pytest.importorskip("torch")

from torch import nn

import mustdp as md
from mustdp.errors import InvalidParameter, NotCovered, NumericalFailure
from tests.training.networks import runs

QUIET = 1e-9  # a noise multiplier that leaves the clipped sum as it is, to seven digits
CLIP = 0.7


class Layers(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Convolution, norms, an embedding, linear layers with and without places."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.conv = nn.Conv2d(1, 3, 3)
        self.norm = nn.GroupNorm(1, 3)
        self.words = nn.Embedding(5, 4)
        self.mixed = nn.Linear(4, 4)
        self.scaled = nn.LayerNorm(4)
        self.scale = nn.PReLU(4)
        self.last = nn.Linear(4 + 12, 3)

    def forward(self, x: Any) -> Any:
        image = x[:, :16].reshape(-1, 1, 4, 4)
        words = (x[:, 16:19].abs() * 2).long().clamp(max=4)
        seen = self.norm(self.conv(image)).flatten(1)
        read = self.scale(self.scaled(self.mixed(self.words(words))).mean(1))
        return self.last(torch.cat([seen, read], 1))


class WholeModel(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """A parameter of its own, so that it is differentiated as a whole."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.weight, self.inner = nn.Parameter(torch.randn(19, 3)), nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.inner(x @ self.weight)


N = 24


def records() -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(9)
    return torch.randn(N, 19, generator=generator), torch.randint(3, (N,), generator=generator)


def released(model: Any, scheme: Any, z: float = QUIET, **options: Any) -> Any:
    """The gradient of one step times the size of the batch, and the trainer."""
    run = runs.trainer(
        model,
        data=options.pop("data", records()),
        budget=runs.budget(steps=1, scheme=scheme, z=z),
        optimizer=None,
        max_grad_norm=options.pop("max_grad_norm", CLIP),
        seed=3,
        **options,
    )
    run.compute_gradients()
    found = torch.cat([p.grad.flatten() for p in model.parameters()]).double()
    return found * scheme.expected_size, run


def gradient(model: Any, inputs: Any, target: Any) -> Any:
    """That of the summed loss of some rows, in one tensor."""
    total = runs.LOSS(model(inputs), target).sum()
    return torch.cat([g.flatten() for g in torch.autograd.grad(total, list(model.parameters()))])


def clipped(found: Any, norm: float = CLIP) -> Any:
    return found.double() * min(1.0, norm / max(float(found.double().norm()), 1e-300))


BOTH = pytest.mark.parametrize("kind", [Layers, WholeModel])


@BOTH
def test_views_are_averaged_before_they_are_clipped(kind: Any) -> None:
    model, (_, target) = kind(), records()
    seen: list[Any] = []

    def augment(x: Any) -> Any:
        shift = float(torch.randn(()))  # a number: vmap does not take it
        seen.append(x + shift)
        return seen[-1]

    found, run = released(model, md.wor(N, N), augment=augment, views=3)
    # The last piece is filled up.
    rows = -(-N // run._pieces._rows) * run._pieces._rows
    views = torch.stack(seen[-3 * rows :]).view(rows, 3, -1)[:N]
    order = run._batches.batch(0).indices
    expected = sum(
        clipped(gradient(model, views[k], target[[i] * 3]) / 3) for k, i in enumerate(order)
    )
    assert torch.allclose(found, expected, atol=1e-5)
    assert not torch.allclose(views[:, 0], views[:, 1])


def test_a_view_that_vmap_takes_is_drawn_for_every_record() -> None:
    inputs, target = torch.zeros(N, 1), torch.zeros(N, 1)
    model = nn.Linear(1, 1, bias=False)

    def augment(x: Any) -> Any:
        return x + torch.rand_like(x)

    def loss(outputs: Any, target: Any) -> Any:
        return outputs.sum(1)

    sums = [
        float(
            released(
                model, md.wor(N, N), data=(inputs, target), loss=loss, augment=augment, views=views,
                max_grad_norm=10.0,
            )[0]
        )
        for views in (1, 64)
    ]  # fmt: skip
    # Means of N and 64 N uniform numbers: five deviations, and one number for all would be seen.
    assert abs(sums[0] / N - 0.5) < 5 * math.sqrt(1 / 12 / N)
    assert abs(sums[1] / N - 0.5) < 5 * math.sqrt(1 / 12 / N / 64)


def test_views_change_the_shape_and_cost_nothing() -> None:
    data = torch.randn(60, 9), runs.data()[1]
    model = nn.Sequential(nn.Linear(6, 3))

    def crop(x: Any) -> Any:
        start = int(torch.randint(4, ()))
        return x[start : start + 6]

    done = runs.trainer(model, data=data, augment=crop, views=2).train()
    assert done.privacy == runs.budget().spent()


class MixedWithTheLast:
    """Half of every view is the record that came before it."""

    def __init__(self, plain: bool) -> None:
        self.last: Any = None
        self.plain = plain

    def __call__(self, x: Any) -> Any:
        before, self.last = self.last, x
        shift = 0.0 if self.plain else float(torch.randn(()))  # which vmap does not take
        return x + shift if before is None else 0.5 * (x + before) + shift


@pytest.mark.parametrize("plain", [True, False])
def test_views_that_remember_other_records_are_refused(plain: bool) -> None:
    with pytest.raises(md.InvalidParameter, match="augment must look at one record alone"):
        runs.trainer(augment=MixedWithTheLast(plain))


def test_views_that_keep_what_they_do_not_use_are_taken() -> None:
    kept: list[Any] = []
    own = torch.Generator().manual_seed(1)

    def augment(x: Any) -> Any:
        kept.append(x)
        if not bool(x.isfinite().all()):
            raise ValueError("not an image")
        return x + torch.randn(x.shape, generator=own)

    assert runs.trainer(augment=augment, views=2).train().steps == 6


class Jittered:
    """A dataset with a random transform: a record is another one at every access."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, number: int) -> tuple[Any, int]:
        inputs, target = runs.data()
        return inputs[number] + torch.randn(6), int(target[number])


def test_random_transforms_in_a_dataset() -> None:
    assert runs.trainer(data=Jittered()).train().steps == 6
    one, other = (runs.trainer(data=Jittered(), seed=2).train().model for _ in range(2))
    assert torch.equal(runs.weights(one), runs.weights(other))  # drawn by torch, in the step


def test_views_that_are_refused() -> None:
    for options, said in (
        ({"views": 2}, "augment must be given"),
        ({"augment": 3}, "augment must be callable"),
        ({"augment": lambda x: x, "views": 0}, "views must be"),
        ({"augment": lambda x: (x, x)}, "as many tensors"),
        ({"augment": lambda x: x[: int(torch.randint(1, 7, ()))]}, "same shapes"),
    ):
        with pytest.raises(InvalidParameter, match=said):
            runs.trainer(**options)


IDS = np.array([*"aabbbcdddddd"] * 2, dtype="<U2")
IDS[12:] = np.char.add(IDS[12:], "2")


@BOTH
@pytest.mark.parametrize("combine", ["mean", "sum"])
def test_users_are_drawn_and_clipped_as_one(kind: Any, combine: str) -> None:
    model, (inputs, target) = kind(), records()
    users = np.unique(IDS)
    units = md.types.Units(IDS, most=6, combine=combine)
    scheme = md.must_ow(len(users), 6, 9)
    found, run = released(model, scheme, units=units, max_grad_norm=0.5)
    batch = run._batches.batch(0)
    expected = torch.zeros_like(found)
    for user, count in zip(batch.indices, batch.counts, strict=True):
        own = np.flatnonzero(users[user] == IDS)
        whole = gradient(model, inputs[own], target[own])
        expected += int(count) * clipped(whole / (len(own) if combine == "mean" else 1), 0.5)
    assert torch.allclose(found, expected, atol=1e-5)


def test_of_many_records_of_a_user_some_are_drawn() -> None:
    data = torch.arange(40.0).view(40, 1), torch.zeros(40, 1)
    model = nn.Linear(1, 1, bias=False)
    units = md.types.Units([0] * 20 + [1] * 20, most=4)
    found, _ = released(
        model, md.wor(2, 2), data=data, units=units, max_grad_norm=1e4,
        loss=lambda outputs, target: outputs.sum(1),
    )  # fmt: skip
    assert float(found) * 4 == pytest.approx(round(float(found) * 4), abs=1e-3)
    assert 1.5 + 21.5 <= float(found) <= 17.5 + 37.5
    assert abs(float(found) - 39.0) > 1e-3  # which is the sum of both means


def test_one_user_moves_the_sum_by_no_more_than_is_charged() -> None:
    """All records of a user pull the same way; the others see nothing of them."""
    inputs, target = records()
    pulled = inputs.clone()
    own = np.flatnonzero(IDS == "d")
    pulled[own] = 1e4 * torch.sign(inputs[own])
    scheme = md.wor(len(np.unique(IDS)), 8)
    options: dict[str, Any] = {
        "units": md.types.Units(IDS, most=6, combine="sum"),
        "max_grad_norm": 0.5,
    }
    both = [
        released(WholeModel(), scheme, data=(x, target), **options)[0] for x in (inputs, pulled)
    ]
    moved = float((both[0] - both[1]).norm())
    assert 0.1 < moved <= 2 * 0.5 * (1 + 1e-6)


def test_users_in_the_budget_and_in_the_data() -> None:
    with pytest.raises(InvalidParameter, match="n = 60 records"):
        runs.trainer(units=[k // 2 for k in range(60)])
    with pytest.raises(InvalidParameter, match="one id for each record"):
        runs.trainer(units=[1, 2])
    done = runs.trainer(
        units=[k // 2 for k in range(60)], budget=runs.budget(scheme=md.wor(30, 10))
    ).train()
    assert done.privacy == runs.budget(scheme=md.wor(30, 10)).spent()


def test_a_budget_for_people_with_several_records() -> None:
    scheme = md.poisson(60, 0.2)
    terms: dict[str, Any] = {"steps": 6, "delta": 1e-3}
    one, three = (
        md.calibrated_budget(scheme, noise_multiplier=4.0, group=group, **terms) for group in (1, 3)
    )
    done = runs.trainer(budget=three).train()
    expected = md.account(three.plan(), group=3).epsilon(1e-3)
    assert done.privacy.epsilon == expected
    assert done.privacy.group == done.privacy.as_dict()["group"] == 3
    assert done.privacy.epsilon.upper > 2 * one.spent().epsilon.upper
    met = md.calibrated_budget(scheme, epsilon=2.0, group=3, **terms)
    assert 1.9 < met.spent().epsilon.upper <= 2.0
    assert (
        met.noise_multiplier > md.calibrated_budget(scheme, epsilon=2.0, **terms).noise_multiplier
    )


def parts(model: Any, whole: Any) -> list[Any]:
    """A gradient cut into those of the layers."""
    sizes = [sum(p.numel() for p in module.parameters(recurse=False)) for module in model.modules()]
    return [x for x in torch.split(whole, sizes) if len(x)]


def per_layer(model: Any, whole: Any) -> Any:
    cut = parts(model, whole)
    return torch.cat([clipped(x, CLIP / math.sqrt(len(cut))) for x in cut])


def automatic(model: Any, whole: Any) -> Any:
    return whole.double() * CLIP / (float(whole.double().norm()) + 0.01)


@BOTH
@pytest.mark.parametrize("rule", [per_layer, automatic], ids=lambda rule: rule.__name__)
def test_rules_beside_their_definition(kind: Any, rule: Any) -> None:
    model, (inputs, target) = kind(), records()
    found, _ = released(model, md.wor(N, N), clipping=rule.__name__)
    expected = sum(
        rule(model, gradient(model, inputs[i : i + 1], target[i : i + 1])) for i in range(N)
    )
    assert torch.allclose(found, expected, atol=2e-5)


def test_tied_layers_are_clipped_as_one() -> None:
    class Tied(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.table, self.inner, self.out = (
                nn.Embedding(5, 4), nn.Linear(4, 4), nn.Linear(4, 5, bias=False)
            )  # fmt: skip
            self.out.weight = self.table.weight

        def forward(self, x: Any) -> Any:
            return self.out(self.inner(self.table(x)).mean(1))

    model = Tied()
    inputs, target = torch.randint(5, (N, 3)), torch.randint(5, (N,))
    found, _ = released(model, md.wor(N, N), data=(inputs, target), clipping="per_layer")
    expected = torch.zeros_like(found)
    for i in range(N):
        whole = gradient(model, inputs[i : i + 1], target[i : i + 1])
        cut = torch.split(whole, [20, 20])
        expected += torch.cat([clipped(x, CLIP / math.sqrt(2)) for x in cut])
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("clipping", ["flat", "per_layer", "automatic", "quantile"])
def test_no_rule_lets_a_record_move_more_than_is_charged(clipping: str) -> None:
    """One record against its opposite, far too large: the sum that noise is added to."""
    inputs, target = records()
    found = []
    for sign in (1.0, -1.0):
        data = inputs.clone()
        data[5] = sign * 1e6
        run: Any = runs.trainer(
            WholeModel(), data=(data, target), budget=runs.budget(scheme=md.wor(N, N)), seed=1,
            max_grad_norm=CLIP, clipping=clipping,
        )  # fmt: skip
        total = run._clipped(0, run._batches.batch(0), block=run._bound.block_for(N))
        found.append(torch.cat([g.flatten() for g in total.gradients]))
    moved = float((found[0] - found[1]).norm())
    assert 0.5 * CLIP < moved <= 2 * CLIP


def test_the_threshold_finds_the_quantile() -> None:
    """Norms are 1, 2, ..., 60; started far too high and far too low, the median is found."""
    data = torch.arange(1.0, 61.0).view(60, 1), torch.zeros(60, 1)
    for start in (1000.0, 0.01):
        run: Any = runs.trainer(
            nn.Linear(1, 1, bias=False),
            data=data,
            loss=lambda outputs, target: outputs.sum(1),
            budget=runs.budget(steps=150, scheme=md.wor(60, 60), z=0.5),
            optimizer=None,
            max_grad_norm=start,
            clipping=md.types.QuantileClipping(rate=0.3),
            seed=1,
        )
        for _ in range(150):
            run.compute_gradients()
        assert 20 < run._clipper.rule.state() < 42


def test_what_quantile_clipping_releases() -> None:
    """Gradient and count against their definitions, with the noise that each is said to have."""
    n, z, count_noise = 60, 2.0, 3.0
    data = torch.arange(1.0, n + 1).view(n, 1).expand(n, 3000), torch.zeros(n, 1)
    threshold = 30.5 * math.sqrt(3000)
    run: Any = runs.trainer(
        nn.Linear(3000, 1, bias=False),
        data=data,
        loss=lambda outputs, target: outputs.sum(1),
        budget=runs.budget(steps=1, scheme=md.wor(n, n), z=z),
        optimizer=None,
        max_grad_norm=threshold,
        clipping=md.types.QuantileClipping(count_noise=count_noise),
        seed=4,
    )
    total = run._clipped(0, run._batches.batch(0), block=run._bound.block_for(n))
    inner, share = run._bound.inner, z / (2 * count_noise)
    assert float(total.gradients[1]) == pytest.approx(0.0, abs=1e-6)  # 30 below and 30 above
    # The two together are as long as one record may be, times the number of records below it.
    above = float(total.gradients[0].norm()) / (30 + sum(range(1, 31)) / 30.5)
    assert math.hypot(above, share * inner) == pytest.approx(inner, rel=1e-4)
    assert math.hypot(above, share * inner) <= inner
    run.compute_gradients()
    noise = run._clipper.parameters[0].grad.flatten().double() * n
    noise -= noise.mean()
    expected = z / math.sqrt(1 - share**2) * threshold
    # 3000 numbers: their deviation is known to 1.3 %, four times that either way.
    assert float(noise.std()) == pytest.approx(expected, rel=0.052)


def test_the_noise_of_both_is_that_of_the_plan() -> None:
    """z = (z_g^-2 + (2 z_b)^-2)^(-1/2), as Andrew et al. (2021) state it for the two of them."""
    rule: Any = runs.trainer(
        clipping=md.types.QuantileClipping(count_noise=2.5), max_grad_norm=3.0
    )._clipper.rule
    z, z_b = runs.budget().noise_multiplier, 2.5
    z_g = z * rule.scale
    assert (z_g**-2 + (2 * z_b) ** -2) ** -0.5 == pytest.approx(z, rel=1e-9)


def test_rules_that_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="clipping must be"):
        runs.trainer(clipping="by ear")
    with pytest.raises(InvalidParameter, match=r"count_noise must be above half .* got 0\.75"):
        runs.trainer(clipping=md.types.QuantileClipping(count_noise=0.75))
    for make in (
        lambda: md.types.QuantileClipping(quantile=float("nan")),
        lambda: md.types.QuantileClipping(rate=0.0),
        lambda: md.types.AutomaticClipping(0.0),
    ):
        with pytest.raises(InvalidParameter, match="must be"):
            make()


def test_the_average_of_the_weights() -> None:
    seen: list[Any] = []

    def watch(event: Any) -> None:
        seen.append(runs.weights(event.model).clone())

    run = runs.trainer(ema=0.9, callbacks=[watch])
    assert run.train().averaged is run.averaged
    expected = seen[0]
    for weights in seen[1:]:
        expected = 0.9 * expected + 0.1 * weights
    assert torch.allclose(runs.weights(run.averaged), expected, atol=1e-6)
    assert runs.trainer().averaged is None
    for bad in (0.0, 1.0, float("nan")):
        with pytest.raises(InvalidParameter, match="ema must be"):
            runs.trainer(ema=bad)


class Counter:
    """State of the user's own."""

    seen = 0

    def state_dict(self) -> dict[str, int]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.seen = state["seen"]


def test_interrupted_and_resumed_with_everything(tmp_path: Any) -> None:
    def run(path: Any, counter: Any) -> Any:
        def count(event: Any) -> None:
            counter.seen += 1

        return runs.trainer(
            checkpoint=md.types.Checkpoint(path, extra=counter), callbacks=[count], seed=6,
            ema=0.9, clipping="quantile", augment=lambda x: x + torch.randn(6), views=2,
            units=[k // 2 for k in range(60)], budget=runs.budget(scheme=md.wor(30, 10)),
        )  # fmt: skip

    whole = run(tmp_path / "whole.pt", Counter())
    whole.train()
    run(tmp_path / "run.pt", Counter()).train(3)
    counter = Counter()
    resumed = run(tmp_path / "run.pt", counter)
    assert counter.seen == 2  # the third step was saved before it was shown
    resumed.train()
    assert torch.equal(runs.weights(resumed.model), runs.weights(whole.model))
    assert torch.equal(runs.weights(resumed.averaged), runs.weights(whole.averaged))
    assert resumed._clipper.rule.state() == whole._clipper.rule.state()
    usual: dict[str, Any] = {
        "ema": 0.9, "clipping": "quantile", "augment": lambda x: x, "views": 2
    }  # fmt: skip
    for options in ({"ema": None}, {"clipping": "flat"}, {"views": 3}):
        with pytest.raises(InvalidParameter, match="contributions"):
            runs.trainer(
                checkpoint=tmp_path / "run.pt", seed=6, budget=runs.budget(scheme=md.wor(30, 10)),
                units=[k // 2 for k in range(60)],
                **{**usual, **options},
            )  # fmt: skip


def test_weights_are_read_by_torch(tmp_path: Any) -> None:
    run = runs.trainer(checkpoint=tmp_path / "run.pt")
    run.train(2)
    state = torch.load(tmp_path / "run.pt", weights_only=True)["model"]
    assert all(torch.equal(state[name], p) for name, p in run.model.named_parameters())


def test_what_is_planned_and_what_is_spent() -> None:
    run = runs.trainer()
    run.train(2)
    assert run.privacy.spent == run.budget.spent(2)
    assert run.privacy.planned == run.budget.spent()
    assert "after 2 of 6 steps" in str(run.privacy)


def test_sharded_models_and_checkpointed_activations_are_refused_by_name() -> None:
    from torch.utils.checkpoint import checkpoint

    class Saving(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self, reentrant: bool) -> None:
            super().__init__()
            self.one, self.two, self.reentrant = nn.Linear(6, 6), nn.Linear(6, 3), reentrant

        def forward(self, x: Any) -> Any:
            return self.two(checkpoint(self.one, x, use_reentrant=self.reentrant))

    for reentrant in (False, True):
        with pytest.raises(NotCovered, match=r"activation checkpointing.*max_rows"):
            runs.trainer(Saving(reentrant))
    assert checkpoint(nn.Identity(), torch.ones(1), use_reentrant=False) == 1  # as it was


def test_a_sharded_model_is_refused_by_name() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    distributed: Any = torch.distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3))
        fully_shard(model[0], mesh=init_device_mesh("cpu", (1,)))
        with pytest.raises(NotCovered, match=r"module 0 is sharded .*leave fully_shard out"):
            runs.trainer(model)
    finally:
        distributed.destroy_process_group()


def test_logs(tmp_path: Any) -> None:
    path = tmp_path / "run.csv"
    runs.trainer(callbacks=[md.types.CsvLog(path, every=4)]).train()
    lines = path.read_text().splitlines()
    assert lines[0] == "step,epsilon"
    assert [line.split(",")[0] for line in lines[1:]] == ["4", "6"]
    assert float(lines[-1].split(",")[1]) == runs.budget().spent().epsilon.upper
    seeded = tmp_path / "seeded.csv"
    runs.trainer(callbacks=[md.types.CsvLog(seeded)], seed=1, losses=True).train(2)
    assert seeded.read_text().splitlines()[0] == "step,loss_not_private"


def test_a_plateau_is_told_what_it_needs() -> None:
    network = runs.model()
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    with pytest.raises(InvalidParameter, match="metric must be given"):
        runs.trainer(network, optimizer=optimizer, scheduler=plateau)
    when = md.types.Schedule(plateau, metric=lambda model: 1.0)
    runs.trainer(network, optimizer=optimizer, scheduler=when).train()
    assert optimizer.param_groups[0]["lr"] < 1.0


def test_a_metric_sees_only_what_is_saved(tmp_path: Any) -> None:
    """A metric that breaks off sees the same weights again, not a step made anew."""
    network, seen = runs.model(), []
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)

    def metric(model: Any) -> float:
        seen.append(next(model.parameters()).detach().clone())
        raise KeyboardInterrupt

    when = md.types.Schedule(torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer), metric=metric)
    saved = md.types.Checkpoint(tmp_path / "run.pt", every=100)
    trainer = runs.trainer(
        network, optimizer=optimizer, scheduler=when, checkpoint=saved, seed=None
    )
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            trainer.train()
    assert trainer.steps == 1
    assert len(seen) == 3
    assert all(torch.equal(one, seen[0]) for one in seen)


@pytest.mark.parametrize("threshold", [1e-320, 1e300, math.inf, math.nan, 0.0, None])
def test_a_threshold_that_cannot_have_been_reached_is_refused(threshold: float | None) -> None:
    rule = quantile_rule(md.types.QuantileClipping(), 1.0, 1.0, 100.0)
    with pytest.raises(NumericalFailure, match="threshold"):
        rule.restore(threshold)

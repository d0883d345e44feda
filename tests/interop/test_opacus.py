"""Beside Opacus: the same clipped sums, and our schemes and prices in its own loop."""

from __future__ import annotations

import re
import runpy
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
opacus = pytest.importorskip("opacus")

import mustdp as md
from mustdp.errors import (
    InvalidParameter,
    NotCovered,
)
from mustdp.interop.opacus import MultisetSampler, charged_to, multiset_loader
from mustdp.types import SeededRelease
from tests.training.networks import runs, zoo
from tests.training.networks.brute_force import bound, clipped_sum, clipper

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Opacus and the hooks it uses warn about themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
@pytest.mark.parametrize("make", [zoo.perceptron, zoo.convolution_many_places, zoo.group_norm])
def test_clipped_sums_are_those_of_opacus(make: Any, mode: str) -> None:
    torch.manual_seed(2)
    network, _, (inputs,), target = make()
    counts = [1, 3, 1, 2, 1, 1, 4, 1, 2]
    case = network, zoo.CROSS_ENTROPY, (inputs,), target
    ours = clipped_sum(clipper(case), case, counts, 9, 0.8)
    rows = torch.tensor([i for i, count in enumerate(counts) for _ in range(count)])
    found = opacus.PrivacyEngine().make_private(
        module=network,
        optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
        data_loader=torch.utils.data.DataLoader([0] * 9, batch_size=9),
        criterion=torch.nn.CrossEntropyLoss(),
        noise_multiplier=0.0,
        max_grad_norm=bound(0.8).inner,
        poisson_sampling=False,
        grad_sample_mode=mode,
    )
    private, optimizer = found[0], found[1]
    criterion = found[2] if mode == "ghost" else torch.nn.CrossEntropyLoss()
    criterion(private(inputs[rows]), target[rows]).backward()
    if mode == "hooks":
        optimizer.clip_and_accumulate()
        theirs = [p.summed_grad for p in network.parameters()]
    else:
        theirs = [p.grad for p in network.parameters()]
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.allclose(mine.float(), other, atol=1e-5)


def engine_for(loader: Any, **options: Any) -> tuple[Any, Any, Any, Any]:
    network = torch.nn.Linear(6, 3)
    engine = opacus.PrivacyEngine(accountant=charged_to(loader))
    private, optimizer, loader = engine.make_private(
        module=network,
        optimizer=torch.optim.SGD(network.parameters(), lr=0.1),
        data_loader=loader,
        noise_multiplier=1.5,
        max_grad_norm=1.0,
        **{"poisson_sampling": False, **options},
    )
    return engine, private, optimizer, loader


def epoch(private: Any, optimizer: Any, loader: Any) -> list[int]:
    sizes = []
    for inputs, target in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(private(inputs), target).backward()
        optimizer.step()
        sizes.append(len(target))
    return sizes


def dataset() -> Any:
    return torch.utils.data.TensorDataset(*runs.data())


def test_an_opacus_loop_is_charged_for_the_scheme_it_draws_by() -> None:
    scheme = md.must_ow(60, 30, 20)
    engine, private, optimizer, loader = engine_for(multiset_loader(dataset(), scheme))
    assert engine.get_epsilon(1e-3) == 0.0
    assert epoch(private, optimizer, loader) == [20, 20, 20]
    assert epoch(private, optimizer, loader) == [20, 20, 20]
    expected = runs.budget(6).spent().epsilon
    assert engine.get_epsilon(1e-3) == pytest.approx(expected.upper)
    assert engine.accountant.bounds(1e-3).lower == pytest.approx(expected.lower)
    assert len(engine.accountant) == 6


def test_empty_poisson_batches_are_steps_too() -> None:
    scheme = md.poisson(60, 0.04)
    engine, private, optimizer, loader = engine_for(multiset_loader(dataset(), scheme, seed=12))
    sizes = epoch(private, optimizer, loader)
    assert min(sizes) == 0
    assert max(sizes) > 0
    assert len(engine.accountant) == len(sizes) == 25


def test_the_sampler_yields_the_multisets_of_the_scheme() -> None:
    scheme = md.wr(60, 20)
    with pytest.warns(SeededRelease):
        sampler = MultisetSampler(scheme, seed=3)
    drawn = [*sampler, *sampler]
    stream = scheme.batches(seed=3)
    assert drawn == [next(stream).rows().tolist() for _ in range(6)]
    assert sampler.drawn == 6


def test_a_loader_that_opacus_has_replaced_is_not_charged_as_ours() -> None:
    loader = multiset_loader(dataset(), md.wor(60, 20))
    _, private, optimizer, replaced = engine_for(loader, poisson_sampling=True)
    with pytest.raises(InvalidParameter, match="poisson_sampling=False"):
        epoch(private, optimizer, replaced)


def test_gradients_of_several_batches_in_one_step_are_refused() -> None:
    loader = multiset_loader(dataset(), md.wor(60, 20))
    _, private, optimizer, loader = engine_for(loader)
    optimizer.zero_grad()
    for inputs, target in loader:
        torch.nn.functional.cross_entropy(private(inputs), target).backward()
    with pytest.raises(NotCovered, match="several batches"):
        optimizer.step()


def test_the_accountant_is_saved_and_loaded_with_its_scheme() -> None:
    scheme = md.wor(60, 20)
    engine, private, optimizer, loader = engine_for(multiset_loader(dataset(), scheme))
    epoch(private, optimizer, loader)
    saved = engine.accountant.state_dict()
    other = opacus.PrivacyEngine(accountant=charged_to(multiset_loader(dataset(), scheme)))
    other.accountant.load_state_dict(saved)
    assert other.get_epsilon(1e-3) == engine.get_epsilon(1e-3)
    different = multiset_loader(dataset(), md.wr(60, 20))
    with pytest.raises(ValueError, match="cannot be loaded"):
        opacus.PrivacyEngine(accountant=charged_to(different)).accountant.load_state_dict(saved)


def test_an_epoch_of_random_allocation_is_charged_as_a_whole() -> None:
    scheme = md.random_allocation(60, 4)
    engine, private, optimizer, loader = engine_for(multiset_loader(dataset(), scheme))
    sizes = epoch(private, optimizer, loader)
    assert (len(sizes), sum(sizes)) == (4, 60)
    one = md.account(md.subsample(scheme, md.gaussian(noise_multiplier=1.5))).epsilon(1e-3)
    assert engine.get_epsilon(1e-3) == pytest.approx(one.upper)
    optimizer.noise_multiplier = 2.0  # more noise in the next epoch does not make it dearer
    for inputs, target in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(private(inputs), target).backward()
        optimizer.step()
        break
    two = md.repeat(2, md.subsample(scheme, md.gaussian(noise_multiplier=1.5)))
    begun = md.account(two).epsilon(1e-3)
    assert engine.get_epsilon(1e-3) == pytest.approx(begun.upper)
    with pytest.raises(NotCovered, match="left before its end"):
        epoch(private, optimizer, loader)
    other, *parts = engine_for(multiset_loader(dataset(), scheme))
    other.accountant.load_state_dict(engine.accountant.state_dict())
    with pytest.raises(NotCovered, match="end within an epoch"):
        epoch(*parts)


def test_a_pass_that_was_left_is_not_mixed_into_the_next_one() -> None:
    scheme = md.random_allocation(60, 4)
    with pytest.warns(SeededRelease):
        sampler = MultisetSampler(scheme, seed=3)
    next(iter(sampler))
    assert sorted(row for batch in sampler for row in batch) == list(range(60))
    assert (sampler.drawn, sampler.passes) == (5, 2)


def test_shuffled_batches_are_those_of_replace_one() -> None:
    loader = multiset_loader(dataset(), md.shuffle(60, 20))
    with pytest.raises(NotCovered, match="only be run under replace_one"):
        charged_to(loader, relation="add_remove")
    engine, *parts = engine_for(loader)
    assert epoch(*parts) == [20, 20, 20]
    plain = md.account(md.gaussian(noise_multiplier=1.5), relation="replace_one").epsilon(1e-3)
    assert engine.get_epsilon(1e-3) == pytest.approx(plain.upper, rel=1e-3)


def test_bad_input() -> None:
    with pytest.raises(InvalidParameter, match="n = 61 records"):
        multiset_loader(dataset(), md.wor(61, 20))
    with pytest.raises(InvalidParameter, match="multiset_loader"):
        charged_to(torch.utils.data.DataLoader(dataset(), batch_size=4))
    with pytest.raises(InvalidParameter, match="expected size"):
        MultisetSampler(md.poisson(60, 0.0))


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "opacus_bridge.py"), run_name="__main__")
    assert "certified (replace-one)" in capsys.readouterr().out


def test_the_page_for_people_who_come_from_opacus(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "from-opacus.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(code, "from-opacus.md", "exec"), names)
    theirs, ours = (line.split() for line in capsys.readouterr().out.splitlines())
    assert 1.8 < float(theirs[0]) < 2.01
    assert 1.98 < float(ours[0]) <= 2.0
    assert 0.9 < float(ours[-1]) / float(theirs[-1]) < 1.0  # a little less noise, as the page says
    assert names["engine"].accountant.mechanism() == "prv"  # its default, as the page says


def test_a_run_of_opacus_with_our_accountant() -> None:
    """Poisson sampling by Opacus, charged as what it is, and saved and loaded as Opacus does."""
    from mustdp.interop import opacus as bridge

    assert bridge.register() == "mustdp"
    engine = opacus.PrivacyEngine(accountant="mustdp")
    model = torch.nn.Linear(3, 1)
    data = torch.utils.data.TensorDataset(torch.randn(40, 3), torch.randn(40, 1))
    private, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=10),
        noise_multiplier=2.0,
        max_grad_norm=1.0,
    )
    for inputs, targets in loader:
        optimizer.zero_grad()
        (private(inputs) - targets).square().sum().backward()
        optimizer.step()
    steps = len(engine.accountant)
    assert steps == 4
    plan = md.repeat(steps, md.subsample(md.poisson(40, 0.25), md.gaussian(noise_multiplier=2.0)))
    certified = md.account(plan, relation="add_remove").epsilon(delta=1e-3)
    assert engine.get_epsilon(1e-3) == certified.upper
    kept = engine.accountant.state_dict()
    other = bridge.OpacusAccountant()
    other.load_state_dict(kept)
    assert other.get_epsilon(1e-3) == certified.upper


def test_noise_for_a_target_by_opacus() -> None:
    from opacus.accountants.utils import get_noise_multiplier

    from mustdp.interop import opacus as bridge

    found = get_noise_multiplier(
        target_epsilon=1.0,
        target_delta=1e-5,
        sample_rate=0.01,
        steps=100,
        accountant=bridge.register(),
    )
    ours = md.calibrate(md.poisson(1000, 0.01), epsilon=1.0, delta=1e-5, steps=100)
    assert ours.noise_multiplier * 0.999 <= found <= ours.noise_multiplier * 1.05


def test_a_run_that_is_over() -> None:
    from mustdp.interop import opacus as bridge

    run = bridge.account_history([(1.1, 0.01, 150), (1.3, 0.01, 100)])
    steps = [
        md.repeat(count, md.subsample(md.poisson(1, 0.01), md.gaussian(noise_multiplier=z)))
        for z, count in ((1.1, 150), (1.3, 100))
    ]
    assert run.poisson(1e-5) == md.account(md.sequence(*steps)).epsilon(delta=1e-5)
    shuffled = run.shuffled(1e-5)
    assert shuffled is not None
    assert shuffled.upper > run.poisson(1e-5).upper  # the mistake that this warns of
    assert bridge.account_history([(1.1, 0.013, 150)]).shuffled(1e-5) is None


def test_an_epoch_is_not_taken_apart_where_noise_changes() -> None:
    """The second epoch has both noises: a record is in it once, and again in the third."""
    from mustdp.interop import opacus as bridge
    from tests.seams import steps_of

    run = bridge.account_history([(2.0, 0.1, 15), (3.0, 0.1, 10)])
    least = steps_of(md.shuffle(10, 1), 25, md.gaussian(noise_multiplier=2.0))
    assert run.shuffled(1e-5) == md.account(least, relation="add_remove").epsilon(delta=1e-5)
    assert bridge.account_history([(2.0, 0.1, 15), (2.0, 0.2, 10)]).shuffled(1e-5) is None
    assert bridge.account_history([(2.0, 0.1, 20), (2.0, 0.2, 7)]).shuffled(1e-5) is not None


@pytest.mark.parametrize(
    "history",
    [[], [(1.0, 0.1)], [(0.0, 0.1, 5)], [(1.0, 1.5, 5)], [(1.0, 0.1, 0)], [("a", 0.1, 5)], ["abc"]],
    ids=str,
)
def test_bad_histories(history: Any) -> None:
    from mustdp.interop import opacus as bridge

    with pytest.raises(InvalidParameter):
        bridge.account_history(history)


def test_no_steps_cost_nothing_and_no_noise_everything() -> None:
    from mustdp.interop import opacus as bridge

    accountant = bridge.OpacusAccountant()
    assert accountant.get_epsilon(1e-5) == 0
    accountant.step(noise_multiplier=0.0, sample_rate=0.1)
    assert accountant.get_epsilon(1e-5) == float("inf")
    with pytest.raises(InvalidParameter, match="noise_multiplier"):
        accountant.step(noise_multiplier=float("nan"), sample_rate=0.1)


def test_a_target_by_opacus_is_met_and_its_history_told() -> None:
    """``make_private_with_epsilon`` with our accountant, and what the run was worth otherwise."""
    from mustdp.interop import opacus as bridge

    engine = opacus.PrivacyEngine(accountant=bridge.register())
    model = torch.nn.Linear(3, 1)
    data = torch.utils.data.TensorDataset(torch.randn(40, 3), torch.randn(40, 1))
    private, optimizer, loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=10),
        target_epsilon=2.0,
        target_delta=1e-3,
        epochs=2,
        max_grad_norm=1.0,
    )
    for _ in range(2):
        for inputs, targets in loader:
            optimizer.zero_grad()
            (private(inputs) - targets).square().sum().backward()
            optimizer.step()
    assert 1.9 < engine.get_epsilon(1e-3) <= 2.0
    run = bridge.account_history(engine.accountant.history)
    assert run.poisson(1e-3).upper == engine.get_epsilon(1e-3)
    shuffled = run.shuffled(1e-3)
    assert shuffled is not None
    assert shuffled.lower > engine.get_epsilon(1e-3)  # had the loader shuffled, 2 were not kept
    [(noise, rate, steps)] = engine.accountant.history
    assert (rate, steps) == (0.25, 8)
    plan = md.repeat(2, md.subsample(md.shuffle(40, 10), md.gaussian(noise_multiplier=noise)))
    ours = md.account(plan, relation="add_remove").epsilon(delta=1e-3)
    assert shuffled.lower == pytest.approx(ours.lower, rel=1e-6)

"""Every registered mechanism keeps the contract; mechanisms that break it are found out."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import mustdp as md
from mustdp.cli.parameters import as_typed
from mustdp.errors import Contradiction
from mustdp.mechanisms import registry
from mustdp.mechanisms.mechanism import (
    AdditiveNoise,
    DiscreteOutcomes,
    GaussianNoise,
    GroupProfiles,
    LaplaceNoise,
    Noise,
    NoiseProfiles,
    Proof,
)
from mustdp.mechanisms.registry import RegisteredMechanism, arguments, mechanisms, registered
from mustdp.types import Mechanism
from tests.arrays import FloatArray, IntArray
from tests.cli.running import Run, answer, check_refused, runner
from tests.mechanisms import conformance

INSTANCES = [
    pytest.param(one, example, id=f"{one.name} {dict(example)}")
    for one in mechanisms().values()
    for example in one.examples
]
NAMED = [pytest.param(one, id=one.name) for one in mechanisms().values()]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("entry", "example"), INSTANCES)
def test_registered_mechanisms_conform(
    entry: RegisteredMechanism,
    example: Mapping[str, float | tuple[float, ...]],
    check: Callable[[Mechanism], None],
) -> None:
    check(entry.build(**example))


@pytest.mark.parametrize("entry", NAMED)
def test_every_mechanism_is_registered_as_a_public_name(entry: RegisteredMechanism) -> None:
    assert len(entry.examples) >= 2
    called = {one.name: one.parameter or one.name for one in entry.arguments}
    given = {called[name]: value for name, value in entry.examples[0].items()}
    made = getattr(md, entry.name.replace("-", "_"))(**given)
    assert registered(made) is entry
    assert made.name == entry.name
    names = {argument.name for argument in entry.arguments}
    assert names == {field.name for field in fields(made)}
    assert entry.searched is None or arguments()[entry.searched].larger_is_private


@pytest.mark.parametrize("entry", NAMED)
def test_bad_arguments_are_refused_by_name(entry: RegisteredMechanism) -> None:
    for argument in entry.arguments:
        rest = next(one for one in entry.examples if argument.name in one or argument.default)
        bad: list[Any] = [float("nan"), float("inf"), -1, 0, True, "1", [1.0]]
        bad += [argument.least / 2, argument.most * 2]
        for value in bad:
            with pytest.raises(md.InvalidParameter, match=argument.parameter or argument.name):
                entry.build(**{**rest, argument.name: value})
    with pytest.raises(md.InvalidParameter, match="colour"):
        entry.build(**entry.examples[0], colour=1)


@pytest.mark.parametrize("entry", NAMED)
def test_the_command_line_takes_every_mechanism(entry: RegisteredMechanism, run: Run) -> None:
    line = f"account --scheme wor -n 100 -m 5 --steps 2 --delta 1e-4 --mechanism {entry.name}"
    for example in entry.examples[:2]:
        given = " ".join(f"{arguments()[name].option} {as_typed(v)}" for name, v in example.items())
        found = answer(run, f"{line} {given}")
        mechanism = entry.build(**example)
        assert {key: found[key] for key in mechanism.describe()} == mechanism.describe()
        plan = md.repeat(2, md.subsample(md.wor(100, 5), mechanism))
        bounds = md.account(plan).epsilon(1e-4)
        assert found["epsilon"] == {"lower": bounds.lower, "upper": bounds.upper}
        printed = run(*f"{line} {given}".split())
        assert printed.status == 0
        assert f"{entry.name} noise" in printed.out


@pytest.mark.parametrize("entry", NAMED)
def test_the_command_line_refuses_what_does_not_fit(entry: RegisteredMechanism, run: Run) -> None:
    line = f"account --scheme wor -n 100 -m 5 --steps 2 --delta 1e-4 --mechanism {entry.name}"
    own = {argument.name for argument in entry.arguments}
    needed = [one for one in entry.arguments if one.default is None]
    check_refused(run(*line.split()), needed[0].option, "missing")
    for argument in needed:
        for text in ("nan", "-1", "word"):
            check_refused(run(*line.split(), argument.option, text), argument.option, text)
    example = entry.examples[0]
    given = [
        w for name, value in example.items() for w in (arguments()[name].option, as_typed(value))
    ]
    for name, argument in arguments().items():
        if name not in own:
            allowed = str(int(argument.most)) if argument.whole else str(argument.most)
            refused = run(*line.split(), *given, argument.option, allowed)
            check_refused(refused, argument.option, entry.name)


@pytest.mark.parametrize(
    "entry", [pytest.param(one, id=one.name) for one in mechanisms().values() if one.searched]
)
def test_calibration_finds_the_size_of_every_mechanism(
    entry: RegisteredMechanism, run: Run
) -> None:
    found = md.calibrate(md.wor(100, 5), epsilon=1.0, delta=1e-4, steps=3, mechanism=entry.name)
    assert 0.97 < found.epsilon.upper <= 1.0
    assert found.parameter == entry.searched
    line = "calibrate --scheme wor -n 100 -m 5 --steps 3 --epsilon 1 --delta 1e-4"
    typed = answer(run, f"{line} --mechanism {entry.name}")
    assert typed[str(entry.searched)] == found.size
    printed = run(*line.split(), "--mechanism", entry.name)
    assert str(entry.searched).replace("_", " ") in printed.out


def test_every_decorated_function_is_found() -> None:
    """What the source says is what the decorators say when the modules are loaded."""
    folder = Path(registry.__file__).parent
    said: dict[str, object] = {}
    for file in folder.glob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                for one in node.decorator_list:
                    if isinstance(one, ast.Call) and ast.unparse(one.func) == "register":
                        said[node.name.replace("_", "-")] = file.stem
    assert said == {one.name: one.module.rpartition(".")[2] for one in mechanisms().values()}
    listed = {name for name in dir(md) if name.replace("_", "-") in said}
    assert len(listed) == len(said)


# Mechanisms that break the contract, each in one way.


class WrongSignLaw(LaplaceNoise):
    """A profile of which the wrong side of zero was taken."""

    def profile(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
        size = -np.expm1(np.minimum(-(np.abs(epsilon) + distance) / 2.0, 0.0)) * 0.5
        return np.where(epsilon < 0, -np.expm1(epsilon) + size * np.exp(epsilon), size)


class HeavyTailedLaw(GaussianNoise):
    """Logistic noise of unit scale that only says so where it defines itself."""

    def log_density(self, x: FloatArray) -> FloatArray:
        return np.asarray(-np.abs(x) - 2.0 * np.log1p(np.exp(-np.abs(x))))


class ClaimingLaw(HeavyTailedLaw):
    """The same, which also takes the theorems of Gaussian noise for its own."""

    proof = Proof.GAUSSIAN


class UnboundedLaw(GaussianNoise):
    """Gaussian noise that takes the distance for its largest loss."""

    bounded_loss = True


class LightMomentsLaw(GaussianNoise):
    """Gaussian noise with half of its moments."""

    def log_moments(self, a: FloatArray, distance: FloatArray) -> FloatArray:
        return np.asarray(0.25 * a * (a - 1.0) * np.square(distance))


@dataclass(frozen=True)
class WrongSign(AdditiveNoise):
    noise: ClassVar[Noise] = WrongSignLaw()


@dataclass(frozen=True)
class HeavyTailed(md.types.Gaussian):
    noise: ClassVar[Noise] = HeavyTailedLaw()


@dataclass(frozen=True)
class Claiming(md.types.Gaussian):
    noise: ClassVar[Noise] = ClaimingLaw()


@dataclass(frozen=True)
class Unbounded(AdditiveNoise):
    noise: ClassVar[Noise] = UnboundedLaw()


@dataclass(frozen=True)
class LightMoments(AdditiveNoise):
    noise: ClassVar[Noise] = LightMomentsLaw()


@dataclass(frozen=True)
class HalfSensitive(AdditiveNoise):
    """The sensitivity is off by a factor of two."""

    noise: ClassVar[Noise] = LaplaceNoise()

    def profiles(self, shift: float | None) -> GroupProfiles:
        return NoiseProfiles(self.noise, (shift or 0.0) / 2.0)


class Coin(DiscreteOutcomes):
    """Heads with chance 3/4 for whoever occurs, else with 1/4."""

    relative_error = 1e-15
    placements: ClassVar[Mapping[str, tuple[int, int]]] = {"aligned": (1, 0), "reversed": (0, 1)}

    def masses(self, places: IntArray) -> FloatArray:
        heads = np.where(places > 0, 0.75, 0.25)
        return np.stack([heads, 1.0 - heads], axis=1)


@dataclass(frozen=True)
class Flipped(md.types.Custom):
    """A coin that is told apart better than its profile says."""

    def attained(self, shift: float | None) -> DiscreteOutcomes:
        return Coin()


@dataclass(frozen=True)
class SmallLoss(AdditiveNoise):
    """Laplace noise that states half of its largest loss."""

    noise: ClassVar[Noise] = LaplaceNoise()

    def largest_loss(self, moves: int) -> Fraction:
        return Fraction(self.shift or 1.0) / 2


def coin_profile(epsilon: FloatArray) -> FloatArray:
    """Too small: the coin has max(0, 3/4 - e^epsilon / 4)."""
    return np.maximum(0.0, 0.6 - 0.25 * np.exp(epsilon))


BROKEN = [
    WrongSign(shift=1.0),
    HeavyTailed(shift=1.0),
    Claiming(shift=1.0),
    Unbounded(shift=1.0),
    LightMoments(shift=1.0),
    HalfSensitive(shift=1.0),
    Flipped(coin_profile),
    SmallLoss(shift=1.0),
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda one: type(one).__name__)
def test_a_broken_mechanism_is_found_out(broken: Mechanism) -> None:
    """By a check of numbers: that nothing unregistered is written as JSON is another one."""
    failed = []
    for check in conformance.CHECKS:
        if check is conformance.check_json:
            continue
        try:
            check(broken)
        except (AssertionError, Contradiction):
            failed.append(check.__name__)
    assert failed


def test_a_sound_coin_with_discrete_outcomes_passes() -> None:
    sound = Flipped(lambda eps: np.maximum(0.0, 0.75 - 0.25 * np.exp(eps)))
    for check in conformance.CHECKS:
        if check is not conformance.check_json:
            check(sound)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda one: type(one).__name__)
def test_what_is_derived_from_a_registered_mechanism_is_not_written_as_it(
    broken: Mechanism,
) -> None:
    with pytest.raises(md.NotCovered, match="not registered"):
        conformance.check_json(broken)


def test_a_derived_law_inherits_no_claim() -> None:
    law = HeavyTailedLaw()
    assert law.proof is None
    assert law.log_moments(np.array([2.0]), np.array([1.0])) is None
    assert not WrongSignLaw.bounded_loss
    step = HeavyTailed(noise_multiplier=2.0)
    assert step.proof is None
    assert step.largest_loss(2) is None
    with pytest.raises(md.NotCovered, match="Gaussian noise"):
        md.subsample(md.random_allocation(100, 10), step)
    found = md.account(md.repeat(2, md.subsample(md.wor(100, 5), step))).epsilon(1e-3)
    assert found.composition == "one pair"


def test_a_subclass_must_state_its_law() -> None:
    with pytest.raises(TypeError, match="must state its noise law"):
        type("Renamed", (md.types.Gaussian,), {})

"""What workers are sent does not tell the noise: a denoised replicate is the record itself."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mustdp as md
from mustdp.estimation.bootstrap import run_locally
from mustdp.execution.cluster import Concealed
from mustdp.noise.exact import GAUSSIAN, exact_noise, release
from mustdp.randomness.keys import KEY_BYTES, NoiseSource, aes_counter

DATA = np.random.default_rng(0).uniform(0, 100, 400)
REPLICATES = 12


class Overheard:
    """The job as it travels, and the noise that was put on its totals, in steps."""

    job: bytes
    noise: NDArray[np.int64]
    ratio: float

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int | None) -> None:

        def running(source: Any, job: Any, *rest: Any) -> None:
            self.job = pickle.dumps((job, Concealed(job)))
            run_locally(source, job, *rest)

        def releasing(
            sums: NDArray[np.int64], noise: Any, source: NoiseSource
        ) -> NDArray[np.float64]:
            found = release(sums, noise, source)
            self.ratio = noise[0].ratio
            self.noise = np.rint(found / noise[0].lattice.step).astype(np.int64) - sums
            with pytest.raises(TypeError, match="never copied"):
                pickle.dumps(source)
            return found

        monkeypatch.setattr("mustdp.estimation.bootstrap.run_locally", running)
        monkeypatch.setattr("mustdp.estimation.queries.release", releasing)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            md.private_bootstrap(
                DATA, lower=0, upper=100, design=md.wor(400, 100), replicates=REPLICATES,
                noise_multiplier=3.0, delta=1e-6, seed=seed,
            )  # fmt: skip

    def reproduced_by(self, source: Any) -> bool:
        drawn = exact_noise(GAUSSIAN, self.ratio, REPLICATES, source)
        return bool(np.array_equal(drawn, self.noise[:, 0]))


class UnderKey:
    """A source of noise under a key that somebody guesses."""

    def __init__(self, key: bytes) -> None:
        self._bits = aes_counter(key)

    def words(self, count: int) -> Any:
        return self._bits.random_raw(count)


def test_a_seed_that_workers_get_reproduces_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was for every run; such a run is an experiment now, and says so."""
    overheard = Overheard(monkeypatch, seed=7)
    job, _ = pickle.loads(overheard.job)
    assert overheard.reproduced_by(NoiseSource(job.key.seed))


def test_the_key_that_workers_get_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does anything else among the bytes that travel, read as a key or as a seed."""
    overheard = Overheard(monkeypatch, seed=None)
    job, concealed = pickle.loads(overheard.job)
    assert job.key.seed is None
    assert concealed.content.key == job.key
    assert job.key.text not in repr(concealed) + repr(job) + repr(job.key)
    heard = [job.key.secret, job.key.secret[::-1], overheard.job]
    keys = {
        part[start : start + KEY_BYTES]
        for part in heard
        for start in range(len(part) - KEY_BYTES + 1)
    }
    assert len(keys) > 100
    assert not any(overheard.reproduced_by(UnderKey(key)) for key in keys)
    seeds = {int.from_bytes(key, order) for key in keys for order in ("little", "big")}
    assert not any(overheard.reproduced_by(NoiseSource(seed)) for seed in seeds)

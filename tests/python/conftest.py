"""Settings and helpers that all tests share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import settings

from repeated import outcome
from tessera import _repeat

settings.register_profile("tessera", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("tessera")
torch.set_num_threads(2)


@pytest.fixture
def draw():
    """draw(*shape): N(0, 1) in float32, the same in each run."""
    generator = np.random.default_rng(7)
    return lambda *shape: generator.standard_normal(shape, dtype=np.float32)


@pytest.fixture
def some(draw):
    """The same as torch tensors."""
    return lambda *shape: torch.from_numpy(draw(*shape))


@pytest.fixture
def anew(monkeypatch):
    """Runs a call as if it were the first."""

    def call(function, *tensors, **options):
        with monkeypatch.context() as patch:
            patch.setattr(_repeat.Kept, "find", lambda *_: None)
            patch.setattr(_repeat.Kept, "keep", lambda *_: None)
            return outcome(function, *tensors, **options)

    return call

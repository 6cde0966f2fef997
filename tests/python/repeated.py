"""Calls that may be kept (_repeat.py), and what they give, as the tests compare it."""

from __future__ import annotations

import numpy as np
import torch

from tessera import _repeat


def numbers(x):
    """Whatever a call gives, as dtypes and lists."""
    if isinstance(x, tuple):
        return tuple(map(numbers, x))
    if x is None:
        return None
    return (type(x), str(x.dtype), x.tolist(), tuple(x.shape))


def outcome(function, *tensors, **options):
    """What a call gives, or the error that it raises."""
    try:
        return numbers(function(*tensors, **options))
    except (ValueError, TypeError, NotImplementedError, RuntimeError) as error:
        return type(error), str(error)


def is_kept(monkeypatch, function, *tensors):
    """Whether the next call of this kind is answered by one that was kept."""
    found, hits = _repeat.Kept.find, []
    with monkeypatch.context() as patch:
        patch.setattr(_repeat.Kept, "find", lambda *call: hits.append(found(*call)) or hits[-1])
        function(*tensors)
    return hits[-1] is not None


def arrays(kind, draw):
    """q, k, v and the options of a call that has most of them."""
    q, k, v = draw(2, 6, 4, 8), draw(2, 6, 2, 8), draw(2, 6, 2, 8)
    options = {
        "mask": draw(6, 6) < 1,
        "bias": draw(4, 6, 6),
        "alibi": np.abs(draw(4)),
        "sink": draw(4),
        "kv_lengths": np.array([5, 6]),
        "kv_starts": np.array([1, 0], np.int32),
        "align": np.array([0, 1]),
    }
    if kind == "torch":
        q, k, v = map(torch.from_numpy, (q, k, v))
        options = {name: torch.from_numpy(x) for name, x in options.items()}
    return q, k, v, options


def strided(x):
    """The same numbers in memory that lies differently."""
    if isinstance(x, torch.Tensor):
        return torch.stack([x, x], -1)[..., 0]
    return np.stack([x, x], -1)[..., 0]

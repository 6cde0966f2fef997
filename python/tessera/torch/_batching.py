"""The operators under torch.vmap.

Where q, k and v are the only tensors of a call, the new dimension is folded into the batch and one
call does all. Otherwise the calls are made one after another: a sink, a packed batch or a dropout
pattern belongs to one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tessera.torch._operators import TENSORS, backward_operator, forward_operator


def _front(x: Any, dim: Any, size: int) -> Any:
    """x with the mapped dimension in front; expanded where it is not mapped."""
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


def _one_by_one(operator: Any, size: int, dims: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """A call for each index; results stacked in front."""
    results = [
        operator(*(x if d is None else x.select(d, i) for x, d in zip(arguments, dims)))
        for i in range(size)
    ]
    return tuple(torch.stack(same) for same in zip(*results))


def _folds(size: int, q: Any, dim: Any, options: Sequence[Any]) -> bool:
    """Whether one call can do all. options: behind v."""
    plain = all(x is None for x in options[: len(TENSORS)])
    return plain and size > 0 and q.dim() - (dim is not None) == 4


def _fold(x: Any, dim: Any, size: int) -> Any:
    return None if x is None else _front(x, dim, size).flatten(0, 1)


def _forward(info: Any, in_dims: Any, *arguments: Any) -> Any:
    size = info.batch_size
    if not _folds(size, arguments[0], in_dims[0], arguments[3:]):
        return _one_by_one(forward_operator, size, in_dims, arguments), (0, 0)
    q, k, v = (_fold(x, d, size) for x, d in zip(arguments[:3], in_dims))
    out, lse = forward_operator(q, k, v, *arguments[3:])
    return (out.unflatten(0, (size, -1)), lse.unflatten(0, (size, -1))), (0, 0)


_TENSORS_BEFORE = 4  # of the backward operator: d_out, d_lse, out, lse; then wanted


def _backward(info: Any, in_dims: Any, *arguments: Any) -> Any:
    size, wanted = info.batch_size, arguments[_TENSORS_BEFORE]
    dims = [None if i == _TENSORS_BEFORE else d for i, d in enumerate(in_dims)]
    at = _TENSORS_BEFORE + 1
    if not _folds(size, arguments[at], dims[at], arguments[at + 3 :]):
        return _one_by_one(backward_operator, size, dims, arguments), (0,) * 5
    read = [_fold(x, d, size) for x, d in zip(arguments[:at], dims) if x is not wanted]
    q, k, v = (_fold(x, d, size) for x, d in zip(arguments[at : at + 3], dims[at:]))
    found = backward_operator(*read, wanted, q, k, v, *arguments[at + 3 :])
    shaped = [
        x.unflatten(0, (size, -1)) if want else x.expand(size, 0) for x, want in zip(found, wanted)
    ]
    return tuple(shaped), (0,) * 5


torch.library.register_vmap("tessera::attention_forward", _forward)
torch.library.register_vmap("tessera::attention_backward", _backward)

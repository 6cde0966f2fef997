"""Calls that have no tensors but q, k and v, with as little Python as will do.

Most calls of a training run are of this kind, and look alike. With gradients, the forward pass
keeps its packed descriptor; the backward pass hands it on, unless a hook moved the tensors that
were saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from tessera import _descriptors as d
from tessera import _native
from tessera._backward import block
from tessera._run import run
from tessera._scalars import band, number
from tessera._tensors import Seen, adopt, kinds
from tessera.torch._function import attention_gradients, new_result, turned
from tessera.torch._operators import lse_dtype

_layouts: Seen[bytes] = Seen()


def _at(x: Any, name: str) -> tuple[int, bytes]:
    """The address and the packed layout of x [B, H, L, D] as [B, L, H, D]."""
    key = (x.shape, x.stride(), x.dtype, x.is_neg(), x.is_cpu)
    layout = _layouts.get(key)
    if layout is None:
        y = adopt(x.detach().transpose(1, 2), name)
        layout = _layouts.put(key, kinds[type(y)].read(y, name, y.shape)[1])
    return x.data_ptr(), layout


def computed(q: Any, k: Any, v: Any, causal: bool, scale: Any) -> Any:
    """out without gradients; tensors are [B, H, L, D], causal is from the top left."""
    out = new_result(q, v)
    packed = _pack(q, k, v, out, None, causal, scale)
    run(_native.attention, packed, kinds[torch.Tensor], None)
    return out


def _pack(q: Any, k: Any, v: Any, out: Any, lse: Any, causal: bool, scale: Any) -> bytes:
    """The call as a tessera_attention_desc."""
    at_q, at_lse = _at(q, "q"), (0, d.ABSENT_LAYOUT)
    if lse is not None:
        at_lse = kinds[torch.Tensor].read(lse, "lse", lse.shape)
    align, left, right, offset = band(causal, None, "top_left" if causal else None)
    # fmt: off
    return d.CALL.pack(
        d.CALL_SIZE, 0, 0, align,
        *at_q, *_at(k, "k"), *_at(v, "v"), *_at(out, "out"),
        *at_lse,
        math.nan if scale is None else number("scale", scale), 0.0, left, right, offset, d.NO_REST,
    )
    # fmt: on


def _places(*tensors: Any) -> list[Any]:
    return [(x.data_ptr(), x.stride()) for x in tensors]


def _gradient(need: bool, x: Any, name: str) -> tuple[Any, bytes]:
    """Memory that lies as that of x; None if it is not needed."""
    if not need:
        return None, d.ABSENT
    made = torch.empty_like(x)
    return made, d.TENSOR.pack(*_at(made, name))


class Plain(torch.autograd.Function):
    """q, k, v and out are [B, H, L, D]; causal from the top left."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, causal: bool, scale: Any) -> Any:
        """out alone."""
        out = new_result(q, v)
        lse = q.new_empty(q.shape[:3], dtype=lse_dtype(q))
        ctx.call = _pack(q, k, v, out, lse, causal, scale)
        run(_native.attention, ctx.call, kinds[torch.Tensor], None)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.places = _places(q, k, v, out, lse)
        ctx.options = {"causal": causal, "scale": scale, "align": "top_left" if causal else None}
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Any) -> Any:
        """The gradients that are needed."""
        q, k, v, out, lse = ctx.saved_tensors
        needed = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled() or _places(q, k, v, out, lse) != ctx.places:
            tensors = (*turned(True, d_out, q, k, v, out), lse, None, None, None)
            found = attention_gradients(tensors, (*needed, False, False), ctx.options)
            return (*(x if x is None else x.transpose(1, 2) for x in found[:3]), None, None)
        dq, at_q = _gradient(needed[0], q, "dq")
        dk, at_k = _gradient(needed[1], k, "dk")
        dv, at_v = _gradient(needed[2], v, "dv")
        upstream = d.TENSOR.pack(*_at(d_out, "d_out")) + d.ABSENT
        packed = block(0, upstream, at_q + at_k + at_v + d.ABSENT + d.ABSENT, ctx.call)
        run(_native.attention_backward, packed, kinds[torch.Tensor], None)
        return dq, dk, dv, None, None


plain: Callable[..., Any] = Plain.apply

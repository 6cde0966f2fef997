"""Gradients of calls that have no tensors but q, k and v, with as little Python as will do.

Most calls of a training run are of this kind, and look alike. The forward pass keeps its packed
descriptor; the backward pass hands it on, unless a hook moved the tensors that were saved.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from tessera import _call, _native, _repeat
from tessera import _descriptors as d
from tessera._run import run
from tessera._scalars import band
from tessera._tensors import Kind, kinds
from tessera.torch._function import attention_gradients, new_result, turned

_NO_GRADIENT = d.ABSENT


def _forward(tensors: tuple[Any, ...], causal: bool, scale: Any) -> Any:
    """The call, computed: its bytes, kind, out and lse. tensors: q, k, v and out, [B, L, H, D]."""
    q, k, v, out = tensors
    align = "top_left" if causal else None
    key, call = _repeat.find(q, k, v, out, (align, scale, 0.0, causal, None, False, True))
    if call is None:
        call = _call.pack(q, k, v, out, True, _call.Scalars(band(causal, None, align), scale), None)
        if key is not None:
            _repeat.keep(key, call, q, True)
    run(_native.attention, call[0], call[1], None)
    return call


def _places(*tensors: Any) -> list[Any]:
    return [(x.data_ptr(), x.stride()) for x in tensors]


def _gradient(kind: Kind, need: bool, x: Any, name: str) -> tuple[Any, bytes]:
    """Memory like that of x [B, L, H, D], dense; None if it is not needed."""
    if not need:
        return None, _NO_GRADIENT
    made = x.new_empty(x.shape)
    return made, d.TENSOR.pack(*kind.read(made, name, made.shape))


class Plain(torch.autograd.Function):
    """q, k, v and out are [B, H, L, D]; causal from the top left."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, causal: bool, scale: Any) -> Any:
        """out alone."""
        out = new_result(q, v)
        call = _forward(turned(True, q, k, v, out), causal, scale)
        lse = call[3]
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.call, ctx.places = call[0], _places(q, k, v, out, lse)
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
        kind = kinds[torch.Tensor]
        d_out, q, k, v = turned(True, d_out, q, k, v)
        dq, at_q = _gradient(kind, needed[0], q, "dq")
        dk, at_k = _gradient(kind, needed[1], k, "dk")
        dv, at_v = _gradient(kind, needed[2], v, "dv")
        forward = ctypes.create_string_buffer(ctx.call, d.CALL_SIZE)
        upstream = d.TENSOR.pack(*kind.read(d_out, "d_out", d_out.shape)) + d.ABSENT
        gradients = at_q + at_k + at_v + d.ABSENT + d.ABSENT
        packed = d.BACKWARD.pack(d.BACKWARD.size, 0, ctypes.addressof(forward), upstream, gradients)
        run(_native.attention_backward, packed, kind, None)
        return (*(x if x is None else x.transpose(1, 2) for x in (dq, dk, dv)), None, None)


plain: Callable[..., Any] = Plain.apply

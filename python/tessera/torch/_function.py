"""The autograd.Functions: one that calls the library at once, one that torch can trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from tessera._attention import attention
from tessera._backward import Gradients, attention_backward
from tessera.torch._operators import backward_operator, forward_operator

_INPUTS = ("q", "k", "v", "bias", "sink")  # in the order of Gradients


def _upstream(d_out: Any, out: Any) -> Any:
    """d_out, 0 where only lse was used."""
    return out.new_zeros(()).expand(out.shape) if d_out is None else d_out


class Eager(torch.autograd.Function):
    """Calls the library without the dispatcher. Tensors among the options are saved as torch saves
    them, so that hooks see them and changes in place are found.
    """

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, bias: Any, sink: Any, options: Any) -> Any:
        """out and lse of tessera.attention; options: its other keywords."""
        out, lse = attention(q, k, v, bias=bias, sink=sink, return_lse=True, **options)
        names = [n for n, x in options.items() if isinstance(x, torch.Tensor)]
        ctx.save_for_backward(q, k, v, bias, sink, out, lse, *[options[n] for n in names])
        ctx.names = names
        ctx.options = {n: x for n, x in options.items() if n not in names} if names else options
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Any, d_lse: Any) -> Any:
        """The gradients that are needed."""
        if d_out is None and d_lse is None:
            return None, None, None, None, None, None
        q, k, v, bias, sink, out, lse, *tensors = ctx.saved_tensors
        needed = ctx.needs_input_grad
        wanted = [name for name, need in zip(Gradients._fields, needed) if need]
        # fmt: off
        gradients = attention_backward(
            _upstream(d_out, out), q, k, v, out, lse, d_lse=d_lse, wanted=wanted,
            bias=bias, sink=sink, **ctx.options, **dict(zip(ctx.names, tensors)),
        )
        # fmt: on
        return (*gradients, None)


class Traced(torch.autograd.Function):
    """The same through the operators, for torch.compile, torch.export and torch.func."""

    generate_vmap_rule = True  # from those of the operators

    @staticmethod
    def forward(q: Any, k: Any, v: Any, *packed: Any) -> Any:
        """out and lse; packed: the options as the operators take them."""
        return forward_operator(q, k, v, *packed)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Saves what the gradients read."""
        tensors = [x if isinstance(x, torch.Tensor) else None for x in inputs]
        ctx.save_for_backward(*output, *tensors)
        ctx.others = [None if isinstance(x, torch.Tensor) else x for x in inputs]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Any, d_lse: Any) -> Any:
        """The gradients that are needed."""
        out, lse, *tensors = ctx.saved_tensors
        inputs = [o if t is None else t for t, o in zip(tensors, ctx.others)]
        wanted = list(ctx.needs_input_grad[: len(_INPUTS)])
        found = backward_operator(d_out, d_lse, out, lse, wanted, *inputs)
        gradients = [x if want else None for x, want in zip(found, wanted)]
        return (*gradients, *[None] * (len(inputs) - len(_INPUTS)))


eager: Callable[..., Any] = Eager.apply
traced: Any = Traced  # torch gives apply no types

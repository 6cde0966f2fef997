"""The autograd.Functions: one that calls the library at once, one that torch can trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tessera._attention import attention
from tessera._backward import Gradients, attention_backward
from tessera.torch._operators import backward_operator, forward_operator, pack

_INPUTS = ("q", "k", "v", "bias", "sink")  # in the order of Gradients


def lies_heads_first(q: Any) -> bool:
    """Whether the rows of a head of q [B, H, L, D] lie together, rather than the heads of a row."""
    return bool(q.stride(1) >= q.stride(2))


def new_result(q: Any, v: Any) -> Any:
    """Memory for out [B, H, L, Dv] that lies as q [B, H, L, D] does: so torch has it."""
    batch, heads, rows, _ = q.shape
    if lies_heads_first(q):
        return q.new_empty((batch, heads, rows, v.shape[3]))
    return q.new_empty((batch, rows, heads, v.shape[3])).transpose(1, 2)


def needs_gradients(q: Any, k: Any, v: Any, bias: Any, sink: Any) -> bool:
    """Whether a backward pass may follow."""
    return torch.is_grad_enabled() and (
        q.requires_grad
        or k.requires_grad
        or v.requires_grad
        or (bias is not None and bias.requires_grad)
        or (sink is not None and sink.requires_grad)
    )


def turned(turn: bool, *tensors: Any) -> tuple[Any, ...]:
    """The tensors, with [B, H, L, D] and [B, L, H, D] exchanged if asked for."""
    return tuple(x.transpose(1, 2) for x in tensors) if turn else tensors


def compute(
    q: Any, k: Any, v: Any, options: dict[str, Any], return_lse: bool, heads_first: bool
) -> Any:
    """tessera.attention at once, gradients not recorded. heads_first: q, k, v and out are
    [B, H, L, D].
    """
    if not heads_first:
        return attention(q, k, v, return_lse=return_lse, **options)
    result = new_result(q, v)
    q, k, v, out = turned(True, q, k, v, result)
    found = attention(q, k, v, out=out, return_lse=return_lse, **options)
    return (result, found[1]) if return_lse else result


def attention_gradients(tensors: Any, needed: Any, options: dict[str, Any]) -> Any:
    """dq, dk, dv, d_bias, d_sink, None where not needed. tensors: d_out, q, k, v, out, lse, d_lse,
    bias, sink, of [B, L, H, D].
    """
    d_out, q, k, v, out, lse, d_lse, bias, sink = tensors
    options = {"bias": bias, "sink": sink, **options}
    if not torch.is_grad_enabled():
        wanted = [name for name, need in zip(Gradients._fields, needed) if need]
        return attention_backward(d_out, q, k, v, out, lse, d_lse=d_lse, wanted=wanted, **options)
    # create_graph: the gradients get a history, which refuses.
    packed = pack(options)
    found = _traced_backward.apply(d_out, d_lse, out, lse, list(needed), q, k, v, *packed)
    return tuple(x if need else None for x, need in zip(found, needed))


class Eager(torch.autograd.Function):
    """Calls the library without the dispatcher. Tensors among the options are saved as torch saves
    them, so that hooks see them and changes in place are found.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Any, k: Any, v: Any, bias: Any, sink: Any, options: Any, heads_first: bool
    ) -> Any:
        """out and lse of tessera.attention; options: its other keywords. heads_first: q, k, v and
        out are [B, H, L, D].
        """
        extras = {"bias": bias, "sink": sink, **options}
        out, lse = compute(q, k, v, extras, True, heads_first)
        names = [n for n, x in options.items() if isinstance(x, torch.Tensor)]
        ctx.save_for_backward(q, k, v, bias, sink, out, lse, *[options[n] for n in names])
        ctx.names = names
        ctx.options = {n: x for n, x in options.items() if n not in names} if names else options
        ctx.heads_first = heads_first
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx: Any, d_out: Any, d_lse: Any) -> Any:
        """The gradients that are needed."""
        if d_out is None and d_lse is None:
            return (None,) * 7
        needed, turn = ctx.needs_input_grad, ctx.heads_first
        q, k, v, bias, sink, out, lse, *tensors = ctx.saved_tensors
        q, k, v, out = turned(turn, q, k, v, out)
        d_out = turned(turn, d_out)[0] if d_out is not None else out.new_zeros(()).expand(out.shape)
        options = {**ctx.options, **dict(zip(ctx.names, tensors))}
        dq, dk, dv, d_bias, d_sink = attention_gradients(
            (d_out, q, k, v, out, lse, d_lse, bias, sink), needed[:5], options
        )
        if turn:
            dq, dk, dv = (x if x is None else x.transpose(1, 2) for x in (dq, dk, dv))
        return dq, dk, dv, d_bias, d_sink, None, None


class TracedBackward(torch.autograd.Function):
    """The operator of the backward pass. once_differentiable would do in eager autograd, but under
    torch.func a second derivative would then be 0 without a word.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments: Any) -> Any:
        """The gradients; those that are not wanted are empty."""
        return backward_operator(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Saves nothing."""

    @staticmethod
    def backward(ctx: Any, *d_gradients: Any) -> Any:
        """Refuses."""
        raise RuntimeError(
            "a second derivative of tessera's attention was asked for; it has first derivatives "
            "alone: compute this call with torch's scaled_dot_product_attention under "
            "sdpa_kernel(SDPBackend.MATH)"
        )


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
    def backward(ctx: Any, d_out: Any, d_lse: Any) -> Any:
        """The gradients that are needed."""
        out, lse, *tensors = ctx.saved_tensors
        inputs = [o if t is None else t for t, o in zip(tensors, ctx.others)]
        wanted = list(ctx.needs_input_grad[: len(_INPUTS)])
        # torch.compile refuses second derivatives itself.
        compiling = torch.compiler.is_compiling()
        operator = backward_operator if compiling else _traced_backward.apply
        found = operator(d_out, d_lse, out, lse, wanted, *inputs)
        gradients = [x if want else None for x, want in zip(found, wanted)]
        return (*gradients, *[None] * (len(inputs) - len(_INPUTS)))


_traced_backward: Any = TracedBackward


# For graphs that hold the operator itself and are run with gradients, as torch.export gives them.
torch.library.register_autograd(
    "tessera::attention_forward", Traced.backward, setup_context=Traced.setup_context
)


def _distinct(tensors: tuple[Any, ...]) -> list[Any]:
    """The arguments, with a view for a tensor that comes again: torch.compile refuses an
    autograd.Function that gets one tensor twice, as in attention(x, x, x).
    """
    found: list[Any] = []
    for x in tensors:
        again = isinstance(x, torch.Tensor) and any(x is y for y in found)
        found.append(x.view_as(x) if again else x)
    return found


eager: Callable[..., Any] = Eager.apply
_traced: Any = Traced  # torch gives apply no types


def traced(*arguments: Any) -> Any:
    """out and lse through the operators."""
    if torch.compiler.is_compiling():
        if torch._C._are_functorch_transforms_active():
            # Dynamo hides there that a tensor requires gradients; they would be 0 without a word.
            raise RuntimeError(
                "a transform of torch.func meets tessera's attention inside torch.compile; leave "
                "fullgraph off, so that this part runs uncompiled"
            )
        if not needs_gradients(*arguments[: len(_INPUTS)]):
            return forward_operator(*arguments)  # Dynamo traces no Function without gradients
    return _traced.apply(*_distinct(arguments))

"""tessera.torch.attention: the attention of the package, with gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from tessera._backward import DIFFERENTIABLE
from tessera._scalars import Window
from tessera.torch._function import (
    compute,
    eager,
    lies_heads_first,
    needs_gradients,
    traced,
    turned,
)
from tessera.torch._operators import as_word, pack

PLAIN = {torch.Tensor, torch.nn.Parameter}
_LARGEST = torch.finfo(torch.float32).max


def is_eager(q: Any, k: Any, v: Any) -> bool:
    """Whether these tensors hold memory that may be read at once, unseen by torch's dispatcher:
    nothing traces, transforms or intercepts.
    """
    return (
        not torch.compiler.is_compiling()
        and type(q) in PLAIN
        and type(k) in PLAIN
        and type(v) in PLAIN
        and q.is_cpu
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._len_torch_dispatch_stack()
        and not torch._C._get_tracing_state()
        and forward_ad._current_level < 0
    )


def autocast(*tensors: Any) -> tuple[Any, ...]:
    """The tensors in the dtype of autocast on the CPU, where that is on; float64 stays."""
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    dtype = torch.get_autocast_dtype("cpu")
    return tuple(
        x.to(dtype) if x.is_floating_point() and x.dtype != torch.float64 else x for x in tensors
    )


def draw_seed() -> Any:
    """A seed from torch's generator, as a tensor: checkpointing then restores it."""
    return torch.randint(2**63 - 1, (), dtype=torch.int64)


def single(x: Any) -> Any:
    """float64 as float32, which the library adds to scores; what is finite stays finite."""
    if x is None or x.dtype != torch.float64:
        return x
    near = x.clamp(-_LARGEST, _LARGEST)
    return torch.where(x.isinf(), x, near).to(torch.float32)


def _refuse_gradients(options: dict[str, Any]) -> None:
    """Raises ValueError where a tensor wants a gradient that there is none of."""
    tensors = {name: x for name, x in options.items() if name not in DIFFERENTIABLE}
    tensors["state"], tensors["lse of state"] = options.get("state") or (None, None)
    for name, x in tensors.items():
        if isinstance(x, torch.Tensor) and x.requires_grad:
            raise ValueError(
                f"{name} requires gradients; tessera.torch.attention gives those of q, k, v, bias "
                "and sink: detach it"
            )


def call(
    q: Any, k: Any, v: Any, options: dict[str, Any], return_lse: bool, heads_first: bool = False
) -> Any:
    """A call on tensors of their final dtypes. options: keywords of `attention`; those left out
    have its defaults. heads_first: q, k, v and out are [B, H, L, D]; then out alone is returned.
    """
    if options.get("dropout_p") and options.get("seed") is None:
        options["seed"] = draw_seed()
    if torch.is_grad_enabled():
        _refuse_gradients(options)
    if not is_eager(q, k, v):
        options["heads_first"] = heads_first and lies_heads_first(q)
        out, lse = traced(*turned(heads_first, q, k, v), *pack(options))
        (out,) = turned(heads_first, out)
        return (out, lse) if return_lse else out
    seed = options.get("seed")
    if seed is not None:
        options["seed"] = as_word(seed) if isinstance(seed, torch.Tensor) else seed
    bias, sink = options.pop("bias", None), options.pop("sink", None)
    if needs_gradients(q, k, v, bias, sink):
        out, lse = eager(q, k, v, bias, sink, options, heads_first)
        return (out, lse) if return_lse else out
    options.update(bias=bias, sink=sink)
    return compute(q, k, v, options, return_lse, heads_first)


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    window: Window | None = None,
    align: Any = None,
    scale: float | None = None,
    softcap: float = 0.0,
    bias: Any = None,
    mask: Any = None,
    alibi: Any = None,
    sink: Any = None,
    kv_lengths: Any = None,
    kv_starts: Any = None,
    cache_batch_idx: Any = None,
    block_table: Any = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    seqused_q: Any = None,
    seqused_k: Any = None,
    dropout_p: float = 0.0,
    seed: Any = None,
    dropout_offset: int = 0,
    state: tuple[Any, Any] | None = None,
    batch_invariant: bool = False,
    return_lse: bool = False,
    backend: str | None = None,
    threads: int | None = None,
) -> Any:
    """tessera.attention for torch tensors, differentiable in q, k, v, bias and sink.

    Layouts and options are those of tessera.attention: q [B, Lq, H, D], k [B, Lk, Hk, D],
    v [B, Lk, Hk, Dv], or packed with cu_seqlens. What differs:

    * Gradients: of out and of lse, once. A second derivative is a RuntimeError, a tensor of
      another option that requires gradients a ValueError, and pages and a state, which have no
      gradients, are a NotImplementedError in the backward pass.
    * seed: None draws one from torch's generator (torch.manual_seed repeats it, and
      torch.utils.checkpoint recomputes with the same); or 64 bits; or a tensor of one int64.
    * bias may be float64 and sink and alibi of any floating dtype: they are read in float32.
    * Under autocast q, k and v are taken in its dtype, as F.scaled_dot_product_attention does.
    * torch.compile (also with fullgraph and dynamic shapes), torch.export and torch.vmap see one
      operator, tessera::attention_forward; there, refusals come when the graph runs.
    * There is no `out`.

    Returns:
      out [B, Lq, H, Dv] of q's dtype, or (out, lse) with lse [B, H, Lq] in float32 (float64 with
      float64).

    Raises:
      As tessera.attention.

    Source: Dao, "FlashAttention-2", 2023.
    """
    q, k, v = autocast(q, k, v)
    # fmt: off
    options = {
        "causal": causal, "window": window, "align": align, "scale": scale, "softcap": softcap,
        "bias": single(bias), "mask": mask,
        "alibi": alibi if alibi is None else alibi.float(),
        "sink": sink if sink is None else sink.float(),
        "kv_lengths": kv_lengths, "kv_starts": kv_starts, "cache_batch_idx": cache_batch_idx,
        "block_table": block_table, "cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k,
        "seqused_q": seqused_q, "seqused_k": seqused_k, "dropout_p": dropout_p,
        "dropout_offset": dropout_offset, "state": state, "batch_invariant": batch_invariant,
        "backend": backend, "threads": threads,
    }
    # fmt: on
    if seed is not None:
        options["seed"] = seed
    return call(q, k, v, options, return_lse)

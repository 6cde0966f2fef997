"""The functions that take q, k and v, or k and v, in one tensor."""

from __future__ import annotations

from typing import Any

import torch

from tessera.flash_attn._call import check_rank
from tessera.flash_attn._separate import flash_attn_func, flash_attn_varlen_func


def _parts(name: str, x: torch.Tensor, count: int, form: str) -> tuple[torch.Tensor, ...]:
    """The views x[..., n, :, :]; autograd adds up their gradients."""
    check_rank(name, x, form)
    if x.shape[-3] != count:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; it must be {form}")
    return tuple(x.unbind(-3))


def flash_attn_qkvpacked_func(
    qkv: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_func of qkv (B, L, 3, H, D), which is read where it lies.

    Args, returns and errors: those of flash_attn_func.
    """
    q, k, v = _parts("qkv", qkv, 3, "(batch, seqlen, 3, heads, head_dim)")
    # fmt: off
    return flash_attn_func(
        q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
        deterministic, return_attn_probs,
    )
    # fmt: on


def flash_attn_kvpacked_func(
    q: torch.Tensor,
    kv: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_func of q (B, Lq, H, D) and kv (B, Lk, 2, Hk, D).

    Args, returns and errors: those of flash_attn_func.
    """
    k, v = _parts("kv", kv, 2, "(batch, seqlen, 2, heads, head_dim)")
    # fmt: off
    return flash_attn_func(
        q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
        deterministic, return_attn_probs,
    )
    # fmt: on


def flash_attn_varlen_qkvpacked_func(
    qkv: torch.Tensor,
    cu_seqlens: torch.Tensor,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_varlen_func of qkv (total, 3, H, D).

    Args, returns and errors: those of flash_attn_varlen_func.
    """
    q, k, v = _parts("qkv", qkv, 3, "(total, 3, heads, head_dim)")
    # fmt: off
    return flash_attn_varlen_func(
        q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, dropout_p, softmax_scale, causal,
        window_size, softcap, alibi_slopes, deterministic, return_attn_probs,
    )
    # fmt: on


def flash_attn_varlen_kvpacked_func(
    q: torch.Tensor,
    kv: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_varlen_func of q (total_q, H, D) and kv (total_k, 2, Hk, D).

    Args, returns and errors: those of flash_attn_varlen_func.
    """
    k, v = _parts("kv", kv, 2, "(total, 2, heads, head_dim)")
    # fmt: off
    return flash_attn_varlen_func(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale,
        causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs,
    )
    # fmt: on

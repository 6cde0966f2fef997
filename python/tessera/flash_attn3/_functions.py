"""flash-attn 3's functions but the one for caches."""

from __future__ import annotations

from typing import Any

import torch

from tessera._cache import merge
from tessera.flash_attn._call import (
    attend,
    band_options,
    check_rank,
    check_tensors,
    score_options,
)


def refuse_unavailable(attention_chunk: int, **descales: Any) -> None:
    """Raises for the options that the library does not have."""
    for name, x in descales.items():
        if x is not None:
            raise NotImplementedError(
                f"{name} is given; the library has no 8-bit tensors: multiply the tensor by its "
                "scale in float16 or bfloat16, and leave it out"
            )
    if attention_chunk:
        raise NotImplementedError(
            f"attention_chunk is {attention_chunk}; chunks are not available: pass a mask to "
            "tessera.torch.attention that is true within each chunk"
        )


def scale_with(q: Any, qv: Any, scale: Any) -> Any:
    """The scale of scores to which qv adds its dimensions."""
    if qv is None or scale is not None:
        return scale
    return (q.shape[-1] + qv.shape[-1]) ** -0.5


def _attend(
    q: Any, k: Any, v: Any, qv: Any, form: str, options: dict[str, Any], return_attn_probs: bool
) -> Any:
    """out, or (out, lse). Scores scale (<q, k> + <qv, v>) are scale <(q, qv), (k, v)>, which copies
    k and v once.
    """
    check_tensors(q=q, k=k, v=v)
    check_rank("q", q, form)
    if qv is not None:
        options["scale"] = scale_with(q, qv, options["scale"])
        q, k = torch.cat([q, qv], -1), torch.cat([k, v], -1)
    result = attend(q, k, v, options, return_attn_probs)
    return result[:2] if return_attn_probs else result


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
    qv: torch.Tensor | None = None,
    q_descale: torch.Tensor | None = None,
    k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None,
    window_size: Any = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
) -> Any:
    """As tessera.flash_attn.flash_attn_func, in flash-attn 3's form; differentiable.

    Args:
      q, k, v: (B, Lq, H, D), (B, Lk, Hk, D), (B, Lk, Hk, Dv).
      qv: (B, Lq, H, Dv), a second part of the queries: s = scale (<q_i, k_j> + <qv_i, v_j>), with
        scale 1 / sqrt(D + Dv) if softmax_scale is None.
      the others: as there.

    Returns:
      out (B, Lq, H, Dv), or (out, softmax_lse) with softmax_lse (B, H, Lq) float32.

    Raises:
      As there, and NotImplementedError for q_descale, k_descale, v_descale and attention_chunk.

    Source: Shah et al., "FlashAttention-3", 2024.
    """
    refuse_unavailable(
        attention_chunk, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale
    )
    options = {**band_options(causal, window_size), **score_options(softmax_scale, softcap, None)}
    form = "(batch, seqlen, heads, head_dim)"
    return _attend(q, k, v, qv, form, options, return_attn_probs)


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    seqused_q: torch.Tensor | None = None,
    seqused_k: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    qv: torch.Tensor | None = None,
    q_descale: torch.Tensor | None = None,
    k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None,
    window_size: Any = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
) -> Any:
    """As tessera.flash_attn.flash_attn_varlen_func, in flash-attn 3's form; differentiable.

    Args:
      q, k, v: (total_q, H, D), (total_k, Hk, D), (total_k, Hk, Dv).
      seqused_q, seqused_k: (B,) int32, rows of each sequence that are used; the diagonal ends at
        the last ones. Other rows of out are 0.
      qv: (total_q, H, Dv), as in flash_attn_func.
      the others: as there.

    Returns:
      out (total_q, H, Dv), or (out, softmax_lse) with softmax_lse (H, total_q) float32.

    Raises:
      As flash_attn_func.
    """
    refuse_unavailable(
        attention_chunk, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale
    )
    options = {
        **band_options(causal, window_size),
        **score_options(softmax_scale, softcap, None),
        "cu_seqlens_q": cu_seqlens_q,
        "cu_seqlens_k": cu_seqlens_k,
        "seqused_q": seqused_q,
        "seqused_k": seqused_k,
    }
    return _attend(q, k, v, qv, "(total, heads, head_dim)", options, return_attn_probs)


def flash_attn_qkvpacked_func(
    qkv: torch.Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
    q_descale: torch.Tensor | None = None,
    k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None,
    window_size: Any = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    deterministic: bool = False,
    num_heads_q: int | None = None,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_func of qkv (B, L, 3, H, D), or (B, L, H + 2 Hk, D) with H = num_heads_q.

    Args, returns and errors: those of flash_attn_func.
    """
    check_tensors(qkv=qkv)
    if qkv.dim() == 5 and qkv.shape[2] == 3:
        q, k, v = qkv.unbind(2)
    elif qkv.dim() == 4 and num_heads_q is not None and (qkv.shape[2] - num_heads_q) % 2 == 0:
        heads_k = (qkv.shape[2] - num_heads_q) // 2
        q, k, v = torch.split(qkv, [num_heads_q, heads_k, heads_k], 2)
    else:
        raise ValueError(
            f"qkv has shape {tuple(qkv.shape)} and num_heads_q is {num_heads_q}; it must be (batch,"
            " seqlen, 3, heads, head_dim), or (batch, seqlen, num_heads_q + 2 heads_k, head_dim)"
        )
    # fmt: off
    return flash_attn_func(
        q, k, v, softmax_scale, causal, None, q_descale, k_descale, v_descale, window_size,
        attention_chunk, softcap, return_attn_probs=return_attn_probs,
    )
    # fmt: on


def flash_attn_combine(
    out_partial: torch.Tensor,
    lse_partial: torch.Tensor,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What attention to all keys gives, from attention to parts of them.

    Args:
      out_partial: (parts, B, L, H, Dv) float32.
      lse_partial: (parts, B, L, H) float32; either infinity: the part saw no key.
      out: memory for the result, or None.
      out_dtype: of the result; None: float32.

    Returns:
      out (B, L, H, Dv) and softmax_lse (B, L, H) float32.

    Raises:
      As tessera.merge.
    """
    check_rank("out_partial", out_partial, "(parts, batch, seqlen, heads, head_dim)")
    check_rank("lse_partial", lse_partial, "(parts, batch, seqlen, heads)")
    states = list(zip(out_partial, lse_partial.transpose(-1, -2)))
    if out is None:
        out = out_partial.new_empty(out_partial.shape[1:], dtype=out_dtype)
    merged, lse = merge(states, out=out)
    return merged, lse.transpose(-1, -2)

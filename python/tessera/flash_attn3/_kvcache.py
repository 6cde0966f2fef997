"""flash-attn 3's flash_attn_with_kvcache."""

from __future__ import annotations

from typing import Any

import torch

from tessera.flash_attn._cache_call import CacheCall
from tessera.flash_attn._call import band_options, score_options
from tessera.flash_attn3._functions import refuse_unavailable, scale_with


def flash_attn_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor | None = None,
    v: torch.Tensor | None = None,
    qv: torch.Tensor | None = None,
    rotary_cos: torch.Tensor | None = None,
    rotary_sin: torch.Tensor | None = None,
    cache_seqlens: Any = None,
    cache_batch_idx: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None,
    page_table: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k_new: torch.Tensor | None = None,
    max_seqlen_q: int | None = None,
    rotary_seqlens: torch.Tensor | None = None,
    q_descale: torch.Tensor | None = None,
    k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    scheduler_metadata: Any = None,
    num_splits: int = 0,
    pack_gqa: bool | None = None,
    sm_margin: int = 0,
    return_softmax_lse: bool = False,
) -> Any:
    """As tessera.flash_attn.flash_attn_with_kvcache, in flash-attn 3's form.

    Args:
      q: (B, Lq, H, D), or with cu_seqlens_q (B + 1,): (total_q, H, D).
      k, v: (B, Lnew, Hk, D or Dv), or with cu_seqlens_k_new (B + 1,): (total_new, Hk, D or Dv).
      qv: of q's shape but Dv, as in flash_attn_func; k and v of the cache are copied then.
      page_table: (B, max_pages) int32.
      rotary_seqlens: (B,) int32, first positions of rotary embedding; None: cache_seqlens.
      the others: as there.

    Returns:
      out of q's shape but Dv, or (out, softmax_lse) with softmax_lse (B, H, Lq), or (H, total_q).

    Raises:
      As there, and NotImplementedError for q_descale, k_descale, v_descale and attention_chunk.
    """
    refuse_unavailable(
        attention_chunk, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale
    )
    call = CacheCall(
        q=q,
        k_cache=k_cache,
        v_cache=v_cache,
        k=k,
        v=v,
        qv=qv,
        cos=rotary_cos,
        sin=rotary_sin,
        interleaved=rotary_interleaved,
        rotary_first=rotary_seqlens,
        cache_seqlens=cache_seqlens,
        cache_batch_idx=cache_batch_idx,
        block_table=page_table,
        kv_starts=cache_leftpad,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_new=cu_seqlens_k_new,
        options={
            **band_options(causal, window_size),
            **score_options(scale_with(q, qv, softmax_scale), softcap, None),
        },
    )
    return call.run(return_softmax_lse)

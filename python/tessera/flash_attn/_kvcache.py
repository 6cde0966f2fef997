"""flash_attn_with_kvcache: append, rotate and attend in one call."""

from __future__ import annotations

from typing import Any

import torch

from tessera.flash_attn._cache_call import CacheCall
from tessera.flash_attn._call import band_options, score_options


def flash_attn_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor | None = None,
    v: torch.Tensor | None = None,
    rotary_cos: torch.Tensor | None = None,
    rotary_sin: torch.Tensor | None = None,
    cache_seqlens: Any = None,
    cache_batch_idx: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: torch.Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Any:
    """Attention of new queries to a cache, which k and v are first appended to, in place.

    Row i of k becomes key cache_seqlens[b] + i of sequence b, turned to that position where
    rotary_cos is given. Query i is then turned to cache_seqlens[b] + i where the call is causal or
    has a window, else all queries to cache_seqlens[b]. No gradients are recorded.

    Args:
      q: (B, Lq, H, D).
      k_cache, v_cache: (B or rows, capacity, Hk, D or Dv); with block_table: pages
        (num_blocks, page_block_size, Hk, D or Dv) of any size.
      k, v: (B, Lnew, Hk, D) and (B, Lnew, Hk, Dv), or None.
      rotary_cos, rotary_sin: (positions, R / 2), R even and at most D; float32 or of q's dtype.
      cache_seqlens: keys in the cache before the call: one number, or (B,) int32 or int64; None:
        all of the cache (without k).
      cache_batch_idx: (B,) int32, the row of the cache of each sequence.
      cache_leftpad: (B,) int32, the first key of each sequence.
      block_table: (B, max_blocks) int32, the pages of each sequence.
      rotary_interleaved: elements 2c and 2c + 1 turn together, else c and c + R / 2.
      num_splits: accepted; the library splits as it sees fit.
      return_softmax_lse: return (out, softmax_lse).
      the others: as for flash_attn_func. The keys of a sequence are those up to
        cache_seqlens + Lnew, so its last query is at the last of them.

    Returns:
      out (B, Lq, H, Dv), or (out, softmax_lse) with softmax_lse (B, H, Lq) float32.

    Raises:
      As flash_attn_func, and ValueError where a cache is full; the cache was not written then.
    """
    call = CacheCall(
        q=q,
        k_cache=k_cache,
        v_cache=v_cache,
        k=k,
        v=v,
        cos=rotary_cos,
        sin=rotary_sin,
        interleaved=rotary_interleaved,
        cache_seqlens=cache_seqlens,
        cache_batch_idx=cache_batch_idx,
        block_table=block_table,
        kv_starts=cache_leftpad,
        options={
            **band_options(causal, window_size),
            **score_options(softmax_scale, softcap, alibi_slopes),
        },
    )
    return call.run(return_softmax_lse)

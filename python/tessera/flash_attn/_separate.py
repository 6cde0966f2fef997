"""flash_attn_func and flash_attn_varlen_func: q, k and v in tensors of their own."""

from __future__ import annotations

from typing import Any

import torch

from tessera.flash_attn._call import (
    attend,
    band_options,
    check_rank,
    check_tensors,
    dropout_options,
    score_options,
)


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """Exact attention with flash-attn 2's conventions; differentiable in q, k and v.

    For query i and key j of one (batch, head), with offset = Lk - Lq (bottom-right):
      s = scale <q_i, k_j>;  s = softcap tanh(s / softcap);  s -= alibi_slope |i + offset - j|
      key j is visible iff  i + offset - left <= j <= i + offset + right  (causal: right = 0)
      out_i = sum_j dropout(softmax(s)_ij) v_j
    A row that sees no key gives 0, and -inf as its logarithm.

    Args:
      q: (B, Lq, H, D), float16, bfloat16 or float32.
      k: (B, Lk, Hk, D), H % Hk == 0; query head h reads key head h // (H / Hk).
      v: (B, Lk, Hk, Dv).
      dropout_p: in [0, 1); the pattern follows torch.manual_seed.
      softmax_scale: None: 1 / sqrt(D).
      causal: hide keys after the diagonal that ends at the last query and the last key.
      window_size: (left, right), keys before and after the diagonal, inclusive; -1 or None: all.
      softcap: 0: none.
      alibi_slopes: (H,) or (B, H) float32.
      deterministic: accepted; gradients are the same bits each time in any case.
      return_attn_probs: return three values.

    Returns:
      out (B, Lq, H, Dv), or (out, softmax_lse, S_dmask): softmax_lse (B, H, Lq) float32, natural
      logarithms; S_dmask (B, H, Lq, Lk), the probabilities before dropout with a minus sign where
      it dropped them, or an empty tensor without dropout.

    Raises:
      ValueError, NotImplementedError: as tessera.attention; the sentence says what to do.

    Source: Dao, "FlashAttention-2", 2023.
    """
    check_tensors(q=q, k=k, v=v)
    check_rank("q", q, "(batch, seqlen, heads, head_dim)")
    options = {
        **band_options(causal, window_size),
        **score_options(softmax_scale, softcap, alibi_slopes),
        **dropout_options(dropout_p, return_attn_probs),
    }
    return attend(q, k, v, options, return_attn_probs)


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
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
    block_table: torch.Tensor | None = None,
) -> Any:
    """flash_attn_func of sequences that lie one after the other.

    Args:
      q: (total_q, H, D); sequence b has rows cu_seqlens_q[b] up to cu_seqlens_q[b + 1].
      k, v: (total_k, Hk, D) and (total_k, Hk, Dv); with block_table: pages
        (num_blocks, page_block_size, Hk, D or Dv).
      cu_seqlens_q, cu_seqlens_k: (B + 1,) int32 or int64.
      max_seqlen_q, max_seqlen_k: at least the longest of each; they size S_dmask, nothing else.
      block_table: (B, max_blocks) int32, the pages of each sequence; no gradients then.
      the others: as for flash_attn_func.

    Returns:
      out (total_q, H, Dv), or (out, softmax_lse, S_dmask) with softmax_lse (H, total_q) and S_dmask
      (B, H, max_seqlen_q, max_seqlen_k), 0 where there is no pair.

    Raises:
      As flash_attn_func.
    """
    check_tensors(q=q, k=k, v=v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    check_rank("q", q, "(total, heads, head_dim)")
    if block_table is None:
        lengths = {"cu_seqlens_k": cu_seqlens_k}
    else:
        lengths = {"block_table": block_table, "kv_lengths": cu_seqlens_k.diff()}
        if return_attn_probs and dropout_p:
            raise NotImplementedError(
                "return_attn_probs with dropout is not available for pages; leave out one of "
                "return_attn_probs, dropout_p and block_table"
            )
    options = {
        **band_options(causal, window_size),
        **score_options(softmax_scale, softcap, alibi_slopes),
        **dropout_options(dropout_p, return_attn_probs),
        **lengths,
        "cu_seqlens_q": cu_seqlens_q,
    }
    longest = (int(max_seqlen_q), int(max_seqlen_k))
    return attend(q, k, v, options, return_attn_probs, longest)

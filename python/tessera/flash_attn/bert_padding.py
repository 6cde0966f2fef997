"""Between padded batches and packed sequences: flash-attn's bert_padding."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

__all__ = ["index_first_axis", "index_put_first_axis", "pad_input", "unpad_input"]


def index_first_axis(input: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """input[indices] of (rows, ...) and (n,): (n, ...); differentiable."""
    return input.index_select(0, indices)


def index_put_first_axis(
    values: torch.Tensor, indices: torch.Tensor, first_axis_dim: int
) -> torch.Tensor:
    """(first_axis_dim, ...) with row indices[n] = values[n], the others 0; differentiable."""
    rows = values.new_zeros((first_axis_dim, *values.shape[1:]))
    return rows.index_copy(0, indices, values)


def unpad_input(
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor,
    unused_mask: torch.Tensor | None = None,
) -> tuple[Any, ...]:
    """The rows of hidden_states that the masks name, one after the other.

    Args:
      hidden_states: (B, L, ...).
      attention_mask: (B, L) bool or integers, 1: a token.
      unused_mask: (B, L), 1: a row that is kept, though not used as a token; or None.

    Returns:
      rows (total, ...), indices (total,) int64 into (B * L), cu_seqlens (B + 1,) int32,
      max_seqlen (a number), and used (B,) int32, tokens of each sequence.
    """
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = kept.sum(dim=-1, dtype=torch.int32)
    used = attention_mask.sum(dim=-1, dtype=torch.int32)
    indices = kept.flatten().nonzero().flatten()
    cu_seqlens = functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    longest = int(lengths.max()) if lengths.numel() else 0
    rows = index_first_axis(hidden_states.flatten(0, 1), indices)
    return rows, indices, cu_seqlens, longest, used


def pad_input(
    hidden_states: torch.Tensor, indices: torch.Tensor, batch: int, seqlen: int
) -> torch.Tensor:
    """(batch, seqlen, ...) with the rows of hidden_states (total, ...) where indices says, the
    others 0: undoes unpad_input."""
    rows = index_put_first_axis(hidden_states, indices, batch * seqlen)
    return rows.view(batch, seqlen, *rows.shape[1:])

"""The options of a call, for type checkers; their meaning stands at tessera.attention."""

from __future__ import annotations

from typing import Any, TypedDict


class CacheOptions(TypedDict, total=False):
    """Keywords of tessera.attention that say what is computed, but for kv_lengths."""

    causal: bool
    window: tuple[int | None, int | None] | None
    align: Any
    scale: float | None
    softcap: float
    bias: Any
    mask: Any
    alibi: Any
    sink: Any
    kv_starts: Any
    cache_batch_idx: Any
    block_table: Any
    cu_seqlens_q: Any
    cu_seqlens_k: Any
    seqused_q: Any
    seqused_k: Any
    dropout_p: float
    seed: int
    dropout_offset: int
    state: tuple[Any, Any] | None
    batch_invariant: bool
    backend: str | None


class Options(CacheOptions, total=False):
    """Keywords of tessera.attention that say what is computed."""

    kv_lengths: Any

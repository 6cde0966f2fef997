"""One call of flash_attn_with_kvcache, of either generation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tessera._attention import attention, plan
from tessera._cache import append, rotate
from tessera._tensors import Seen
from tessera.flash_attn._call import check_rank, check_tensors

_accepted: Seen[bool] = Seen()  # calls like which the library has accepted


def _form(cu_seqlens: Any) -> str:
    """The dimensions of q, k or v that are packed, or not."""
    return "(batch, seqlen, heads, head_dim)" if cu_seqlens is None else "(total, heads, head_dim)"


@dataclass
class CacheCall:
    """The arguments; sequences are rows of q and k, or packed by cu_seqlens_q, cu_seqlens_new."""

    q: Any
    k_cache: Any
    v_cache: Any
    k: Any
    v: Any
    options: dict[str, Any]  # of tessera.attention: band and scores
    cos: Any
    sin: Any
    interleaved: bool
    cache_seqlens: Any
    cache_batch_idx: Any
    block_table: Any
    kv_starts: Any
    qv: Any = None
    rotary_first: Any = None  # [B] position of the first new token; None: cache_seqlens
    cu_seqlens_q: Any = None
    cu_seqlens_new: Any = None

    @torch.no_grad()
    def run(self, return_lse: bool) -> Any:
        """Rotates, appends and attends; all is checked before the cache is written."""
        self._check()
        before = self._lengths()
        first = before if self.rotary_first is None else self.rotary_first
        q, k = self.q, self.k
        if self.cos is not None:
            q = self._rotated(q, self.cu_seqlens_q, first, self._is_unordered())
            k = self._rotated(k, self.cu_seqlens_new, first, together=False)
        after = before if k is None else before + self._new_lengths()
        options = {
            **self.options,
            "cache_batch_idx": self.cache_batch_idx,
            "block_table": self.block_table,
            "kv_starts": self.kv_starts,
            "kv_lengths": after,
            "cu_seqlens_q": self.cu_seqlens_q,
        }
        if self.qv is not None:
            q = torch.cat([q, self.qv], -1)
        if k is not None:
            self._check_room(before, after)
            _check_accepted(q, self._keys(), self.v_cache, options)
            self._append(k, before)
        return attention(q, self._keys(), self.v_cache, return_lse=return_lse, **options)

    def _check(self) -> None:
        check_tensors(q=self.q, k_cache=self.k_cache, v_cache=self.v_cache)
        check_rank("q", self.q, _form(self.cu_seqlens_q))
        check_rank("k_cache", self.k_cache, "(batch or pages, seqlen, heads, head_dim)")
        if (self.k is None) != (self.v is None):
            given, missing = ("k", "v") if self.v is None else ("v", "k")
            raise ValueError(f"{given} is given without {missing}; new keys need their values")
        if (self.cos is None) != (self.sin is None):
            raise ValueError("one of rotary_cos and rotary_sin is missing; give both, or neither")
        if self.k is None and self.cos is not None:
            raise ValueError(
                "rotary_cos is given without k and v; rotary embedding is for new keys and "
                "queries: turn q with tessera.rotate if the cache is not to grow"
            )
        if self.k is not None and self.cache_seqlens is None:
            raise ValueError(
                "k is given without cache_seqlens; say how many keys the cache holds before them"
            )
        if self.k is not None:
            check_rank("k", self.k, _form(self.cu_seqlens_new))
            check_rank("v", self.v, _form(self.cu_seqlens_new))

    def _is_unordered(self) -> bool:
        """Without a band all queries are taken for tokens that follow the cache side by side."""
        return not self.options["causal"] and self.options["window"] is None

    def _keys(self) -> Any:
        """What q meets: the keys, beside the values where q has a part for them."""
        return self.k_cache if self.qv is None else torch.cat([self.k_cache, self.v_cache], -1)

    def _capacity(self) -> int:
        pages = 1 if self.block_table is None else self.block_table.shape[1]
        return int(self.k_cache.shape[1] * pages)

    def _lengths(self) -> Any:
        """[B] keys of each sequence: one number for all, a vector, or None for full rows."""
        given = self._capacity() if self.cache_seqlens is None else self.cache_seqlens
        if isinstance(given, torch.Tensor) and given.dim() == 1:
            return given
        if not hasattr(given, "__index__"):
            raise TypeError(
                f"cache_seqlens is of type {type(given).__name__}; it must be a number of keys, or "
                "a vector of them, one for each sequence, int32 or int64"
            )
        batch = self.q.shape[0] if self.cu_seqlens_q is None else len(self.cu_seqlens_q) - 1
        return torch.full((batch,), int(given), dtype=torch.int32, device=self.q.device)

    def _new_lengths(self) -> Any:
        return self.k.shape[1] if self.cu_seqlens_new is None else self.cu_seqlens_new.diff()

    def _rotated(self, x: Any, cu: Any, first: Any, together: bool) -> Any:
        """Row i of sequence b turned to position first[b] + i, or to first[b] if `together`."""
        if cu is None:
            i = torch.zeros(x.shape[1]) if together else torch.arange(x.shape[1])
            places = first[:, None] + i.to(first)
            return rotate(x, self.cos, self.sin, positions=places, interleaved=self.interleaved)
        lengths = cu.diff()
        places = first.repeat_interleave(lengths)
        if not together:
            places = places + torch.arange(len(places)) - cu[:-1].repeat_interleave(lengths)
        turned = rotate(
            x[None, : len(places)],
            self.cos,
            self.sin,
            positions=places[None],
            interleaved=self.interleaved,
        )
        return torch.cat([turned[0], x[len(places) :]])

    def _append(self, k: Any, before: Any) -> None:
        rows, table = self.cache_batch_idx, self.block_table
        caches = (self.k_cache, self.v_cache)
        if self.cu_seqlens_new is None:
            append(k, self.v, *caches, before, cache_batch_idx=rows, block_table=table)
            return
        if table is None and rows is None:
            rows = torch.arange(len(before), dtype=torch.int32)
        bounds = self.cu_seqlens_new.tolist()
        for b, (begin, end) in enumerate(zip(bounds, bounds[1:])):
            append(
                k[None, begin:end],
                self.v[None, begin:end],
                *caches,
                before[b : b + 1],
                cache_batch_idx=None if rows is None else rows[b : b + 1],
                block_table=None if table is None else table[b : b + 1],
            )

    def _check_room(self, before: Any, after: Any) -> None:
        full = after > self._capacity()
        if full.any():
            b = int(full.nonzero()[0])
            raise ValueError(
                f"sequence {b} has {int(before[b])} keys and {int(after[b] - before[b])} new ones, "
                f"but its cache has room for {self._capacity()}; make the cache larger"
            )


def _check_accepted(q: Any, k: Any, v: Any, options: dict[str, Any]) -> None:
    """Raises what the attention call would, before the cache is written.

    A call is not asked for again if only the data of tensors differ from one that the library
    accepted, unless it has vectors whose values append does not check.
    """
    unchecked = ("kv_starts", "block_table", "cu_seqlens_q")
    key = None
    if all(options[name] is None for name in unchecked):
        tensors = [*(("", x) for x in (q, k, v)), *sorted(options.items())]
        key = tuple(
            (name, x.shape, x.stride(), x.dtype, x.device)
            if isinstance(x, torch.Tensor)
            else (name, x)
            for name, x in tensors
        )
    if key is not None and key in _accepted:
        return
    plan(q, k, v, **options)
    if key is not None:
        _accepted.put(key, True)

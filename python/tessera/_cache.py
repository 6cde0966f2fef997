"""States, rotary positions and caches: tessera.merge, rotate, append, decode."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tessera import _descriptors as d
from tessera import _native
from tessera._attention import attention
from tessera._call import given_output, lse_shape, made, optional
from tessera._run import run
from tessera._tensors import Kind, Shape, adopt, kinds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tessera._options import CacheOptions

_HALVES, _INTERLEAVED = 0, 1


def _require_rank(name: str, x: Any, rank: int, form: str) -> None:
    if len(x.shape) != rank:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; it must be {form}")


def _output(
    kind: Kind, name: str, given: Any, like: Any, shape: Shape, dtype: int, lead: int = 0
) -> tuple[Any, bytes]:
    """The output that the caller gave, or a new one, and its packed tensor."""
    if given is not None:
        return given, d.TENSOR.pack(*given_output(kind, name, given, lead))
    new = kind.empty(like, shape, dtype)
    return new, d.TENSOR.pack(*made(new, name, lead))


# ---- States --------------------------------------------------------------------------------------


def merge(
    states: Sequence[tuple[Any, Any]],
    *,
    out: Any = None,
    lse: Any = None,
    threads: int | None = None,
) -> tuple[Any, Any]:
    """The state of all keys from states of some of them, which share no key.

      lse = log sum_n exp(lse_n);   out = sum_n exp(lse_n - lse) out_n
    Empty states merge to an empty one: out 0, lse -inf. Computed in double precision, in the order
    given.

    Args:
      states: one or more (out, lse) in float32, [B, Lq, H, Dv] and [B, H, Lq] (packed:
        [total, H, Dv] and [H, total]), as tessera.attention returned them.
      out: memory for the result, float32, float16 or bfloat16; a state's own out, or apart.
      lse: memory for its lse, float32; a state's own lse, or apart.
      threads: as for tessera.attention.

    Returns:
      (out, lse), new and float32 where not given.

    Raises:
      ValueError: there are no states, or sizes or dtypes do not fit.

    Source: Dao, "FlashAttention-2", 2023, section 3.1.
    """
    if not states:
        raise ValueError("states is empty; pass one or more (out, lse)")
    adopted = [(adopt(o, "states.out"), adopt(s, "states.lse")) for o, s in states]
    first = adopted[0][0]
    kind, lead = kinds[type(first)], 4 - len(first.shape)
    if lead not in (0, 1):
        _require_rank("states.out", first, 4, "[B, Lq, H, Dv], or [total, H, Dv] of packed queries")
    memory: list[Any] = []
    parts = [
        optional(kind, "states.out", o, memory, lead)
        + optional(kind, "states.lse", s, memory, lead)
        for o, s in adopted
    ]
    table = ctypes.create_string_buffer(b"".join(parts))
    shape = tuple(first.shape)
    out, at_out = _output(kind, "out", out, first, shape, d.FLOAT32, lead)
    lse, at_lse = _output(kind, "lse", lse, first, lse_shape(shape), d.FLOAT32, lead)
    at_table = ctypes.addressof(table)
    packed = d.MERGE.pack(d.MERGE.size, 0, at_table, len(parts), at_out + at_lse)
    run(_native.merge, packed, kind, threads)
    return out, lse


# ---- Rotary positions ----------------------------------------------------------------------------


def rotate(
    x: Any,
    cos: Any,
    sin: Any,
    *,
    offsets: Any = None,
    positions: Any = None,
    interleaved: bool = False,
    out: Any = None,
    threads: int | None = None,
) -> Any:
    """Rotary position embedding of the first R elements of each head; the others are copied.

    With (a, b) the pair c of a row at position p, in float32:
      a' = a cos[p, c] - b sin[p, c];   b' = a sin[p, c] + b cos[p, c]

    Args:
      x: [B, L, H, D] float32, float16 or bfloat16.
      cos, sin: [positions, R / 2] with 2 <= R <= D, float32 or of x's dtype.
      offsets: [B] int32 or int64: row i of sequence b is at position offsets[b] + i.
      positions: [B, L] int32 or int64: the position of each row. Without either, row i is at i.
      interleaved: elements 2c and 2c + 1 turn together; otherwise c and c + R / 2 do.
      out: memory for the result, of x's shape and dtype; x itself turns in place; None: new.
      threads: as for tessera.attention.

    Returns:
      out.

    Raises:
      ValueError: sizes or dtypes do not fit, or a position lies outside cos and sin.

    Source: Su et al., "RoFormer", 2021, section 3.2.
    """
    x_read = adopt(x, "x")
    kind = kinds[type(x_read)]
    _require_rank("x", x_read, 4, "[batch, sequence, heads, dim]")
    memory: list[Any] = []
    packed_x = optional(kind, "x", x_read, memory)
    tables = [("cos", cos), ("sin", sin), ("offsets", offsets), ("positions", positions)]
    packed_tables = b"".join(optional(kind, name, t, memory) for name, t in tables)
    out, at_out = _output(kind, "out", out, x_read, tuple(x_read.shape), kind.dtype(x_read, "x"))
    layout = _INTERLEAVED if interleaved else _HALVES
    tensors = packed_x + at_out + packed_tables
    run(_native.rotate, d.ROTATE.pack(d.ROTATE.size, 0, layout, 0, tensors), kind, threads)
    return out


# ---- Caches --------------------------------------------------------------------------------------


def append(
    k: Any,
    v: Any,
    k_cache: Any,
    v_cache: Any,
    kv_lengths: Any,
    *,
    cache_batch_idx: Any = None,
    block_table: Any = None,
    cos: Any = None,
    sin: Any = None,
    interleaved: bool = False,
    threads: int | None = None,
) -> None:
    """Puts new keys and values behind those of a cache.

    Row i of sequence b becomes its key kv_lengths[b] + i, k rotated to that position where cos and
    sin are given. kv_lengths is read, not changed: add Lnew before attending. Every sequence must
    have room before anything is written.

    Args:
      k, v: [B, Lnew, Hk, D] and [B, Lnew, Hk, Dv].
      k_cache, v_cache: of k's dtype, [B or rows, capacity, Hk, D or Dv], or with block_table
        [pages, page_size, Hk, D or Dv]; written.
      kv_lengths: [B] int32 or int64, or a list: keys before the call.
      cache_batch_idx: [B] int32: the row of the cache of each sequence.
      block_table: [B, max_pages] int32: the pages of each sequence.
      cos, sin: [positions, R / 2], as for tessera.rotate.
      interleaved: as for tessera.rotate.
      threads: as for tessera.attention.

    Raises:
      ValueError: a cache is full, or sizes or dtypes do not fit; nothing was written.
    """
    kind = kinds[type(adopt(k, "k"))]
    memory: list[Any] = []
    for name, x in (("k", k), ("v", v), ("k_cache", k_cache), ("v_cache", v_cache)):
        _require_rank(name, adopt(x, name), 4, "[batch, sequence, heads, dim], or pages like that")
    inputs = [optional(kind, name, x, memory) for name, x in (("k", k), ("v", v))]
    caches = [
        d.TENSOR.pack(*given_output(kind, name, x, 0))
        for name, x in (("k_cache", k_cache), ("v_cache", v_cache))
    ]
    rest = {
        "kv_lengths": kv_lengths,
        "cache_batch_idx": cache_batch_idx,
        "block_table": block_table,
        "cos": cos,
        "sin": sin,
    }
    options = [optional(kind, name, x, memory) for name, x in rest.items()]
    layout = _INTERLEAVED if interleaved else _HALVES
    tensors = b"".join([*inputs, *caches, *options])
    run(_native.append, d.APPEND.pack(d.APPEND.size, 0, layout, 0, tensors), kind, threads)


def decode(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    kv_lengths: Any,
    *,
    out: Any = None,
    return_lse: bool = False,
    threads: int | None = None,
    **options: Unpack[CacheOptions],
) -> Any:
    """Attention of the newest tokens of sequences to a cache that holds them already.

    The same as tessera.attention(q, k_cache, v_cache, kv_lengths=kv_lengths, causal=True,
    align="bottom_right"): the last query of a sequence lies at its last key.

    Args:
      q: [B, Lq, H, D]: the last Lq tokens of each sequence.
      k_cache, v_cache: [B or rows, capacity, Hk, D or Dv], or with block_table
        [pages, page_size, Hk, D or Dv].
      kv_lengths: [B] int32 or int64, or a list: the keys of each sequence, the new ones included.
      out, return_lse, threads: as for tessera.attention.
      options: those of tessera.attention, such as block_table, cache_batch_idx, window, softcap,
        sink; causal and align may be given otherwise.

    Returns:
      out [B, Lq, H, Dv], or (out, lse).

    Raises:
      As tessera.attention.
    """
    options.setdefault("causal", True)
    options.setdefault("align", "bottom_right")
    return attention(
        q,
        k_cache,
        v_cache,
        kv_lengths=kv_lengths,
        out=out,
        return_lse=return_lse,
        threads=threads,
        **options,
    )

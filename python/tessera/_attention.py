"""tessera.attention, and tessera.plan, which tells what it would run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tessera import _call, _native, _repeat
from tessera import _descriptors as d
from tessera._call import Extras, Scalars
from tessera._run import context_of, run
from tessera._scalars import Window, band, is_offsets

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tessera._options import Options

_ABSENT = type(None)
_WORDS = {_ABSENT, str}
_calls = _repeat.Kept(d.CALL_PLACES, ["out"])


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
    seed: int = 0,
    dropout_offset: int = 0,
    state: tuple[Any, Any] | None = None,
    batch_invariant: bool = False,
    out: Any = None,
    return_lse: bool = False,
    backend: str | None = None,
    threads: int | None = None,
) -> Any:
    """Exact attention: out_i = sum_j P_ij v_j, P = softmax over visible j of scale <q_i, k_j> + ...

    For query i and key j of one (batch, head), in this order:
      s = scale <q_i, k_j>;  s = softcap tanh(s / softcap);  s -= alibi |i + offset - j|;  s += bias
      key j is visible iff i + offset - left <= j <= i + offset + right, mask, start <= j < length
      P = softmax of s over visible j, with exp(sink) added to the denominator once
      out_i = sum_j dropout(P_ij) v_j;   lse_i = log(sum_j exp(s_ij) + exp(sink))
    A row that sees no key gives 0 and lse = -inf (the sink, if there is one).

    Tensors are NumPy arrays (with ml_dtypes.bfloat16), torch tensors, or objects with __dlpack__,
    on the CPU or on one NVIDIA GPU. They are read where they lie, with any strides; nothing is
    copied, so that tensors [B, H, L, D] are passed as their views x.swapaxes(1, 2), `out` too. Of
    the vectors of integers, those that count rows may also be lists. On a GPU the call returns
    before it is done, and what vectors of integers hold is not looked at; it goes into torch's
    current stream, and for others' tensors, which need `out`, into CUDA's legacy default stream.

    Args:
      q: [B, Lq, H, D] float32, float16, bfloat16 or (slow) float64; packed: [total, H, D].
      k: [B, Lk, Hk, D] of q's dtype, H % Hk == 0; packed: [total, Hk, D]; pages: [pages,
        page_size, Hk, D].
      v: [B, Lk, Hk, Dv], lying as k does.
      causal: the same as a window whose right side is 0.
      window: (left, right): keys visible before and after the diagonal, inclusive; None or -1: all.
        With causal the right side is 0, whatever is given.
      align: the key on the diagonal of query 0, for a band or alibi: "top_left" (key 0),
        "bottom_right" (keys of the sequence - its queries), an integer, or [B] integers. Required
        where a sequence has not as many keys as queries.
      scale: finite and >= 0; None: 1 / sqrt(D).
      softcap: finite and > 0; 0: none.
      bias: added to scores, float32, float16 or bfloat16, of a shape that broadcasts to
        [B, H, Lq, Lk]; -inf hides a key.
      mask: bool or uint8, of a shape that broadcasts to [B, H, Lq, Lk]; true means "attend".
      alibi: [H] or [B, H] float32 slopes.
      sink: [H] float32 logits.
      kv_lengths: [B] int32 or int64: keys j < length exist.
      kv_starts: [B] int32 or int64: keys j >= start exist (left padding).
      cache_batch_idx: [B] int32: the batch row of k and v that sequence b reads.
      block_table: [B, max_pages] int32: pages of each sequence; needs kv_lengths.
      cu_seqlens_q: [B + 1] int32 or int64: sequence b has rows cu_seqlens_q[b] up to [b + 1] of q.
      cu_seqlens_k: the same of k and v.
      seqused_q: [B]: rows of each packed sequence that are used; the others of out are 0.
      seqused_k: [B]: keys of each packed sequence that are used.
      dropout_p: in [0, 1); pairs dropped after the softmax, the others scaled by 1 / (1 - p).
      seed: 64 bits, the key of Philox4x32-10.
      dropout_offset: 32 bits, the last word of its counter.
      state: (out, lse) in float32 of other keys, to go on from.
      batch_invariant: the bits of a row depend on its own inputs alone.
      out: memory for the result, of q's dtype or float32; None: new memory of q's dtype.
      return_lse: return (out, lse).
      backend: "auto", "cpu", "reference" (double precision), "standard" (for comparison), "cuda"
        (what "auto" takes on a GPU) or "emulator" (the kernels of GPUs in software, for tests).
      threads: threads of the call; None: torch.get_num_threads() for torch tensors, else
        TESSERA_THREADS, else the processors there are. Results do not depend on it.

    Returns:
      out [B, Lq, H, Dv] (packed: [total, H, Dv]), or (out, lse) with lse [B, H, Lq] (packed:
      [H, total]) in float32 (float64 with float64), natural logarithms. torch tensors where q is
      one, else NumPy arrays.

    Raises:
      ValueError: the call makes no sense; the sentence says what does.
      NotImplementedError: it makes sense, but this version does not do it.
      TypeError: something is no tensor or no number.
      MemoryError: memory ran out.

    Source: Dao, "FlashAttention-2", 2023, for the forward pass without the matrix.
    """
    tensors: tuple[Any, ...] = (q, k, v, out, None)
    types: tuple[type, ...] = (type(q), type(k), type(v), type(out), _ABSENT)
    options: tuple[Any, ...] = ()  # in the order of d.OPTIONAL, without the rare ones if it can
    # fmt: off
    if not (
        mask is bias is alibi is sink is kv_lengths is kv_starts is cache_batch_idx is cu_seqlens_q
        is cu_seqlens_k is seqused_q is seqused_k is block_table is None
        and type(align) in _WORDS
    ):
        options = (align if is_offsets(align) else None, mask, bias, alibi, sink, kv_lengths)
        if not (
            kv_starts is cache_batch_idx is cu_seqlens_q is cu_seqlens_k is seqused_q is seqused_k
            is block_table is None
        ):
            options += (
                kv_starts, cache_batch_idx, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k,
                block_table,
            )
        tensors, types = tensors + options, (*types, *map(type, options))
    # fmt: on
    diagonal = None if options and options[0] is not None else align
    # 1, 1.0 and True are equal, but not equally welcome as align or as a side of a window.
    scalars: tuple[Any, ...] = (diagonal, type(diagonal), scale, softcap, causal, return_lse)
    if backend is not None or batch_invariant:
        scalars += ("backend", backend, batch_invariant)
    if window is not None:
        sides = window if type(window) is tuple else (window,)
        scalars += ("window", *sides, *map(type, sides))
    if state is not None or dropout_p or seed or dropout_offset:
        scalars += (_repeat.NEVER,)
    repeat = _calls.find(types, tensors, scalars)
    if repeat is None:
        flags = d.BATCH_INVARIANT if batch_invariant else 0
        numbers = Scalars(band(causal, window, align), scale, softcap, backend, flags)
        given = {n: x for n, x in zip(d.OPTIONAL, options) if x is not None}
        extras = Extras.of(given, (dropout_p, dropout_offset, seed), state)
        call = _call.pack(q, k, v, out, bool(return_lse), numbers, extras)
        made = {"out": call.out if out is None else None, "lse": call.lse}
        _calls.keep(types, tensors, scalars, call.packed, made)
        run(_native.attention, call.packed, call.kind, threads)
        return (call.out, call.lse) if return_lse else call.out
    kind, prototypes, lend, idle = repeat
    if out is None:
        out = kind.new(prototypes[0])
    else:
        kind.touch(out)
    lse = kind.new(prototypes[1]) if return_lse else None
    lent = lend(idle, (q, k, v, out, lse, *options))
    run(_native.attention, lent[1], kind, threads)
    idle.append(lent)
    return (out, lse) if return_lse else out


def plan(
    q: Any,
    k: Any,
    v: Any,
    *,
    out: Any = None,
    return_lse: bool = False,
    threads: int | None = None,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """What tessera.attention would run for these arguments, and why; nothing is computed.

    Returns:
      The object that tessera_plan_describe writes: backend, target, tiles, tasks, workspace in
      bytes, and the problem as the library reads it.

    Raises:
      As tessera.attention.
    """
    call = _call.pack_options(q, k, v, out, bool(return_lse), options)
    context = context_of(call.kind, threads)
    described: dict[str, Any] = json.loads(
        _native.describe(_native.plan_describe, context, call.packed)
    )
    return described

"""Attention and its gradients: tessera.attention, attention_backward, plan."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from tessera import _call, _native, _repeat
from tessera import _descriptors as d
from tessera._call import Extras, Scalars, band, given_output, made
from tessera._tensors import Kind, adopt, kinds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tessera._options import Options


def threads_of(kind: Kind, threads: int | None) -> int:
    """Threads of a call: as asked for, else as torch has them, else (0) the library's default."""
    if threads is None:
        return kind.threads()
    if not hasattr(threads, "__index__") or threads < 1:
        raise ValueError(f"threads is {threads}; it must be from 1 to 1024, or None")
    return int(threads)


def _run(packed: bytes, kind: Kind, threads: int | None) -> None:
    context = _native.context(kind.threads() if threads is None else threads_of(kind, threads))
    status = _native.attention(context, packed, _native.error.address)
    if status:
        _native.refuse(status)


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    window: _call.Window | None = None,
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
    on the CPU. They are read where they lie, with any strides; nothing is copied. Of the vectors of
    integers, those that count rows may also be lists.

    Args:
      q: [B, Lq, H, D] float32, float16, bfloat16 or (slow) float64; packed: [total, H, D].
      k: [B, Lk, Hk, D] of q's dtype, H % Hk == 0; packed: [total, Hk, D]; pages: [pages,
        page_size, Hk, D].
      v: [B, Lk, Hk, Dv], lying as k does.
      causal: the same as a window whose right side is 0.
      window: (left, right): keys visible before and after the diagonal, inclusive; None or -1: all.
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
      backend: "auto", "cpu", "reference" (double precision) or "standard" (for comparison).
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
    call: tuple[Any, ...] | None = None
    key = None
    # fmt: off
    if (
        mask is bias is alibi is sink is kv_lengths is kv_starts is cache_batch_idx is cu_seqlens_q
        is cu_seqlens_k is seqused_q is seqused_k is block_table is window is state is out is None
        and not dropout_p and not seed and not dropout_offset
    ):
        options = (causal, align, scale, softcap, backend, batch_invariant, return_lse)
        key, call = _repeat.find(q, k, v, options)
    # fmt: on
    if call is None:
        flags = d.BATCH_INVARIANT if batch_invariant else 0
        scalars = Scalars(band(causal, window, align), scale, softcap, backend, flags)
        # fmt: off
        tensors = (
            mask, bias, alibi, sink, kv_lengths, kv_starts, cache_batch_idx,
            cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, block_table,
        )
        # fmt: on
        extras = Extras.of(align, tensors, (dropout_p, dropout_offset, seed), state)
        call = _call.pack(q, k, v, out, bool(return_lse), scalars, extras)
        if key is not None:
            _repeat.keep(key, call, q)
    _run(call[0], call[1], threads)
    return (call[2], call[3]) if return_lse else call[2]


# ---- Gradients -----------------------------------------------------------------------------------


class Gradients(NamedTuple):
    """The gradients of one call; those that were not wanted are None."""

    dq: Any = None  # [B, Lq, H, D]
    dk: Any = None  # [B, Lk, Hk, D]
    dv: Any = None  # [B, Lk, Hk, Dv]
    d_bias: Any = None  # of bias's shape
    d_sink: Any = None  # [H]


def _new_gradients(wanted: Iterable[str], of: dict[str, Any], kind: Kind) -> Gradients:
    """Memory for the gradients wanted, each of the shape and dtype of its tensor."""
    names = set(wanted)
    for name in sorted(names):
        if name not in Gradients._fields:
            raise ValueError(f"wanted has '{name}'; it may have {', '.join(Gradients._fields)}")
        if of[name] is None:
            raise ValueError(f"{name} is wanted, but the call has no {name[2:]}")
    parts = {name: _like(kind, of["dq"], of[name], name) for name in names}
    return Gradients(**parts)


def _like(kind: Kind, q: Any, x: Any, name: str) -> Any:
    wide = name == "d_bias" and kind.dtype(q, "q") == d.FLOAT64
    own = adopt(x, name)
    dtype = d.FLOAT64 if wide else kinds[type(own)].dtype(own, name)
    return kind.empty(q, tuple(own.shape), dtype)


def _pack_gradients(kind: Kind, gradients: Gradients, given: bool, leads: dict[str, int]) -> bytes:
    packed = []
    for name, x in gradients._asdict().items():
        if x is None:
            packed.append(d.ABSENT)
            continue
        lead = leads.get(name, 0)
        at = given_output(kind, name, x, lead) if given else made(x, name, lead)
        packed.append(d.TENSOR.pack(*at))
    return b"".join(packed)


class _Backward(NamedTuple):
    packed: bytes
    kind: Kind
    gradients: Gradients
    memory: Any


def _pack_backward(
    tensors: tuple[Any, ...],  # d_out, q, k, v, out, lse, d_lse
    wanted: Iterable[str],
    into: Gradients | None,
    accumulate: bool,
    options: Any,
) -> _Backward:
    d_out, q, k, v, out, lse, d_lse = tensors
    call = _call.pack_options(q, k, v, out, lse, options)
    kind = call.kind
    bias, sink = options.get("bias"), options.get("sink")
    lead_q, lead_k = 4 - len(q.shape), 4 - len(k.shape)
    bias_lead = 0 if bias is None else 4 - len(bias.shape)
    leads = {"dq": lead_q, "dk": lead_k, "dv": 4 - len(v.shape), "d_bias": bias_lead}
    if accumulate and into is None:
        raise ValueError("accumulate is set without into; pass the gradients to add to")
    of = {"dq": q, "dk": k, "dv": v, "d_bias": bias, "d_sink": sink}
    gradients = _new_gradients(wanted, of, kind) if into is None else Gradients(*into)
    forward = ctypes.create_string_buffer(call.packed, d.CALL_SIZE)
    read: list[Any] = [call, forward]
    upstream = _call.optional(kind, "d_out", d_out, read, lead_q)
    upstream += _call.optional(kind, "d_lse", d_lse, read, lead_q)
    packed = d.BACKWARD.pack(
        d.BACKWARD.size,
        d.ACCUMULATE if accumulate else 0,
        ctypes.addressof(forward),
        upstream,
        _pack_gradients(kind, gradients, into is not None, leads),
    )
    return _Backward(packed, kind, gradients, read)


def attention_backward(
    d_out: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    *,
    d_lse: Any = None,
    wanted: Iterable[str] = ("dq", "dk", "dv"),
    into: Gradients | None = None,
    accumulate: bool = False,
    threads: int | None = None,
    **options: Unpack[Options],
) -> Gradients:
    """The gradients of one call of tessera.attention.

    With P, out and lse as there, Z_ij the weight that dropout gives a pair, t_ij the slope of the
    soft cap (1 without them), and D_i = <d_out_i, out_i> - d_lse_i:
      dP_ij = Z_ij <d_out_i, v_j>;         dS_ij = P_ij (dP_ij - D_i);   d_bias_ij = dS_ij
      dq_i = scale sum_j dS_ij t_ij k_j;   dk_j = scale sum_i dS_ij t_ij q_i
      dv_j = sum_i P_ij Z_ij d_out_i;      d_sink = - sum_i exp(sink - lse_i) D_i
    Key heads sum over the query heads that share them, d_bias over what the bias is broadcast to.

    Args:
      d_out: the gradient of out, of its shape, float32 or of q's dtype, any strides.
      q, k, v, options: those of the call.
      out, lse: what the call returned, with return_lse.
      d_lse: the gradient of lse, of its shape and dtype; None: 0.
      wanted: names of the gradients to compute: "dq", "dk", "dv", "d_bias", "d_sink".
      into: memory for them, of their shapes, in float32 or the dtypes of their tensors; wanted is
        then what is not None there.
      accumulate: add to what `into` holds.
      threads: as for tessera.attention.

    Returns:
      Gradients(dq, dk, dv, d_bias, d_sink), each of the shape and dtype of its tensor; None where
      not wanted.

    Raises:
      As tessera.attention; NotImplementedError for pages and for a call that starts from a state.

    Source: Dao, "FlashAttention-2", 2023, for the backward pass without the matrix.
    """
    tensors = (d_out, q, k, v, out, lse, d_lse)
    call = _pack_backward(tensors, wanted, into, accumulate, options)
    context = _native.context(threads_of(call.kind, threads))
    status = _native.attention_backward(context, call.packed, _native.error.address)
    if status:
        _native.refuse(status)
    return call.gradients


# ---- Plans ---------------------------------------------------------------------------------------


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
    context = _native.context(threads_of(call.kind, threads))
    described: dict[str, Any] = json.loads(
        _native.describe(_native.plan_describe, context, call.packed)
    )
    return described

"""The operator as a function."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

import tessera
from tessera.onnx import _attributes, _inputs, _scores
from tessera.onnx._attributes import Settings
from tessera.onnx._inputs import Array, Inputs, Mask, Operands

if TYPE_CHECKING:
    from typing_extensions import Unpack

Outputs = tuple[Array, Array, Array, Optional[Array]]  # Python 3.9 has no X | None at run time


def attention(
    Q: Array,
    K: Array,
    V: Array,
    attn_mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    nonpad_kv_seqlen: Array | None = None,
    *,
    opset: int = 25,
    **attributes: Unpack[_attributes.Attributes],
) -> Outputs:
    """The ONNX operator Attention on NumPy arrays; Y comes from tessera.attention.

    For query i and key j of one (batch, head), keys of the cache first:
      s = scale <q_i, k_j>;  s = softcap tanh(s / softcap);  s += attn_mask
      Y_i = sum_j P_ij v_j,  P = softmax of s over visible j
    A row that sees no key gives 0. Query i stands at position p = offset + i, where offset is the
    past length, or nonpad_kv_seqlen[b] - Lq, or else 0.

    Args:
      Q: [B, H, Lq, D], or [B, Lq, H D] with q_num_heads: float32, float16, float64 or
        ml_dtypes.bfloat16.
      K: [B, Hk, Lk, D], or [B, Lk, Hk D] with kv_num_heads: of the type of Q, H % Hk == 0.
      V: [B, Hk, Lk, Dv], or [B, Lk, Hk Dv]: of any of these types.
      attn_mask: of a shape that broadcasts to [B, H, Lq, T], T = past length + Lk. bool: true means
        "attend"; numbers are added to the scores, -inf hides a key. From opset 24 on the last
        dimension may be shorter than T; the keys that it leaves out are hidden.
      past_key: [B, Hk, past length, D], of the type of K.
      past_value: [B, Hk, past length, Dv], of the type of V.
      nonpad_kv_seqlen: [B] int64, from opset 24 on, not with past_key: keys j < length exist.
      opset: of the model: 23, or newer.
      is_causal: 1: key j is visible only if j <= p.
      left_window_size: keys visible before p, from opset 25 on; -1: all.
      right_window_size: keys visible behind p, from opset 25 on; -1: all.
      q_num_heads, kv_num_heads: heads of 3-dimensional inputs.
      scale: finite and >= 0; left out: 1 / sqrt(D).
      softcap: finite and > 0; 0: none.
      softmax_precision: a number of onnx.TensorProto. 11 (float64) computes all in float64, slowly;
        1, 10 and 16 change nothing, since the library has at least float32.
      qk_matmul_output_mode: which scores to return: 0: s as it is first, 1: behind the soft cap,
        2: with attn_mask and -inf for hidden keys, 3: P. Left out: none.

    Returns:
      (Y, present_key, present_value, qk_matmul_output): Y in the layout and type of Q;
      present_key [B, Hk, T, D] and present_value [B, Hk, T, Dv], without a past views of K and V;
      qk_matmul_output [B, H, Lq, T] of the type of Q if qk_matmul_output_mode is given, else None.
      The last is computed by NumPy and needs memory for the whole matrix.

    Raises:
      ValueError: the call makes no sense; the sentence says what does.
      NotImplementedError: the opset is newer than this version.
      TypeError: an input is no NumPy array.
      MemoryError: memory ran out.

    Source: ONNX operator schemas, Attention-23, Attention-24 and Attention-25.
    """
    inputs = Inputs(Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen)
    return compute(inputs, opset, attributes, attributes.get("qk_matmul_output_mode") is not None)


def compute(inputs: Inputs, opset: int, attributes: Mapping[str, Any], qk: bool) -> Outputs:
    """The outputs of the operator. qk: qk_matmul_output is wanted."""
    settings = _attributes.read(opset, attributes)
    operands = _inputs.operands(inputs, settings)
    shape = operands.scores_shape
    mask = _inputs.mask(inputs.attn_mask, shape, settings.opset)
    lengths = _inputs.lengths(inputs, shape[0], mask.keys, settings.opset)
    offset = operands.past if lengths is None else lengths - shape[2]
    y = _core(settings, operands, mask, offset, lengths, packed=inputs.q.ndim == 3)
    scores = _scores.output(settings, operands, mask, offset, lengths) if qk else None
    return y, operands.k.swapaxes(1, 2), operands.v.swapaxes(1, 2), scores


def _common_dtype(q: Array, v: Array) -> Any:
    """The type to compute in: the library wants one, and float32 holds all 16-bit values."""
    if q.dtype == v.dtype:
        return q.dtype
    return np.float64 if np.float64 in (q.dtype, v.dtype) else np.float32


def _core(
    settings: Settings,
    operands: Operands,
    mask: Mask,
    offset: Array | int,
    lengths: Array | None,
    packed: bool,
) -> Array:
    """Y: [B, H, Lq, Dv], or [B, Lq, H Dv] if packed."""
    dtype = _common_dtype(operands.q, operands.v)
    q, k, v = (x.astype(dtype, copy=False) for x in operands[:3])
    batch, queries, heads, size = q.shape
    scale = settings.scale
    if scale is None and dtype == np.float64:  # the library has scales in float32
        q, scale = q / math.sqrt(size), 1.0
    dim = v.shape[3]
    y = np.empty((batch, queries, heads, dim) if packed else (batch, heads, queries, dim), dtype)
    boolean = mask.values is not None and mask.values.dtype == bool
    tessera.attention(
        q,
        k[:, : mask.keys],
        v[:, : mask.keys],
        causal=settings.causal,
        window=settings.window,
        align=offset if settings.banded else None,
        scale=scale,
        softcap=settings.softcap,
        mask=mask.values if boolean else None,
        bias=None if boolean else mask.values,
        kv_lengths=lengths,
        out=y if packed else y.swapaxes(1, 2),
        backend="reference" if settings.double else None,
    )
    with np.errstate(over="ignore"):  # infinity is the answer where the type of Q holds no more
        y = y.astype(operands.q.dtype, copy=False)
    return y.reshape(batch, queries, heads * dim) if packed else y

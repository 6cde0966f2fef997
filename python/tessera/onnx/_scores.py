"""qk_matmul_output: the scores themselves, in NumPy.

The library never holds this matrix; whoever asks for it pays B H Lq T numbers of memory. It is
computed in float32, in float64 where inputs or softmax_precision are, and rounded once.
"""

from __future__ import annotations

import math

import numpy as np

from tessera.onnx._attributes import Settings
from tessera.onnx._inputs import Array, Mask, Operands

RAW, CAPPED, BIASED, PROBABILITIES = range(4)


def _products(operands: Operands, scale: float | None, dtype: type) -> Array:
    """scale <q_i, k_j>, [B, H, Lq, T]; sqrt(scale) on either side keeps float32 from overflow."""
    batch, heads, queries, total = operands.scores_shape
    kv_heads, dim = operands.k.shape[2:]
    root = dtype(math.sqrt(1 / math.sqrt(dim) if scale is None else scale))
    group = heads // kv_heads if kv_heads else 0
    q = (operands.q.astype(dtype) * root).swapaxes(1, 2)
    q = q.reshape(batch, kv_heads, group, queries, dim)
    k = (operands.k.astype(dtype) * root).transpose(0, 2, 3, 1)[:, :, None]
    return np.matmul(q, k).reshape(batch, heads, queries, total)


def _in_band(settings: Settings, queries: int, total: int, offset: Array | int) -> Array:
    """[B|1, 1, Lq, T]: offset + i - left <= j <= offset + i + right."""
    positions = np.reshape(offset, (-1, 1, 1, 1)) + np.arange(queries)[:, None]
    distance = np.arange(total) - positions
    left, right = settings.window
    right = 0 if settings.causal else right
    seen = np.ones(distance.shape, bool)
    if left >= 0:
        seen &= distance >= -left
    if right >= 0:
        seen &= distance <= right
    return seen


def _visible(
    settings: Settings, operands: Operands, keys: int, offset: Array | int, lengths: Array | None
) -> Array:
    """[B|1, 1, Lq, T]: all but what the values of attn_mask hide."""
    _, _, queries, total = operands.scores_shape
    key = np.arange(total)
    seen = _in_band(settings, queries, total, offset) & (key < keys)
    return seen if lengths is None else seen & (key < lengths[:, None, None, None])


def _padded(mask: Mask, total: int) -> Array | None:
    """The values of a mask for all keys; those that it does not cover are hidden elsewhere."""
    if mask.values is None or mask.keys == total:
        return mask.values
    full = np.zeros((*mask.values.shape[:3], total), mask.values.dtype)
    full[..., : mask.keys] = mask.values
    return full


def _biased(scores: Array, seen: Array, values: Array | None) -> Array:
    """Scores with attn_mask, -inf where a key is hidden, whatever the score is there."""
    if values is not None and values.dtype == bool:
        seen = seen & values
    elif values is not None:
        bias = values.astype(scores.dtype)
        seen = seen & (bias != -np.inf)
        scores = scores + bias
    return np.where(seen, scores, scores.dtype.type(-np.inf))


def _softmax(scores: Array) -> Array:
    """Over the last dimension. A row that sees no key is 0: exp is taken from 0, not from -inf."""
    largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(largest == -np.inf, 0, largest))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def output(
    settings: Settings,
    operands: Operands,
    mask: Mask,
    offset: Array | int,
    lengths: Array | None,
) -> Array:
    """qk_matmul_output [B, H, Lq, T] of the mode that settings name, in the type of Q."""
    dtype = operands.q.dtype
    wide = np.float64 if settings.double or dtype == np.float64 else np.float32
    # Infinities and NaN of the inputs, and what 16 bits cannot hold, are answers.
    with np.errstate(all="ignore"):
        scores = _products(operands, settings.scale, wide)
        if settings.mode != RAW and settings.softcap:
            scores = settings.softcap * np.tanh(scores / settings.softcap)
        if settings.mode >= BIASED:
            seen = _visible(settings, operands, mask.keys, offset, lengths)
            scores = _biased(scores, seen, _padded(mask, operands.k.shape[1]))
        if settings.mode == PROBABILITIES:
            scores = _softmax(scores)
        return scores.astype(dtype)

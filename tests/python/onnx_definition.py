"""The ONNX operator Attention by its definition, in float64 NumPy, one query at a time.

Written from the operator's schemas alone: nothing here calls the library.
"""

from __future__ import annotations

import math

import numpy as np


def four(x, heads):
    """[B, H, L, D] in float64."""
    x = x.astype(np.float64)
    if x.ndim == 4:
        return x
    batch, length, hidden = x.shape
    return x.reshape(batch, length, heads, hidden // heads).transpose(0, 2, 1, 3)


def joined(past, new, heads):
    new = four(new, heads)
    return new if past is None else np.concatenate([past.astype(np.float64), new], 2)


def full_mask(mask, shape, opset):
    """What is added to the scores, [B, H, Lq, T]."""
    if mask is None:
        return np.zeros(shape)
    bias = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
    if opset >= 24 and bias.ndim:
        width = [(0, 0)] * (bias.ndim - 1) + [(0, shape[3] - bias.shape[-1])]
        bias = np.pad(bias, width, constant_values=-np.inf)
    return np.broadcast_to(bias, shape)


def in_band(position, total, options):
    """[T]: keys that a query at that position may see."""
    left, right = (options.get(f"{side}_window_size", -1) for side in ("left", "right"))
    return np.array(
        [
            not (options.get("is_causal") and j > position)
            and not (left >= 0 and j < position - left)
            and not (right >= 0 and j > position + right)
            for j in range(total)
        ],
        dtype=bool,
    )


def row(raw, bias, seen, softcap):
    """The scores of one query in the four modes of qk_matmul_output, [4, T]."""
    capped = softcap * np.tanh(raw / softcap) if softcap else raw
    biased = np.where(seen & (bias != -np.inf), capped + bias, -np.inf)
    weights = np.zeros_like(raw)
    if (biased != -np.inf).any():
        weights = np.exp(biased - biased.max())
        weights /= weights.sum()
    return np.stack([raw, capped, biased, weights])


def attention(Q, K, V, mask=None, past_k=None, past_v=None, nonpad=None, *, opset, **options):
    """Y, present_key, present_value in float64, and all modes of qk_matmul_output [4, B, H, Lq, T].

    present_key and present_value are None without a past.
    """
    q = four(Q, options.get("q_num_heads"))
    k = joined(past_k, K, options.get("kv_num_heads"))
    v = joined(past_v, V, options.get("kv_num_heads"))
    batch, heads, queries, dim = q.shape
    total, group = k.shape[2], heads // k.shape[1]
    bias = full_mask(mask, (batch, heads, queries, total), opset)
    scale = options.get("scale", 1 / math.sqrt(dim))
    past = 0 if past_k is None else past_k.shape[2]
    y = np.zeros((batch, heads, queries, v.shape[3]))
    scores = np.zeros((4, batch, heads, queries, total))
    for b, h, i in np.ndindex(batch, heads, queries):
        position = i + (past if nonpad is None else int(nonpad[b]) - queries)
        seen = in_band(position, total, options)
        if nonpad is not None:
            seen &= np.arange(total) < nonpad[b]
        raw = scale * (k[b, h // group] @ q[b, h, i])
        scores[:, b, h, i] = row(raw, bias[b, h, i], seen, options.get("softcap", 0))
        y[b, h, i] = scores[3, b, h, i] @ v[b, h // group]
    if Q.ndim == 3:
        y = y.transpose(0, 2, 1, 3).reshape(batch, queries, -1)
    return (y, None, None, scores) if past_k is None else (y, k, v, scores)

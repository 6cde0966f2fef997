"""Attention by its definition, in float64 NumPy and, for gradients, in float64 torch.

Written from docs and include/tessera/tessera.h alone: nothing here calls the library.
"""

from __future__ import annotations

import math

import numpy as np
import torch


def visible(lq, lk, causal=False, window=None, offset=0):
    """[Lq, Lk]: which keys the band lets a query see."""
    left, right = window if window is not None else (None, None)
    right = 0 if causal else right
    delta = np.arange(lk)[None, :] - (np.arange(lq)[:, None] + offset)
    band = np.ones((lq, lk), bool)
    if left is not None and left != -1:
        band &= delta >= -left
    if right is not None and right != -1:
        band &= delta <= right
    return band


def philox(counter, key):
    """Philox4x32-10 of Salmon et al., 2011. counter [..., 4], key (2 words) -> words [..., 4]."""
    c = [counter[..., i].astype(np.uint64) for i in range(4)]
    k0, k1 = key
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        shift = np.uint64(32)
        c = [
            (b >> shift) ^ c[1] ^ np.uint64(k0),
            b & low,
            (a >> shift) ^ c[3] ^ np.uint64(k1),
            a & low,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, -1)


def kept(shape, p, seed, offset=0):
    """[B, H, Lq, Lk]: which pairs dropout keeps."""
    b, h, i, j = np.indices(shape)
    counter = np.stack([j // 4, i, b * shape[1] + h, np.full(shape, offset)], -1)
    words = philox(counter, (seed & 0xFFFFFFFF, seed >> 32))
    word = np.take_along_axis(words, (j % 4)[..., None], -1)[..., 0]
    return word >= round(p * 2**32)


def attention(
    q,
    k,
    v,
    *,
    causal=False,
    window=None,
    offset=0,
    scale=None,
    softcap=0.0,
    bias=None,
    mask=None,
    alibi=None,
    sink=None,
    kv_lengths=None,
    kv_starts=None,
    dropout_p=0.0,
    seed=0,
    dropout_offset=0,
):
    """out [B, Lq, H, Dv] and lse [B, H, Lq] in float64 torch; inputs are float64 torch tensors."""
    batch, lq, heads, dim = q.shape
    lk, group = k.shape[1], heads // k.shape[2]
    k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
    s = torch.einsum("bihd,bjhd->bhij", q, k) * (1 / math.sqrt(dim) if scale is None else scale)
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    if alibi is not None:
        slopes = alibi.reshape(-1, heads)[:, :, None, None]
        distance = (torch.arange(lq)[:, None] + offset - torch.arange(lk)[None, :]).abs()
        s = s - slopes * distance
    seen = torch.from_numpy(visible(lq, lk, causal, window, offset)).expand(batch, heads, lq, lk)
    if bias is not None:
        s = s + bias
        seen = seen & (bias.expand(s.shape) != -math.inf)
    if mask is not None:
        seen = seen & mask
    j = torch.arange(lk)
    if kv_lengths is not None:
        seen = seen & (j < kv_lengths[:, None])[:, None, None, :]
    if kv_starts is not None:
        seen = seen & (j >= kv_starts[:, None])[:, None, None, :]
    s = torch.where(seen, s, -math.inf)
    logits = s
    if sink is not None:
        column = sink[None, :, None, None].expand(batch, heads, lq, 1)
        logits = torch.cat([s, column], -1)
    some = torch.isfinite(logits).any(-1, keepdim=True) if logits.shape[-1] else None
    if some is None:
        empty = torch.full((batch, heads, lq), -math.inf, dtype=q.dtype)
        return torch.zeros(batch, lq, heads, v.shape[-1], dtype=q.dtype), empty
    # Rows that see nothing are taken out of the logarithm, so that their gradients are 0, not NaN.
    lse = torch.logsumexp(torch.where(some, logits, 0.0), -1)
    p = torch.where(seen, torch.exp(torch.where(seen, s, 0.0) - lse[..., None]), 0.0)
    if dropout_p:
        keep = torch.from_numpy(kept(tuple(s.shape), dropout_p, seed, dropout_offset))
        p = torch.where(keep, p / (1 - dropout_p), 0.0)
    out = torch.einsum("bhij,bjhd->bihd", p, v)
    return out, torch.where(some[..., 0], lse, -math.inf)


def wide(x):
    """A NumPy array or torch tensor of any dtype as float64 (bool, integers: as they are) torch."""
    if isinstance(x, torch.Tensor):
        return x.double() if x.is_floating_point() else x
    if not isinstance(x, np.ndarray):
        return x
    return torch.from_numpy(x if x.dtype.kind in "biu" else x.astype(np.float64))


def reference(q, k, v, **options):
    """attention() of arrays or tensors of any dtype, as NumPy float64."""
    out, lse = attention(wide(q), wide(k), wide(v), **{n: wide(x) for n, x in options.items()})
    return out.numpy(), lse.numpy()

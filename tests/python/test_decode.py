"""Caches: append, rotate, decode from dense and paged keys."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tessera
from definition import reference


def close(x, expected):
    np.testing.assert_allclose(np.asarray(x), expected, rtol=0, atol=6e-6)


def angles(positions, half):
    frequency = 100.0 ** -(np.arange(half) / half)
    angle = np.arange(positions)[:, None] * frequency
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def rotated(x, cos, sin, interleaved=False):
    """x [B, L, H, D] with row i at position i, by the formula."""
    half = cos.shape[1]
    first = slice(0, 2 * half, 2) if interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if interleaved else slice(half, 2 * half)
    c, s = (t[: x.shape[1], None, :].astype(np.float64) for t in (cos, sin))
    y = x.astype(np.float64)
    a, b = y[..., first].copy(), y[..., second].copy()
    y[..., first], y[..., second] = a * c - b * s, a * s + b * c
    return y


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotate(draw, interleaved):
    x, (cos, sin) = draw(2, 5, 3, 8), angles(9, 3)
    expected = rotated(x, cos, sin, interleaved)
    close(tessera.rotate(x, cos, sin, interleaved=interleaved), expected)
    tensors = map(torch.from_numpy, (x, cos, sin))
    close(tessera.rotate(*tensors, interleaved=interleaved), expected)
    late = tessera.rotate(x[:, 2:], cos, sin, offsets=[2, 2], interleaved=interleaved)
    close(late, expected[:, 2:])
    places = np.tile(np.arange(5)[::-1], (2, 1))
    turned = tessera.rotate(x[:, ::-1], cos, sin, positions=places, interleaved=interleaved)
    close(turned[:, ::-1], expected)
    y = x.copy()
    assert tessera.rotate(y, cos, sin, interleaved=interleaved, out=y) is y
    close(y, expected)


def from_paged(pages, table, b, length):
    """The keys of one sequence, gathered."""
    return np.concatenate([pages[p] for p in table[b]])[None, :length]


@pytest.mark.parametrize("lists", [False, True])
def test_a_dense_cache_grows_and_is_attended(draw, lists):
    k, v = draw(2, 6, 2, 8), draw(2, 6, 2, 8)
    k_cache, v_cache = np.zeros((3, 10, 2, 8), np.float32), np.zeros((3, 10, 2, 8), np.float32)
    rows, (cos, sin) = np.array([2, 0], np.int32), angles(10, 4)
    for at, n in ((0, 4), (4, 2)):
        lengths = [at, at] if lists else np.array([at, at], np.int32)
        new = slice(at, at + n)
        tessera.append(
            *(k[:, new], v[:, new], k_cache, v_cache, lengths),
            cache_batch_idx=rows,
            cos=cos,
            sin=sin,
        )
    keys = rotated(k, cos, sin)
    close(k_cache[rows, :6], keys)
    np.testing.assert_array_equal(v_cache[rows, :6], v)
    q = draw(2, 2, 4, 8)
    out, lse = tessera.decode(
        q, k_cache, v_cache, [6, 6], cache_batch_idx=rows, window=(3, None), return_lse=True
    )
    expected, expected_lse = reference(q, keys, v, causal=True, window=(3, None), offset=4)
    close(out, expected)
    close(lse, expected_lse)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_pages(draw, library):
    make = torch.from_numpy if library == "torch" else np.asarray
    k_pages, v_pages = draw(7, 4, 2, 8), draw(7, 4, 2, 6)
    table = np.array([[5, 0, 3], [1, 6, 2]], np.int32)
    lengths = np.array([5, 9])
    k, v = draw(2, 3, 2, 8), draw(2, 3, 2, 6)
    paged = [make(x) for x in (k_pages, v_pages)]
    tessera.append(make(k), make(v), *paged, make(lengths), block_table=make(table))
    q = draw(2, 3, 4, 8)
    out = tessera.decode(make(q), *paged, make(lengths + 3), block_table=make(table), softcap=2.0)
    for b in range(2):
        n = lengths[b] + 3
        keys, values = (from_paged(p, table, b, n) for p in (k_pages, v_pages))
        np.testing.assert_array_equal(keys[0, -3:], k[b])
        expected, _ = reference(q[b : b + 1], keys, values, causal=True, offset=n - 3, softcap=2.0)
        close(out[b : b + 1], expected)


def test_a_full_cache_is_refused_and_left_alone(draw):
    cache = np.zeros((2, 4, 2, 8), np.float32)
    k = draw(2, 2, 2, 8)
    with pytest.raises(ValueError, match="its cache has room for 4"):
        tessera.append(k, k, cache, cache.copy(), [0, 3])
    assert (cache == 0).all()

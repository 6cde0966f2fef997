"""Random calls for the property tests. Scalars are exact in float32, as the library has them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import torch
from hypothesis import strategies as st

# Relative to the largest entry: float32 rounds sums, 16 bits round the result once.
TOLERANCE = {"float32": 3e-6, "float16": 1e-3, "bfloat16": 8e-3, "float64": 1e-12}
DTYPES = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float64": np.dtype(np.float64),
}


def close(x, expected, tolerance):
    """Whether x is expected, infinities exactly, else relative to the largest finite entry."""
    x = np.asarray(x.float() if isinstance(x, torch.Tensor) else x).astype(np.float64)
    assert x.shape == expected.shape
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(x[~finite], expected[~finite])
    size = max(1.0, np.abs(expected[finite]).max(initial=0.0))
    assert np.abs(x[finite] - expected[finite]).max(initial=0.0) <= tolerance * size


def broadcast_shapes(batch, heads, lq, lk):
    """Shapes of a mask or bias."""
    return st.tuples(*(st.sampled_from([1, n]) for n in (batch, heads, lq, lk)))


@st.composite
def strided(draw, x):
    """x again, in memory that lies differently."""
    how = draw(st.sampled_from(["dense", "transposed", "reversed", "sliced"]))
    if how == "transposed":
        return np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
    if how == "reversed":
        return np.ascontiguousarray(x[:, ::-1])[:, ::-1]
    if how == "sliced":
        memory = np.full((*x.shape[:3], 2 * x.shape[3]), np.nan, x.dtype)
        memory[..., ::2] = x
        return memory[..., ::2]
    return x


@st.composite
def tensors(draw, dtypes=("float32", "float16", "bfloat16", "float64")):
    """q, k, v of any strides."""
    dtype = DTYPES[draw(st.sampled_from(dtypes))]
    batch, kv_heads, group = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 2)),
        draw(st.integers(1, 3)),
    )
    lq, lk = draw(st.integers(1, 9)), draw(st.integers(1, 40))
    dim, value_dim = draw(st.sampled_from([1, 4, 16, 17])), draw(st.sampled_from([1, 8, 24]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))

    def some(*shape):
        return generator.standard_normal(shape).astype(dtype)

    q = draw(strided(some(batch, lq, kv_heads * group, dim)))
    k = draw(strided(some(batch, lk, kv_heads, dim)))
    v = draw(strided(some(batch, lk, kv_heads, value_dim)))
    return q, k, v, generator


@st.composite
def calls(draw, dtypes=("float32", "float16", "bfloat16", "float64")):
    """q, k, v, options of tessera.attention, and the offset that align stands for."""
    q, k, v, generator = draw(tensors(dtypes))
    (batch, lq, heads, _), lk = q.shape, k.shape[1]
    options = {}

    def maybe(name, make):
        if draw(st.booleans()):
            options[name] = make()

    align = draw(st.sampled_from(["top_left", "bottom_right", 3, -2]))
    offset = {"top_left": 0, "bottom_right": lk - lq}.get(align, align)
    maybe("causal", lambda: True)
    side = st.sampled_from([None, -1, 0, 1, 5])
    maybe("window", lambda: (draw(side), draw(side)))
    maybe("scale", lambda: draw(st.sampled_from([0.0, 0.3125, 1.0])))
    maybe("softcap", lambda: 2.5)
    shape = broadcast_shapes(batch, heads, lq, lk)
    maybe("bias", lambda: generator.standard_normal(draw(shape), dtype=np.float32))
    maybe("mask", lambda: generator.random(draw(shape)) < 0.7)
    maybe("alibi", lambda: generator.random(draw(st.sampled_from([(heads,), (batch, heads)]))))
    maybe("sink", lambda: generator.standard_normal(heads, dtype=np.float32))
    maybe("kv_starts", lambda: generator.integers(0, lk + 1, batch).astype(np.int32))
    if align != "bottom_right":  # which goes by kv_lengths: another offset for each sequence
        maybe("kv_lengths", lambda: generator.integers(0, lk + 1, batch))
    maybe("dropout_p", lambda: 0.3125)
    if "alibi" in options:
        options["alibi"] = options["alibi"].astype(np.float32)
    if "dropout_p" in options:
        options.update(seed=draw(st.integers(0, 2**64 - 1)), dropout_offset=5)
    return q, k, v, {**options, "align": align}, offset


def definition_of(options, offset):
    """The options as the definition has them."""
    return {**{n: x for n, x in options.items() if n != "align"}, "offset": offset}

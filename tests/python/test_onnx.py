"""tessera.onnx.attention against the operator's definition in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx_definition
import tessera.onnx
from cases import DTYPES, TOLERANCE, close

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


# ---- Random calls --------------------------------------------------------------------------------


@st.composite
def masks(draw, generator, shape, opset, shortest):
    """attn_mask for scores of that shape [B, H, Lq, T]. Numbers are exact in float32."""
    kind = draw(st.sampled_from(["bool", "int32", "uint8", *DTYPES]))
    short = draw(st.integers(shortest, shape[3])) if opset >= 24 else 1
    sizes = [draw(st.sampled_from([1, n])) for n in shape[:3]]
    sizes.append(draw(st.sampled_from([short, shape[3]])))
    sizes = sizes[draw(st.integers(0, 4)) :]
    if kind == "bool":
        return np.asarray(generator.random(sizes) < 0.7)
    if kind in ("int32", "uint8"):
        return np.asarray(generator.integers(0, 4, sizes)).astype(kind)
    values = np.asarray(generator.standard_normal(sizes)).astype(np.float16)
    values[generator.random(sizes) < 0.2] = -np.inf
    return values.astype(DTYPES[kind])


@st.composite
def calls(draw):
    """The seven inputs, opset and attributes of a call."""
    opset = draw(st.sampled_from([23, 24, 25]))
    dtype = DTYPES[draw(st.sampled_from(list(DTYPES)))]
    value_dtype = DTYPES[draw(st.sampled_from(list(DTYPES)))] if draw(st.booleans()) else dtype
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    batch, kv_heads, group = (draw(st.integers(1, n)) for n in (3, 2, 3))
    heads = kv_heads * group
    queries, new = draw(st.integers(1, 6)), draw(st.integers(1, 9))
    dim, value_dim = draw(st.sampled_from([1, 4, 17])), draw(st.sampled_from([1, 8]))

    def some(heads, length, dim, dtype):
        return generator.standard_normal((batch, heads, length, dim)).astype(dtype)

    q = some(heads, queries, dim, dtype)
    k, v = some(kv_heads, new, dim, dtype), some(kv_heads, new, value_dim, value_dtype)
    attributes, past, nonpad, shortest, total = {}, (None, None), None, 0, new
    cache = draw(st.sampled_from(["none", "past", "nonpad"]))
    if cache == "past":
        length = draw(st.integers(0, 7))
        past = some(kv_heads, length, dim, dtype), some(kv_heads, length, value_dim, value_dtype)
        total += length
    elif cache == "nonpad" and opset >= 24:
        nonpad = generator.integers(0, new + 1, batch)
        shortest = int(nonpad.max())
    mask = None
    if draw(st.booleans()):
        mask = draw(masks(generator, (batch, heads, queries, total), opset, shortest))
    if draw(st.booleans()):
        attributes.update(q_num_heads=heads, kv_num_heads=kv_heads)
        q, k, v = (x.transpose(0, 2, 1, 3).reshape(batch, x.shape[2], -1) for x in (q, k, v))

    def maybe(name, *values):
        if draw(st.booleans()):
            attributes[name] = draw(st.sampled_from(values))

    maybe("is_causal", 0, 1)
    maybe("scale", 0.0, 0.3125, 1.0)
    maybe("softcap", 0.0, 2.5)
    maybe("softmax_precision", 1, 10, 11, 16)
    maybe("qk_matmul_output_mode", 0, 1, 2, 3)
    if opset >= 25:
        maybe("left_window_size", -1, 0, 1, 3)
        maybe("right_window_size", -1, 0, 1, 3)
    return (q, k, v, mask, *past, nonpad), opset, attributes


@settings(max_examples=300)
@given(calls())
def test_calls_are_the_definition(call):
    inputs, opset, attributes = call
    y, key, value, scores = tessera.onnx.attention(*inputs, opset=opset, **attributes)
    expected = onnx_definition.attention(*inputs, opset=opset, **attributes)
    dtype = inputs[0].dtype
    assert (y.dtype, key.dtype, value.dtype) == (dtype, dtype, inputs[2].dtype)
    close(y, expected[0], TOLERANCE[dtype.name])
    if expected[1] is not None:
        np.testing.assert_array_equal(key.astype(np.float64), expected[1])
        np.testing.assert_array_equal(value.astype(np.float64), expected[2])
    mode = attributes.get("qk_matmul_output_mode")
    assert (scores is None) == (mode is None)
    if mode is not None:
        assert scores.dtype == dtype
        close(scores, expected[3][mode], TOLERANCE[dtype.name])


# ---- Edges ---------------------------------------------------------------------------------------


def test_without_a_past_the_present_is_the_input(draw):
    q, k, v = draw(2, 4, 3, 8), draw(2, 2, 5, 8), draw(2, 2, 5, 6)
    _, key, value, scores = tessera.onnx.attention(q, k, v)
    assert key.shape == k.shape
    assert np.shares_memory(key, k)
    assert np.shares_memory(value, v)
    assert scores is None


def test_what_the_lengths_hide_has_no_effect(draw):
    q, k, v = draw(2, 4, 3, 8), draw(2, 2, 9, 8), draw(2, 2, 9, 6)
    lengths = np.array([4, 7])
    expected = tessera.onnx.attention(q, k, v, nonpad_kv_seqlen=lengths, is_causal=1)[0]
    for b, length in enumerate(lengths):
        k[b, :, length:], v[b, :, length:] = np.nan, np.inf
    y = tessera.onnx.attention(q, k, v, nonpad_kv_seqlen=lengths, is_causal=1)[0]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("mode", [2, 3])
def test_what_a_mask_hides_has_no_effect(draw, mode, poison):
    q, k, v = draw(1, 2, 3, 8), draw(1, 2, 5, 8), draw(1, 2, 5, 8)
    hidden = np.array([0, 0, -np.inf, 0, -np.inf], np.float32)
    for mask in (hidden, hidden == 0):
        expected = tessera.onnx.attention(q, k, v, mask, qk_matmul_output_mode=mode)
        poisoned = k.copy(), v.copy()
        for x in poisoned:
            x[:, :, hidden != 0] = poison
        found = tessera.onnx.attention(q, *poisoned, mask, qk_matmul_output_mode=mode)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_allclose(found[3], expected[3], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int64])
def test_an_integer_mask_is_added(draw, dtype):
    q, k, v = draw(1, 2, 3, 8), draw(1, 2, 5, 8), draw(1, 2, 5, 8)
    mask = np.array([0, 1, 3, 0, 100], dtype)
    expected = tessera.onnx.attention(q, k, v, mask.astype(np.float32))[0]
    np.testing.assert_array_equal(tessera.onnx.attention(q, k, v, mask)[0], expected)


def test_a_row_that_sees_nothing_is_zero_in_every_output(draw):
    q, k, v = draw(1, 2, 4, 8), draw(1, 2, 6, 8), draw(1, 2, 6, 8)
    y, _, _, p = tessera.onnx.attention(
        q, k, v, nonpad_kv_seqlen=np.array([2]), is_causal=1, qk_matmul_output_mode=3
    )
    assert (y[:, :, :2] == 0).all()  # positions -2 and -1
    assert (p[:, :, :2] == 0).all()
    np.testing.assert_allclose(p[:, :, 2:].sum(-1), 1, rtol=1e-6)


def test_a_last_dimension_of_one_broadcasts_in_opset_23_and_is_padded_since(draw):
    q, k, v = draw(1, 1, 3, 8), draw(1, 1, 5, 8), draw(1, 1, 5, 8)
    mask = np.ones((3, 1), bool)
    whole, first = (tessera.onnx.attention(q, k, v, mask, opset=n)[0] for n in (23, 24))
    np.testing.assert_allclose(whole, tessera.onnx.attention(q, k, v)[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(first, np.broadcast_to(v[:, :, :1], v[:, :, :3].shape))


def test_the_lowest_float64_is_finite_and_hides_nothing(draw):
    q, k, v = draw(1, 1, 2, 8), draw(1, 1, 4, 8), draw(1, 1, 4, 8)
    mask = np.full((2, 4), np.finfo(np.float64).min)
    np.testing.assert_allclose(
        tessera.onnx.attention(q, k, v, mask)[0],
        np.broadcast_to(v.mean(2, keepdims=True), (1, 1, 2, 8)),
        rtol=1e-5,
    )


def test_softmax_precision_11_computes_in_float64(draw):
    q, k, v = draw(1, 2, 16, 64), draw(1, 2, 300, 64), draw(1, 2, 300, 64)
    expected = onnx_definition.attention(q, k, v, opset=25)[0]
    y = tessera.onnx.attention(q, k, v, softmax_precision=11)[0]
    np.testing.assert_array_equal(y, expected.astype(np.float32))


def test_views_of_any_strides_are_read_where_they_lie(draw):
    q, k, v = draw(3, 8, 2, 4), draw(5, 8, 2, 2), draw(5, 8, 2, 2)
    views = [x.transpose(2, 3, 0, 1)[..., ::-2] for x in (q, k, v)]
    expected = tessera.onnx.attention(*(x.copy() for x in views))[0]
    np.testing.assert_array_equal(tessera.onnx.attention(*views)[0], expected)


def test_newer_opsets_have_the_operator_of_25(draw):
    q = draw(1, 1, 3, 4)
    y = tessera.onnx.attention(q, q, q, opset=27, left_window_size=0, right_window_size=0)[0]
    np.testing.assert_allclose(y, q, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("batch", "heads", "queries", "keys"), [(0, 2, 3, 5), (2, 0, 3, 5), (2, 2, 0, 5), (2, 2, 3, 0)]
)
def test_empty_calls(dtype, batch, heads, queries, keys):
    q = np.ones((batch, heads, queries, 8), dtype)
    k = np.ones((batch, heads, keys, 8), dtype)
    options = {"is_causal": 1, "qk_matmul_output_mode": 3}
    y, key, _, p = tessera.onnx.attention(q, k, k, **options)
    np.testing.assert_array_equal(y, np.zeros((batch, heads, queries, 8)))
    assert (key.shape, p.shape) == (k.shape, (batch, heads, queries, keys))
    packed = [x.transpose(0, 2, 1, 3).reshape(batch, x.shape[2], heads * 8) for x in (q, k)]
    if heads:
        counts = {"q_num_heads": heads, "kv_num_heads": heads}
        y = tessera.onnx.attention(packed[0], packed[1], packed[1], **counts, **options)[0]
        np.testing.assert_array_equal(y, np.zeros((batch, queries, heads * 8)))


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_scores_that_16_bits_cannot_hold_are_infinite(mode):
    q = np.full((1, 1, 1, 16), 200, np.float16)
    y, _, _, scores = tessera.onnx.attention(q, q, q, qk_matmul_output_mode=mode, scale=1.0)
    assert scores.item() == np.inf
    np.testing.assert_array_equal(y, q)

"""Each sentence with which tessera.onnx refuses a call of attention."""

from __future__ import annotations

import numpy as np
import pytest

import tessera.onnx

Q = np.ones((2, 4, 3, 8), np.float32)
K = np.ones((2, 2, 5, 8), np.float32)
PACKED = np.ones((2, 3, 32), np.float32)
HEADS = {"q_num_heads": 4, "kv_num_heads": 2}
PAST = np.ones((2, 2, 7, 8), np.float32)


def call(q=Q, k=K, v=K, *inputs, **options):
    return lambda: tessera.onnx.attention(q, k, v, *inputs, **options)


def masked(shape, **options):
    return call(Q, K, K, np.ones(shape, bool), **options)


def lengths(values, dtype=np.int64, **options):
    return call(nonpad_kv_seqlen=np.array(values, dtype), **options)


REFUSALS = {
    # Opsets and attributes
    "opset": (call(opset=22), ValueError, "opset is 22; the operator Attention exists from"),
    "opset of the future": (call(opset=99), NotImplementedError, "opset is 99; this version knows"),
    "attribute": (call(causal=1), ValueError, "causal is no attribute of Attention of opset 25"),
    "window before 25": (
        call(opset=24, left_window_size=2),
        ValueError,
        "left_window_size is an attribute of Attention from opset 25 on, but this is .* opset 24",
    ),
    "window": (call(right_window_size=-2), ValueError, "right_window_size is -2; it must be a"),
    "causal": (call(is_causal=2), ValueError, "is_causal is 2; it must be 0 or 1"),
    "mode": (call(qk_matmul_output_mode=4), ValueError, "qk_matmul_output_mode is 4; it must be"),
    "precision": (call(softmax_precision=7), ValueError, "softmax_precision is 7; .* 11"),
    "heads": (call(q_num_heads=0), ValueError, "q_num_heads is 0; it must be a count of heads"),
    "no integer": (call(is_causal="yes"), ValueError, "is_causal is yes; it must be 0 or 1"),
    "no number": (call(scale="x"), ValueError, "scale is 'x'; it must be a number"),
    "scale": (call(scale=-1.0), ValueError, "scale is -1"),
    "softcap": (call(softcap=-2.0), ValueError, "softcap is -2"),
    # Q, K and V
    "no array": (call([1.0]), TypeError, "Q is of type list; it must be a NumPy array"),
    "masked array": (call(np.ma.masked_array(Q)), TypeError, "Q is a masked array"),
    "dtype": (call(Q.astype(int)), ValueError, "Q has dtype int64; it must be float32"),
    "dtypes": (
        call(Q, K.astype(np.float16)),
        ValueError,
        "K has dtype float16 but Q float32; the operator has one type for both",
    ),
    "ranks": (call(PACKED, **HEADS), ValueError, "Q, K and V have 3, 4 and 4 dimensions"),
    "heads of packed": (call(PACKED, PACKED, PACKED), ValueError, "their heads must be told"),
    "hidden size": (
        call(PACKED, PACKED, PACKED, q_num_heads=5, kv_num_heads=1),
        ValueError,
        r"Q has shape \(2, 3, 32\) and q_num_heads is 5; the last dimension must be a multiple",
    ),
    "heads twice": (call(**HEADS), ValueError, "q_num_heads is 4 but Q has 4 dimensions"),
    "other heads": (
        call(opset=23, q_num_heads=4, kv_num_heads=4),
        ValueError,
        "kv_num_heads is 4 but K has 4 dimensions",
    ),
    "batch": (call(Q[:1]), ValueError, "the batch size of Q is 1, of K 2 and of V 2"),
    "keys": (call(Q, K, K[:, :, :4]), ValueError, "K has 2 heads of 5 keys but V 2 of 4"),
    "head size": (call(Q, K[..., :4]), ValueError, "heads of Q have size 8 and those of K 4"),
    "no head size": (
        call(Q[..., :0], K[..., :0]),
        ValueError,
        "heads of Q have size 0 and those of K 0; they must have the same, 1 or more",
    ),
    "value size": (call(Q, K, K[..., :0]), ValueError, "v has shape .* must be 1 or more"),
    "group": (call(Q[:, :3]), ValueError, "Q has 3 heads and K and V have 2; .* multiple"),
    # The cache
    "past alone": (call(past_key=PAST), ValueError, "past_key is given alone"),
    "past value alone": (call(past_value=PAST), ValueError, "past_value is given alone"),
    "past shape": (
        call(past_key=PAST[:1], past_value=PAST),
        ValueError,
        r"past_key has shape .* it must be .* here \[2, 2, any, 8\]",
    ),
    "past lengths": (
        call(past_key=PAST, past_value=PAST[:, :, :3]),
        ValueError,
        "past_key has 7 keys but past_value 3",
    ),
    "past dtype": (
        call(past_key=PAST.astype(np.float64), past_value=PAST),
        ValueError,
        "past_key has dtype float64 but K float32",
    ),
    # attn_mask
    "mask dtype": (
        call(Q, K, K, np.ones((3, 5), complex)),
        ValueError,
        "attn_mask has dtype complex128; it must be bool",
    ),
    "mask no array": (call(Q, K, K, [True]), TypeError, "attn_mask is of type list"),
    "mask shape": (
        masked((2, 5)),
        ValueError,
        r"attn_mask has shape \(2, 5\); .* here \[2, 4, 3, 5\], the last may be shorter",
    ),
    "mask too long": (masked((3, 6)), ValueError, r"attn_mask has shape \(3, 6\)"),
    "mask rank": (masked((1, 2, 4, 3, 5)), ValueError, "attn_mask has shape"),
    "short mask of opset 23": (
        masked((3, 4), opset=23),
        ValueError,
        r"attn_mask has shape \(3, 4\); .* here \[2, 4, 3, 5\]$",
    ),
    # nonpad_kv_seqlen
    "lengths before 24": (
        lengths([3, 3], opset=23),
        ValueError,
        "nonpad_kv_seqlen is an input of Attention from opset 24 on",
    ),
    "lengths and past": (
        lengths([3, 3], past_key=PAST, past_value=PAST),
        ValueError,
        "nonpad_kv_seqlen is given together with past_key",
    ),
    "lengths shape": (
        lengths([3]),
        ValueError,
        r"nonpad_kv_seqlen has shape \(1,\) and dtype int64; it must be \[batch\], here \[2\]",
    ),
    "lengths dtype": (lengths([3, 3], np.float32), ValueError, "and dtype float32; it must be"),
    "lengths too long": (
        lengths([3, 6]),
        ValueError,
        "nonpad_kv_seqlen has entries from 3 to 6; they must be from 0 to 5",
    ),
    "negative lengths": (lengths([-1, 3]), ValueError, "has entries from -1 to 3"),
    "lengths past the mask": (
        lengths([3, 5], attn_mask=np.ones((3, 4), bool)),
        ValueError,
        "they must be from 0 to 4, the keys that K and V have and attn_mask covers",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal(name):
    run, kind, sentence = REFUSALS[name]
    with pytest.raises(kind, match=sentence):
        run()

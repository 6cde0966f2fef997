"""tessera.flash_attn3: the signatures and what differs from flash-attn 2."""

from __future__ import annotations

import inspect

import pytest
import torch

import tessera
from definition import attention as define
from tessera import flash_attn, flash_attn3

SPEED = {"num_splits": 3, "pack_gqa": True, "deterministic": True, "sm_margin": 8}
OPTIONS = (
    "softmax_scale causal qv q_descale k_descale v_descale window_size attention_chunk softcap "
    "num_splits pack_gqa deterministic sm_margin return_attn_probs"
)
DEFAULTS = {
    "causal": False,
    "window_size": (-1, -1),
    "attention_chunk": 0,
    "softcap": 0.0,
    "num_splits": 1,
    "deterministic": False,
    "sm_margin": 0,
    "return_attn_probs": False,
    "rotary_interleaved": True,
    "return_softmax_lse": False,
}


def close(x, expected, tolerance=3e-6):
    assert x.shape == expected.shape
    assert (x.double() - expected).abs().max() <= tolerance * max(1.0, expected.abs().max())


@pytest.mark.parametrize(
    ("name", "first", "rest"),
    [
        ("flash_attn_func", "q k v", OPTIONS),
        (
            "flash_attn_varlen_func",
            "q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k",
            f"seqused_q seqused_k {OPTIONS}",
        ),
        (
            "flash_attn_qkvpacked_func",
            "qkv",
            "softmax_scale causal q_descale k_descale v_descale window_size attention_chunk "
            "softcap deterministic num_heads_q sm_margin return_attn_probs",
        ),
        (
            "flash_attn_with_kvcache",
            "q k_cache v_cache",
            "k v qv rotary_cos rotary_sin cache_seqlens cache_batch_idx cache_leftpad page_table "
            "cu_seqlens_q cu_seqlens_k_new max_seqlen_q rotary_seqlens q_descale k_descale "
            "v_descale softmax_scale causal window_size attention_chunk softcap "
            "rotary_interleaved scheduler_metadata num_splits pack_gqa sm_margin "
            "return_softmax_lse",
        ),
        ("flash_attn_combine", "out_partial lse_partial", "out out_dtype"),
    ],
)
def test_signatures_are_those_of_flash_attn_3(name, first, rest):
    defaults = dict(DEFAULTS, num_splits=0) if name == "flash_attn_with_kvcache" else DEFAULTS
    parameters = inspect.signature(getattr(flash_attn3, name)).parameters.values()
    expected = [(n, inspect.Parameter.empty) for n in first.split()]
    expected += [(n, defaults.get(n)) for n in rest.split()]
    assert [(p.name, p.default) for p in parameters] == expected


def test_two_values_where_flash_attn_2_returns_three(some):
    q, k, v = some(2, 4, 4, 8), some(2, 7, 2, 8), some(2, 7, 2, 8)
    out, lse, _ = flash_attn.flash_attn_func(
        q, k, v, 0.0, 0.5, True, (3, 0), 2.0, return_attn_probs=True
    )
    result = flash_attn3.flash_attn_func(
        q, k, v, 0.5, True, window_size=(3, 0), softcap=2.0, return_attn_probs=True, **SPEED
    )
    assert len(result) == 2
    assert torch.equal(result[0], out)
    assert torch.equal(result[1], lse)
    alone = flash_attn3.flash_attn_func(q, k, v, 0.5, True, window_size=(3, 0), softcap=2.0)
    assert torch.equal(alone, out)


def test_packed_heads(some):
    qkv, three = some(2, 5, 8, 8), some(2, 5, 3, 4, 8)
    q, k, v = qkv.split([4, 2, 2], 2)
    found = flash_attn3.flash_attn_qkvpacked_func(qkv, causal=True, num_heads_q=4)
    assert torch.equal(found, flash_attn3.flash_attn_func(q, k, v, causal=True))
    found = flash_attn3.flash_attn_qkvpacked_func(three, causal=True)
    assert torch.equal(found, flash_attn3.flash_attn_func(*three.unbind(2), causal=True))
    with pytest.raises(ValueError, match="num_heads_q is None"):
        flash_attn3.flash_attn_qkvpacked_func(qkv)


def test_a_second_part_of_the_queries_and_its_gradients(some):
    tensors = some(2, 4, 4, 8), some(2, 7, 2, 8), some(2, 7, 2, 6), some(2, 4, 4, 6)
    q, k, v, qv = (x.requires_grad_() for x in tensors)
    out = flash_attn3.flash_attn_func(q, k, v, causal=True, qv=qv)
    twins = [x.detach().double().requires_grad_() for x in tensors]
    both_q, both_k = torch.cat([twins[0], twins[3]], -1), torch.cat([twins[1], twins[2]], -1)
    expected, _ = define(both_q, both_k, twins[2], causal=True, offset=3)
    close(out, expected)
    weights = some(*out.shape)
    found = torch.autograd.grad((out * weights).sum(), (q, k, v, qv))
    for x, y in zip(found, torch.autograd.grad((expected * weights).sum(), twins)):
        close(x, y, 1e-5)


def test_rows_in_use(some):
    q, k = some(7, 4, 8), some(9, 2, 8)
    cu_q, cu_k, used_q, used_k = (
        torch.tensor(x, dtype=torch.int32) for x in ([0, 3, 7], [0, 4, 9], [2, 3], [4, 2])
    )
    out, lse = flash_attn3.flash_attn_varlen_func(
        q, k, k, cu_q, cu_k, 4, 5, used_q, used_k, causal=True, return_attn_probs=True
    )
    for begin, at, n, m in ((0, 0, 2, 4), (3, 4, 3, 2)):
        keys = k[None, at : at + m].double()
        expected, expected_lse = define(
            q[None, begin : begin + n].double(), keys, keys, causal=True, offset=m - n
        )
        close(out[begin : begin + n], expected[0])
        finite = expected_lse[0].isfinite()
        found = lse[:, begin : begin + n]
        assert torch.equal(found.isfinite(), finite)
        close(found[finite], expected_lse[0][finite])
    assert (out[[2, 6]] == 0).all()


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_combine_is_the_merge_of_parts(some, dtype):
    q, k, v = some(2, 4, 4, 8), some(2, 9, 2, 8), some(2, 9, 2, 8)
    parts = [
        tessera.attention(q, k[:, a:b], v[:, a:b], return_lse=True)
        for a, b in ((0, 3), (3, 3), (3, 9))
    ]
    out, lse = flash_attn3.flash_attn_combine(
        torch.stack([o for o, _ in parts]),
        torch.stack([s.transpose(1, 2) for _, s in parts]),
        out_dtype=dtype,
    )
    whole, whole_lse = tessera.attention(q, k, v, return_lse=True)
    assert out.dtype == (dtype or torch.float32)
    close(out, whole.double(), 3e-6 if dtype is None else 8e-3)
    close(lse, whole_lse.transpose(1, 2).double())


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ({"k_descale": torch.ones(1, 2)}, "k_descale is given; the library has no 8-bit tensors"),
        ({"attention_chunk": 4}, "attention_chunk is 4; chunks are not available"),
    ],
)
def test_what_is_not_there_is_refused(some, option, sentence):
    q, cu = some(1, 4, 2, 8), torch.tensor([0, 4])
    with pytest.raises(NotImplementedError, match=sentence):
        flash_attn3.flash_attn_func(q, q, q, **option)
    with pytest.raises(NotImplementedError, match=sentence):
        flash_attn3.flash_attn_varlen_func(q[0], q[0], q[0], cu, cu, 4, 4, **option)
    with pytest.raises(NotImplementedError, match=sentence):
        flash_attn3.flash_attn_with_kvcache(q, q, q, **option)

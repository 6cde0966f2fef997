"""tessera.flash_attn against the definition in float64, and its signatures."""

from __future__ import annotations

import inspect
import itertools

import numpy as np
import pytest
import torch

from definition import attention as define
from definition import wide
from tessera import flash_attn

TOLERANCE = {torch.float32: 3e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
DENSE = [
    ("dropout_p", 0.0),
    ("softmax_scale", None),
    ("causal", False),
    ("window_size", (-1, -1)),
    ("softcap", 0.0),
    ("alibi_slopes", None),
    ("deterministic", False),
    ("return_attn_probs", False),
]
CACHE = "k v rotary_cos rotary_sin cache_seqlens cache_batch_idx cache_leftpad block_table"
REQUIRED = inspect.Parameter.empty


def close(x, expected, tolerance=3e-6):
    x, expected = x.detach().double(), expected.detach().double()
    assert x.shape == expected.shape
    finite = expected.isfinite()
    torch.testing.assert_close(x[~finite], expected[~finite], rtol=0, atol=0)
    size = max(1.0, float(expected[finite].abs().max())) if finite.any() else 1.0
    torch.testing.assert_close(x[finite], expected[finite], rtol=0, atol=tolerance * size)


def defined(q, k, v, **options):
    """(out, lse) by the definition, with flash-attn's bottom-right diagonal."""
    given = {name: wide(x) for name, x in options.items()}
    return define(wide(q), wide(k), wide(v), offset=k.shape[1] - q.shape[1], **given)


@pytest.mark.parametrize(
    ("name", "first", "rest"),
    [
        ("flash_attn_func", "q k v", DENSE),
        ("flash_attn_qkvpacked_func", "qkv", DENSE),
        ("flash_attn_kvpacked_func", "q kv", DENSE),
        (
            "flash_attn_varlen_func",
            "q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k",
            [*DENSE, ("block_table", None)],
        ),
        ("flash_attn_varlen_qkvpacked_func", "qkv cu_seqlens max_seqlen", DENSE),
        (
            "flash_attn_varlen_kvpacked_func",
            "q kv cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k",
            DENSE,
        ),
        (
            "flash_attn_with_kvcache",
            "q k_cache v_cache",
            [
                *((name, None) for name in CACHE.split()),
                *DENSE[1:5],
                ("rotary_interleaved", True),
                ("alibi_slopes", None),
                ("num_splits", 0),
                ("return_softmax_lse", False),
            ],
        ),
    ],
)
def test_signatures_are_those_of_flash_attn_2(name, first, rest):
    parameters = inspect.signature(getattr(flash_attn, name)).parameters.values()
    expected = [*((n, REQUIRED) for n in first.split()), *rest]
    assert [(p.name, p.default) for p in parameters] == expected
    assert all(p.kind == inspect.Parameter.POSITIONAL_OR_KEYWORD for p in parameters)


BANDS = [(c, w) for c in (False, True) for w in ((-1, -1), (2, 0), (1, 3), (None, 1), (3, -1))]


@pytest.mark.parametrize(("lq", "lk"), [(5, 5), (3, 8), (7, 2)])
@pytest.mark.parametrize(("causal", "window"), BANDS)
def test_bands_end_at_the_bottom_right(some, lq, lk, causal, window):
    q, k, v = some(2, lq, 4, 8), some(2, lk, 2, 8), some(2, lk, 2, 8)
    result = flash_attn.flash_attn_func(
        q, k, v, causal=causal, window_size=window, return_attn_probs=True
    )
    out, lse, s_dmask = result
    expected, expected_lse = defined(q, k, v, causal=causal, window=window)
    close(out, expected)
    close(lse, expected_lse)
    assert s_dmask.numel() == 0
    alone = flash_attn.flash_attn_func(q, k, v, 0.0, None, causal, window)
    assert torch.equal(alone, out)


def test_rows_without_keys_are_zero_and_minus_infinity(some):
    q, k = some(1, 5, 2, 8), some(1, 2, 2, 8)
    out, lse, _ = flash_attn.flash_attn_func(q, k, k, causal=True, return_attn_probs=True)
    assert (out[:, :3] == 0).all()
    assert (lse[:, :, :3] == -np.inf).all()
    assert lse[:, :, 3:].isfinite().all()


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("slopes", [None, (4,), (2, 4)])
@pytest.mark.parametrize(("scale", "softcap"), [(None, 0.0), (0.25, 2.0), (1.0, 0.0)])
def test_scores(some, dtype, slopes, scale, softcap):
    q, k, v = (some(2, n, h, 16).to(dtype) for n, h in ((4, 4), (9, 2), (9, 2)))
    alibi = None if slopes is None else some(*slopes).abs()
    result = flash_attn.flash_attn_func(
        q, k, v, 0.0, scale, True, (6, 0), softcap, alibi, True, True
    )
    expected = defined(
        q, k, v, scale=scale, causal=True, window=(6, 0), softcap=softcap, alibi=alibi
    )
    assert result[0].dtype == dtype
    assert result[1].dtype == torch.float32
    close(result[0], expected[0], TOLERANCE[dtype])
    close(result[1], expected[1], 3e-6)


def gradients(out, weights, *of):
    return torch.autograd.grad((out * weights).sum(), of)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window_size": (2, 1)}])
def test_gradients_are_those_of_the_definition(some, options):
    q, k, v = (x.requires_grad_() for x in (some(2, 4, 4, 8), some(2, 7, 2, 8), some(2, 7, 2, 8)))
    slopes, weights = some(4).abs(), some(2, 4, 4, 8)
    out = flash_attn.flash_attn_func(q, k, v, softcap=3.0, alibi_slopes=slopes, **options)
    found = gradients(out, weights, q, k, v)
    twins = [x.detach().double().requires_grad_() for x in (q, k, v)]
    names = {n.replace("_size", ""): x for n, x in options.items()}
    expected, _ = define(*twins, softcap=3.0, alibi=slopes.double(), offset=3, **names)
    for x, y in zip(found, gradients(expected, weights.double(), *twins)):
        close(x, y, 1e-5)


def test_packed_tensors_are_the_separate_ones(some):
    qkv = some(2, 6, 3, 4, 8).requires_grad_()
    kv = some(2, 9, 2, 2, 8).requires_grad_()
    options = {"causal": True, "window_size": (4, 0), "return_attn_probs": True}
    for packed, whole, parts in (
        (flash_attn.flash_attn_qkvpacked_func(qkv, **options), qkv, qkv.unbind(2)),
        (
            flash_attn.flash_attn_kvpacked_func(qkv[:, :, 0], kv, **options),
            kv,
            (qkv[:, :, 0], *kv.unbind(2)),
        ),
    ):
        separate = flash_attn.flash_attn_func(*parts, **options)
        for x, y in zip(packed, separate):
            assert torch.equal(x, y)
        weights = some(*packed[0].shape)
        (found,) = gradients(packed[0], weights, whole)
        (expected,) = gradients(separate[0], weights, whole)
        assert torch.equal(found, expected)
    with pytest.raises(ValueError, match=r"qkv has shape .* 3, heads, head_dim"):
        flash_attn.flash_attn_qkvpacked_func(kv)


# ---- Packed sequences ----------------------------------------------------------------------------

LENGTHS = ((3, 5), (4, 2), (0, 3), (2, 2))  # queries and keys of each


def offsets(side, dtype=torch.int32):
    return torch.tensor([0, *itertools.accumulate(n[side] for n in LENGTHS)], dtype=dtype)


def each_sequence(q, k, v, **options):
    """(out, lse) of packed sequences, one after the other by the definition."""
    parts, at_q, at_k = [], offsets(0).tolist(), offsets(1).tolist()
    for b in range(len(LENGTHS)):
        rows, keys = slice(*at_q[b : b + 2]), slice(*at_k[b : b + 2])
        parts.append(defined(q[None, rows], k[None, keys], v[None, keys], **options))
    return torch.cat([o[0] for o, _ in parts]), torch.cat([s[0] for _, s in parts], 1)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(("causal", "window"), BANDS[::3])
def test_varlen(some, dtype, causal, window):
    q, k, v = some(9, 4, 8), some(12, 2, 8), some(12, 2, 8)
    arguments = (offsets(0, dtype), offsets(1, dtype), torch.tensor(4), 5)
    options = {"causal": causal, "window_size": window, "softcap": 2.0, "return_attn_probs": True}
    out, lse, s_dmask = flash_attn.flash_attn_varlen_func(q, k, v, *arguments, **options)
    expected, expected_lse = each_sequence(q, k, v, causal=causal, window=window, softcap=2.0)
    close(out, expected)
    assert lse.shape == (4, 9)
    close(lse, expected_lse)
    assert s_dmask.numel() == 0
    packed = flash_attn.flash_attn_varlen_kvpacked_func(
        q, torch.stack([k, v], 1), *arguments, **options
    )
    assert torch.equal(packed[0], out)


def test_varlen_qkv_and_its_gradients(some):
    qkv, cu = some(9, 3, 2, 8).requires_grad_(), offsets(0)
    out = flash_attn.flash_attn_varlen_qkvpacked_func(qkv, cu, 4, causal=True)
    weights = some(9, 2, 8)
    (found,) = gradients(out, weights, qkv)
    twin = qkv.detach().double().requires_grad_()
    at = cu.tolist()
    rows = [twin[None, a:b] for a, b in zip(at, at[1:])]
    whole = torch.cat([define(*x.unbind(2), causal=True)[0][0] for x in rows])
    close(out, whole)
    close(found, gradients(whole, weights.double(), twin)[0], 1e-5)


def test_varlen_pages(some):
    k_pages, v_pages, table = some(6, 4, 2, 8), some(6, 4, 2, 8), torch.tensor([[5, 1], [2, 0]])
    q, lengths = some(5, 4, 8), (6, 3)
    cu_q, cu_k = (torch.tensor(x, dtype=torch.int32) for x in ([0, 3, 5], [0, 6, 9]))
    out, lse, _ = flash_attn.flash_attn_varlen_func(
        *(q, k_pages, v_pages, cu_q, cu_k, 3, 6),
        causal=True,
        block_table=table.int(),
        return_attn_probs=True,
    )
    for b, rows in enumerate((slice(0, 3), slice(3, 5))):
        keys, values = (x[table[b]].flatten(0, 1)[None, : lengths[b]] for x in (k_pages, v_pages))
        expected, expected_lse = defined(q[None, rows], keys, values, causal=True)
        close(out[rows], expected[0])
        close(lse[:, rows], expected_lse[0])


# ---- Dropout -------------------------------------------------------------------------------------


def applied(s_dmask, v, p):
    """What the kept probabilities make of v."""
    kept = torch.where(s_dmask > 0, s_dmask, 0.0).double() / (1 - p)
    return torch.einsum("bhij,bjhd->bihd", kept, v.repeat_interleave(2, 2).double())


def test_dropout_follows_torchs_seed_and_tells_what_it_took(some):
    q, k, v = some(2, 5, 4, 8), some(2, 70, 2, 8), some(2, 70, 2, 8)
    options = {"dropout_p": 0.3, "causal": True, "return_attn_probs": True}
    torch.manual_seed(3)
    out, lse, s_dmask = flash_attn.flash_attn_func(q, k, v, **options)
    torch.manual_seed(3)
    again = flash_attn.flash_attn_func(q, k, v, **options)
    other = flash_attn.flash_attn_func(q, k, v, **options)
    assert torch.equal(out, again[0])
    assert not torch.equal(out, other[0])
    plain, plain_lse = defined(q, k, v, causal=True)
    close(lse, plain_lse)
    close(applied(s_dmask.abs(), v, 0), plain)
    close(out, applied(s_dmask, v, 0.3))
    dropped = (s_dmask < 0).sum() / (s_dmask != 0).sum()
    assert 0.25 < dropped < 0.35


def test_dropout_of_packed_sequences(some):
    q, k, v = some(9, 4, 8), some(12, 2, 8), some(12, 2, 8)
    out, _, s_dmask = flash_attn.flash_attn_varlen_func(
        q, k, v, offsets(0), offsets(1), 4, 6, dropout_p=0.5, return_attn_probs=True
    )
    assert s_dmask.shape == (4, 4, 4, 6)
    at_q, at_k = offsets(0).tolist(), offsets(1).tolist()
    for b, (lq, lk) in enumerate(LENGTHS):
        values = v[None, at_k[b] : at_k[b + 1]]
        expected = applied(s_dmask[b : b + 1, :, :lq, :lk], values, 0.5)[0]
        close(out[at_q[b] : at_q[b + 1]], expected)
        assert (s_dmask[b, :, lq:] == 0).all()
        assert (s_dmask[b, :, :, lk:] == 0).all()


# ---- Refusals ------------------------------------------------------------------------------------


def test_refusals_are_sentences(some):
    q, cu = some(1, 4, 2, 8), torch.tensor([0, 4])
    with pytest.raises(TypeError, match="k is of type ndarray; it must be a torch tensor"):
        flash_attn.flash_attn_func(q, q.numpy(), q)
    with pytest.raises(ValueError, match=r"q has shape \(4, 2, 8\); it must be \(batch, seqlen"):
        flash_attn.flash_attn_func(q[0], q, q)
    with pytest.raises(ValueError, match=r"q has shape .*; it must be \(total"):
        flash_attn.flash_attn_varlen_func(q, q, q, cu, cu, 4, 4)
    with pytest.raises(ValueError, match=r"window is \(-2, 0\)"):
        flash_attn.flash_attn_func(q, q, q, window_size=(-2, 0))
    table = torch.zeros(1, 1, dtype=torch.int32)
    with pytest.raises(NotImplementedError, match="not available for pages"):
        flash_attn.flash_attn_varlen_func(
            *(q[0], q, q, cu, cu, 4, 4),
            dropout_p=0.1,
            return_attn_probs=True,
            block_table=table,
        )

"""flash_attn_with_kvcache, of both generations, against the definition."""

from __future__ import annotations

import pytest
import torch

from definition import attention as define
from tessera import flash_attn, flash_attn3

HALF = 8  # pairs that rotary embedding turns, of 12


def close(x, expected, tolerance=6e-6):
    assert x.shape == expected.shape
    assert (x.double() - expected).abs().max() <= tolerance * max(1.0, expected.abs().max())


def angles(positions=64):
    angle = torch.arange(positions)[:, None] * 50.0 ** -(torch.arange(HALF) / HALF)
    return angle.cos(), angle.sin()


def turned(x, positions, interleaved):
    """x [L, H, D], row i at positions[i], by the formula."""
    cos, sin = (t.double()[positions][:, None] for t in angles())
    y = x.double().clone()
    first = slice(0, 2 * HALF, 2) if interleaved else slice(0, HALF)
    second = slice(1, 2 * HALF, 2) if interleaved else slice(HALF, 2 * HALF)
    a, b = y[..., first].clone(), y[..., second].clone()
    y[..., first], y[..., second] = a * cos - b * sin, a * sin + b * cos
    return y


def one(q, keys, values, **options):
    """(out, lse) of one sequence [L, H, D]."""
    offset = keys.shape[0] - q.shape[0]
    out, lse = define(
        q[None].double(), keys[None].double(), values[None].double(), offset=offset, **options
    )
    return out[0], lse[0]


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize(
    ("causal", "window"), [(False, (-1, -1)), (True, (-1, -1)), (False, (3, 1))]
)
def test_a_dense_cache_grows_in_place(some, causal, window, interleaved):
    q, k, v = some(2, 3, 4, 24), some(2, 3, 2, 24), some(2, 3, 2, 24)
    k_cache, v_cache = some(4, 12, 2, 24), some(4, 12, 2, 24)
    k_old, v_old = k_cache.clone(), v_cache.clone()
    rows, lengths = torch.tensor([3, 1], dtype=torch.int32), torch.tensor([5, 9], dtype=torch.int32)
    out, lse = flash_attn.flash_attn_with_kvcache(
        *(q, k_cache, v_cache, k, v, *angles(), lengths, rows),
        causal=causal,
        window_size=window,
        softcap=3.0,
        rotary_interleaved=interleaved,
        return_softmax_lse=True,
    )
    for b, (row, n) in enumerate(zip(rows.tolist(), lengths.tolist())):
        new = turned(k[b], torch.arange(n, n + 3), interleaved)
        close(k_cache[row, n : n + 3], new)
        assert torch.equal(v_cache[row, n : n + 3], v[b])
        k_old[row, n : n + 3], v_old[row, n : n + 3] = k_cache[row, n : n + 3], v[b]
        places = torch.arange(n, n + 3) if causal or window != (-1, -1) else torch.tensor([n] * 3)
        expected, expected_lse = one(
            *(turned(q[b], places, interleaved), k_old[row, : n + 3], v_old[row, : n + 3]),
            causal=causal,
            window=window,
            softcap=3.0,
        )
        close(out[b], expected)
        close(lse[b], expected_lse)
    assert torch.equal(k_cache, k_old)
    assert torch.equal(v_cache, v_old)


@pytest.mark.parametrize("given", [7, torch.tensor(7), torch.tensor([7, 7]), None])
def test_lengths_may_be_one_number(some, given):
    q, cache = some(2, 2, 4, 8), some(2, 10, 2, 8)
    found = flash_attn.flash_attn_with_kvcache(q, cache, cache, cache_seqlens=given, causal=True)
    n = 10 if given is None else 7
    for b in range(2):
        close(found[b], one(q[b], cache[b, :n], cache[b, :n], causal=True)[0])


def test_left_padding_and_alibi(some):
    q, k, cache = some(2, 2, 4, 8), some(2, 2, 2, 8), some(2, 12, 2, 8)
    slopes, starts = some(2, 4).abs(), torch.tensor([2, 0], dtype=torch.int32)
    out = flash_attn.flash_attn_with_kvcache(
        *(q, cache, cache.clone(), k, k),
        cache_seqlens=6,
        cache_leftpad=starts,
        causal=True,
        window_size=(4, 0),
        alibi_slopes=slopes,
    )
    for b in range(2):
        keys = torch.cat([cache[b, starts[b] : 6], k[b]])
        options = {"causal": True, "window": (4, 0), "alibi": slopes[b].double()}
        close(out[b], one(q[b], keys, keys, **options)[0])


def paged(some):
    """q, new k and v, pages, table and lengths of two sequences."""
    table = torch.tensor([[4, 0, 6], [1, 5, 2]], dtype=torch.int32)
    lengths = torch.tensor([3, 7], dtype=torch.int32)
    return (
        some(2, 3, 4, 24),
        some(2, 3, 2, 24),
        some(7, 4, 2, 24),
        some(7, 4, 2, 24),
        table,
        lengths,
    )


def gathered(pages, table, b, n):
    return pages[table[b].long()].flatten(0, 1)[:n]


@pytest.mark.parametrize("generation", [2, 3])
def test_pages(some, generation):
    q, k, k_pages, v_pages, table, lengths = paged(some)
    module = flash_attn if generation == 2 else flash_attn3
    pages = {"block_table" if generation == 2 else "page_table": table}
    out, lse = module.flash_attn_with_kvcache(
        *(q, k_pages, v_pages, k, k),
        rotary_cos=angles()[0],
        rotary_sin=angles()[1],
        cache_seqlens=lengths,
        causal=True,
        return_softmax_lse=True,
        **pages,
    )
    for b in range(2):
        n = int(lengths[b]) + 3
        places = torch.arange(n - 3, n)
        keys, values = (gathered(x, table, b, n) for x in (k_pages, v_pages))
        close(keys[-3:], turned(k[b], places, True))
        assert torch.equal(values[-3:], k[b])
        expected, expected_lse = one(turned(q[b], places, True), keys, values, causal=True)
        close(out[b], expected)
        close(lse[b], expected_lse)


def test_queries_that_want_gradients_get_none(some):
    q, cache = some(1, 1, 2, 8).requires_grad_(), some(1, 4, 2, 8)
    assert not flash_attn.flash_attn_with_kvcache(q, cache, cache).requires_grad


# ---- flash-attn 3 --------------------------------------------------------------------------------


@pytest.mark.parametrize("pages", [False, True])
def test_packed_queries_and_packed_new_keys(some, pages):
    _, _, k_cache, v_cache, table, lengths = paged(some)
    if not pages:
        k_cache, v_cache, table = some(2, 12, 2, 24), some(2, 12, 2, 24), None
    q, k = some(4, 4, 24), some(5, 2, 24)
    cu_q, cu_new = (torch.tensor(x, dtype=torch.int32) for x in ([0, 1, 4], [0, 2, 5]))
    rotary_first = torch.tensor([20, 30], dtype=torch.int32)
    out, lse = flash_attn3.flash_attn_with_kvcache(
        *(q, k_cache, v_cache, k, k, None, *angles(), lengths),
        page_table=table,
        cu_seqlens_q=cu_q,
        cu_seqlens_k_new=cu_new,
        rotary_seqlens=rotary_first,
        causal=True,
        return_softmax_lse=True,
    )
    for b, (rows, new) in enumerate(((slice(0, 1), slice(0, 2)), (slice(1, 4), slice(2, 5)))):
        n, first, count = int(lengths[b]) + new.stop - new.start, int(rotary_first[b]), len(q[rows])
        caches = (k_cache, v_cache)
        keys, values = (gathered(x, table, b, n) if pages else x[b, :n] for x in caches)
        places = first + torch.arange(new.stop - new.start)
        close(keys[int(lengths[b]) :], turned(k[new], places, True))
        assert torch.equal(values[int(lengths[b]) :], k[new])
        queries = turned(q[rows], first + torch.arange(count), True)
        expected, expected_lse = one(queries, keys, values, causal=True)
        close(out[rows], expected)
        close(lse[:, rows], expected_lse)


def test_queries_with_a_part_for_values(some):
    q, qv, k_cache, v_cache = some(2, 2, 4, 8), some(2, 2, 4, 6), some(2, 9, 2, 8), some(2, 9, 2, 6)
    out = flash_attn3.flash_attn_with_kvcache(
        q, k_cache, v_cache, qv=qv, cache_seqlens=7, causal=True
    )
    for b in range(2):
        values = v_cache[b, :7]
        both = torch.cat([k_cache[b, :7], values], -1)
        close(out[b], one(torch.cat([q[b], qv[b]], -1), both, values, causal=True)[0])


# ---- Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"v": None}, "k is given without v"),
        ({"cache_seqlens": None}, "k is given without cache_seqlens"),
        ({"rotary_sin": None}, "one of rotary_cos and rotary_sin is missing"),
        ({"k": None, "v": None}, "rotary_cos is given without k and v"),
        (
            {"cache_seqlens": torch.tensor([3, 6])},
            "sequence 1 has 6 keys and 3 new ones, but .* room for 8",
        ),
        ({"softmax_scale": -1.0}, "scale"),
        ({"alibi_slopes": torch.ones(3)}, "alibi"),
        ({"rotary_cos": torch.ones(2, 4)}, "cos|position"),
    ],
)
def test_a_refused_call_leaves_the_cache_alone(some, change, sentence):
    q, k, k_cache, v_cache = (
        some(2, 3, 4, 24),
        some(2, 3, 2, 24),
        some(2, 8, 2, 24),
        some(2, 8, 2, 24),
    )
    before = k_cache.clone(), v_cache.clone()
    arguments = {"k": k, "v": k, "rotary_cos": angles()[0], "rotary_sin": angles()[1]}
    arguments.update(cache_seqlens=torch.tensor([3, 5]), causal=True)
    flash_attn.flash_attn_with_kvcache(q, k_cache.clone(), v_cache.clone(), **arguments)
    with pytest.raises(ValueError, match=sentence):
        flash_attn.flash_attn_with_kvcache(q, k_cache, v_cache, **{**arguments, **change})
    assert torch.equal(k_cache, before[0])
    assert torch.equal(v_cache, before[1])


def test_packed_new_keys_that_do_not_fit_leave_the_cache_alone(some):
    cache, k, lengths = some(2, 8, 2, 8), some(5, 2, 8), torch.tensor([3, 6])
    before, cu = cache.clone(), torch.tensor([0, 2, 5])
    with pytest.raises(ValueError, match="sequence 1 has 6 keys and 3 new ones"):
        flash_attn3.flash_attn_with_kvcache(
            *(some(2, 1, 2, 8), cache, cache.clone(), k, k),
            cache_seqlens=lengths,
            cu_seqlens_k_new=cu,
        )
    assert torch.equal(cache, before)

"""tessera.torch.scaled_dot_product_attention against torch's in float64."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from hypothesis import given
from hypothesis import strategies as st

import tessera.torch

ours = tessera.torch.scaled_dot_product_attention
TOLERANCE = {torch.float32: 3e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float64: 1e-6}
LAYOUTS = ("dense", "transposed", "sliced", "expanded")


@st.composite
def laid_out(draw, x):
    """x in memory that lies differently; expanded: every leading dimension repeats the first."""
    how = draw(st.sampled_from(LAYOUTS))
    if how == "transposed" and x.dim() > 2:
        return x.transpose(-2, -3).contiguous().transpose(-2, -3)
    if how == "sliced":
        memory = torch.full((*x.shape[:-1], 2 * x.shape[-1]), torch.nan, dtype=x.dtype)
        memory[..., ::2] = x
        return memory[..., ::2]
    if how == "expanded" and x.dim() > 2:
        return x[:1].expand(x.shape)
    return x


@st.composite
def masks(draw, lead, lq, lk, dtype, generator):
    """A mask of a shape that broadcasts, or none; some rows see no key."""
    kind = draw(st.sampled_from([None, torch.bool, torch.float32, dtype]))
    if kind is None:
        return None
    rank = draw(st.integers(0, len(lead)))
    shape = [draw(st.sampled_from([1, n])) for n in lead[len(lead) - rank :]]
    shape += [draw(st.sampled_from([1, lq])), draw(st.sampled_from([1, lk]))]
    seen = torch.rand(shape, generator=generator) < 0.7
    if draw(st.booleans()):
        seen[..., 0, :] = False
    if kind == torch.bool:
        return seen
    values = torch.randn(shape, generator=generator).to(kind)
    return values.masked_fill(~seen, -torch.inf)


@st.composite
def calls(draw):
    """(query, key, value, mask) and keywords."""
    dtype = draw(st.sampled_from(list(TOLERANCE)))
    lead = draw(st.lists(st.integers(1, 3), min_size=0, max_size=3))
    lq, lk = draw(st.integers(1, 9)), draw(st.integers(0, 40))
    dim, value_dim = draw(st.sampled_from([1, 4, 17])), draw(st.sampled_from([1, 8]))
    gqa = bool(lead) and draw(st.booleans())
    group = draw(st.integers(1, 3)) if gqa else 1
    lead_q = [*lead[:-1], lead[-1] * group] if gqa else lead
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))

    def some(*shape):
        return draw(laid_out(torch.randn(shape, generator=generator).to(dtype)))

    # Without gqa, any leading dimension may be 1; with it, all but that of the heads.
    own = [draw(st.sampled_from([1, n])) for n in lead]
    if gqa:
        own[-1] = lead[-1]
    tensors = some(*lead_q, lq, dim), some(*own, lk, dim), some(*lead, lk, value_dim)
    mask = draw(masks(lead_q, lq, lk, dtype, generator))
    options = {
        "is_causal": mask is None and draw(st.booleans()),
        "scale": draw(st.sampled_from([None, 0.0, 0.3125, -0.5])),
        "enable_gqa": gqa,
    }
    return (*tensors, mask), options


def expected_of(query, key, value, mask, options):
    """torch's answer in float64, by its documented formula, and gradients are torch's."""
    lq, lk = query.shape[-2], key.shape[-2]
    if options["enable_gqa"]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    scale = options["scale"]
    s = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    seen = torch.ones(lq, lk, dtype=torch.bool)
    if options["is_causal"]:
        seen = seen.tril()
    if mask is not None:
        seen = seen & (mask if mask.dtype == torch.bool else mask != -torch.inf)
        s = s if mask.dtype == torch.bool else s + mask
    some = seen.any(-1, keepdim=True)
    p = torch.softmax(torch.where(some, s.masked_fill(~seen, -torch.inf), 0.0), -1)
    return torch.where(some, p, 0.0) @ value


@given(calls())
def test_results_and_gradients(call):
    tensors, options = call
    query, _, _, mask = tensors
    floats = [x for x in tensors if x is not None and x.is_floating_point()]
    leaves = [x.detach().clone().requires_grad_() for x in floats]
    theirs = [x.detach().double().requires_grad_() for x in floats]
    rest = [] if len(leaves) == 4 else [mask]
    out, expected = ours(*leaves, *rest, **options), expected_of(*theirs, *rest, options)
    assert (out.dtype, out.shape) == (query.dtype, expected.shape)
    tolerance = TOLERANCE[query.dtype]

    def close(found, wanted, tolerance):
        size = max(1.0, wanted.abs().max().item() if wanted.numel() else 0.0)
        error = (found.double() - wanted).abs().max().item() if wanted.numel() else 0.0
        assert error <= tolerance * size, f"misses by {error} of {size}"

    close(out.detach(), expected.detach(), tolerance)
    with torch.no_grad():
        assert torch.equal(ours(*tensors[:3], mask, **options), out)
    d_out = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out.dtype)
    found = torch.autograd.grad(out, leaves, d_out)
    wanted = torch.autograd.grad(expected, theirs, d_out.double())
    size = max(1.0, *(x.abs().max().item() for x in wanted if x.numel()))
    for x, leaf, w in zip(found, leaves, wanted):
        assert (x.dtype, x.shape) == (leaf.dtype, leaf.shape)
        close(x / size, w / size, 10 * tolerance)


@pytest.mark.parametrize("mask", [None, torch.rand(5, 7) < 0.5, torch.zeros(5, 7)])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_memory_of_the_result_lies_as_torchs(mask, transposed):
    q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8)
    if transposed:
        q = torch.randn(2, 5, 4, 8).transpose(1, 2)
    expected = functional.scaled_dot_product_attention(q, k, k, mask)
    assert ours(q, k, k, mask).stride() == expected.stride()
    assert ours(q.clone().requires_grad_(), k, k, mask).stride() == expected.stride()


def test_dropout_follows_torchs_generator():
    q, v = torch.zeros(1, 2, 64, 4), torch.eye(64).expand(1, 2, 64, 64)
    torch.manual_seed(5)
    first, second = ours(q, q, v, dropout_p=0.25), ours(q, q, v, dropout_p=0.25)
    torch.manual_seed(5)
    again = ours(q, q, v, dropout_p=0.25)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert abs((first != 0).double().mean().item() - 0.75) < 0.02
    np.testing.assert_allclose(first[first != 0], 1 / 64 / 0.75, rtol=1e-6)
    assert (ours(q, q, v, dropout_p=1.0) == 0).all()


def test_a_finite_mask_never_hides():
    q, v = torch.zeros(1, 1, 1, 4, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    low = torch.full((1, 2), torch.finfo(torch.float64).min, dtype=torch.float64)
    np.testing.assert_allclose(ours(q, q.expand(1, 1, 2, 4), v[None, None], low), 0.5)


SIXTEEN = torch.ones(1, 2, 3, 4, dtype=torch.bfloat16)
ONES = torch.ones(1, 2, 3, 4)
REFUSED = {
    "dtypes": (
        (ONES, SIXTEEN, ONES), {}, RuntimeError,
        "query, key and value have dtypes torch.float32, torch.bfloat16 and torch.float32; they "
        "must share one: convert them",
    ),
    "mask dtype": (
        (ONES, ONES, ONES, torch.ones(3, 3, dtype=torch.int64)), {}, RuntimeError,
        "attn_mask has dtype torch.int64; it must be bool, float32 or query's dtype, "
        "torch.float32: convert it",
    ),
    "mask and causal": (
        (ONES, ONES, ONES, torch.ones(3, 3, dtype=torch.bool)), {"is_causal": True}, RuntimeError,
        "attn_mask and is_causal are both given; pass one of them: combine the two in a mask",
    ),
    "one dimension": (
        (torch.ones(4), ONES, ONES), {}, RuntimeError,
        "query has shape (4,); it must be [..., length, dim]: at least two dimensions",
    ),
    "heads without gqa": (
        (torch.ones(1, 4, 3, 4), ONES, ONES), {}, RuntimeError,
        "query, key and value have shapes (1, 4, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4); all dimensions "
        "but the last two must be equal or 1 (enable_gqa lets heads of query share one of key and "
        "value)",
    ),
    "heads with gqa": (
        (torch.ones(1, 5, 3, 4), ONES, ONES), {"enable_gqa": True}, RuntimeError,
        "query has 5 heads, key 2 and value 2; with enable_gqa those of key and value must divide "
        "those of query",
    ),
    "batches with gqa": (
        (torch.ones(3, 2, 3, 4), torch.ones(2, 2, 3, 4), ONES), {"enable_gqa": True}, RuntimeError,
        "query, key and value have shapes (3, 2, 3, 4), (2, 2, 3, 4), (1, 2, 3, 4); all dimensions "
        "but the last three must be equal or 1",
    ),
    "gqa without heads": (
        (ONES[0, 0], ONES[0, 0], ONES[0, 0]), {"enable_gqa": True}, RuntimeError,
        "enable_gqa needs the dimension of heads: [..., heads, length, dim] for query, key and "
        "value",
    ),
    "lengths": ((ONES, ONES, torch.ones(1, 2, 5, 4)), {}, ValueError, "v has "),
    "mask shape": ((ONES, ONES, ONES, torch.ones(3, 5)), {}, ValueError, "bias has "),
    "dropout": ((ONES, ONES, ONES), {"dropout_p": 1.5}, ValueError, "dropout_p is 1.5"),
    "scale": ((ONES, ONES, ONES), {"scale": float("inf")}, ValueError, "scale is inf"),
    "integers": ((ONES.int(), ONES.int(), ONES.int()), {}, ValueError, "q is int32; it must be "),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    tensors, options, exception, sentence = REFUSED[name]
    with pytest.raises(exception, match=re.escape(sentence)):
        ours(*tensors, **options)


def test_heads_of_key_and_value_may_differ():
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 2, 7, 6)
    expected = functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    torch.testing.assert_close(ours(q, k, v, enable_gqa=True), expected)


def slopes(tensors, causal=False):
    """The gradients of a loss."""
    return torch.autograd.grad(ours(*tensors, is_causal=causal).square().sum(), tensors)


@pytest.mark.parametrize("causal", [False, True])
def test_saved_tensors_may_be_moved_by_hooks(causal):
    tensors = [torch.randn(1, 2, 5, 4).requires_grad_() for _ in range(3)]
    expected = slopes(tensors, causal)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x):
        found = slopes(tensors, causal)
    assert all(torch.equal(x, y) for x, y in zip(found, expected))


def test_one_gradient_alone():
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    expected = slopes([x.clone().requires_grad_() for x in (q, k, v)])
    for i in range(3):
        tensors = [x.clone().requires_grad_(i == j) for j, x in enumerate((q, k, v))]
        ours(*tensors).square().sum().backward()
        assert torch.equal(tensors[i].grad, expected[i])
        assert all(x.grad is None for j, x in enumerate(tensors) if j != i)


def test_a_second_derivative_is_refused():
    x = torch.randn(1, 2, 5, 4, requires_grad=True)
    (slope,) = torch.autograd.grad(ours(x, x, x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="a second derivative of tessera's attention"):
        slope.sum().backward()


def test_tensors_that_are_not_what_their_memory_says():
    x = torch.randn(1, 2, 5, 4)
    negated = torch.randn(1, 2, 5, 4, dtype=torch.complex64).conj().imag
    assert ours(x, x, x).shape == x.shape
    with pytest.raises(ValueError, match="k is a negated view"):
        ours(x, negated, x)
    with pytest.raises(ValueError, match="k lies on the device 'meta'"):
        ours(x, x.to("meta"), x)

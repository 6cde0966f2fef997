"""tessera.attention_backward against torch's float64 autograd of the definition."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given

import tessera
from cases import TOLERANCE, calls, definition_of
from definition import attention as define
from definition import wide

NAMES = {"dq": "q", "dk": "k", "dv": "v", "d_bias": "bias", "d_sink": "sink"}


def autograd(q, k, v, options, d_out, d_lse):
    """Gradients of <d_out, out> + <d_lse, lse> by name, in float64."""
    leaves = {"q": wide(q), "k": wide(k), "v": wide(v)}
    leaves.update({n: wide(options[n]) for n in ("bias", "sink") if n in options})
    leaves = {n: x.clone().requires_grad_() for n, x in leaves.items()}
    rest = {n: wide(x) for n, x in options.items() if n not in leaves}
    out, lse = define(**leaves, **rest)
    finite = torch.isfinite(lse)
    loss = (out * wide(d_out)).sum() + (lse[finite] * wide(d_lse)[finite]).sum()
    if not loss.requires_grad:
        return {n: np.zeros(x.shape) for n, x in leaves.items()}
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return {
        n: np.zeros(x.shape) if g is None else g.numpy() for (n, x), g in zip(leaves.items(), found)
    }


def check(gradients, expected, tolerance):
    """Each gradient, relative to the largest entry of any: small ones are what is left of sums."""
    size = max(1.0, *(np.abs(x).max(initial=0.0) for x in expected.values()))
    for name, of in NAMES.items():
        found = getattr(gradients, name)
        assert (found is not None) == (of in expected)
        if found is None:
            continue
        assert tuple(found.shape) == expected[of].shape
        error = np.abs(np.asarray(wide(found)) - expected[of]).max(initial=0.0)
        assert error <= tolerance * size, f"{name} misses by {error} of {size}"


@given(calls())
def test_gradients_are_those_of_the_definition(call):
    q, k, v, options, offset = call
    generator = np.random.default_rng(3)
    out, lse = tessera.attention(q, k, v, return_lse=True, **options)
    d_out = generator.standard_normal(out.shape).astype(q.dtype)
    d_lse = generator.standard_normal(lse.shape).astype(lse.dtype)
    wanted = [n for n, of in NAMES.items() if of in ("q", "k", "v") or of in options]
    gradients = tessera.attention_backward(
        d_out, q, k, v, out, lse, d_lse=d_lse, wanted=wanted, **options
    )
    assert gradients.dq.dtype == q.dtype
    expected = autograd(q, k, v, definition_of(options, offset), d_out, d_lse)
    tolerance = 5 * TOLERANCE[q.dtype.name]
    if q.dtype == np.float64 and "sink" in options:
        tolerance = 1e-6  # d_sink has the dtype of the sink, float32
    check(gradients, expected, tolerance)


def test_torch_and_numpy_give_the_same_bits(draw):
    q, k, v, bias = draw(2, 5, 4, 8), draw(2, 7, 2, 8), draw(2, 7, 2, 6), draw(5, 7)
    out, lse = tessera.attention(q, k, v, bias=bias, return_lse=True)
    arrays = (out + 1, q, k, v, out, lse)
    wanted = ("dq", "dk", "dv", "d_bias")
    ours = tessera.attention_backward(*arrays, bias=bias, wanted=wanted)
    theirs = tessera.attention_backward(
        *map(torch.from_numpy, arrays), bias=torch.from_numpy(bias), wanted=wanted
    )
    assert ours.d_sink is theirs.d_sink is None
    for name in wanted:
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name).numpy())


def test_any_company_and_memory_of_the_caller(draw):
    q, k, v = (draw(1, 6, 2, 8).astype(ml_dtypes.bfloat16) for _ in range(3))
    out, lse = tessera.attention(q, k, v, causal=True, return_lse=True)
    d_out = draw(1, 6, 2, 8)
    alone = tessera.attention_backward(d_out, q, k, v, out, lse, wanted=["dk"], causal=True)
    assert alone.dq is None
    assert alone.dk.dtype == ml_dtypes.bfloat16
    memory = np.full((1, 2, 6, 8), 2, np.float32)
    into = tessera.Gradients(dk=memory.swapaxes(1, 2))
    added = tessera.attention_backward(
        d_out, q, k, v, out, lse, into=into, accumulate=True, causal=True
    )
    assert added.dk is into.dk
    check_rounded = (into.dk - 2).astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_allclose(check_rounded, alone.dk.astype(np.float32), rtol=1e-2, atol=1e-6)


def test_packed_sequences(draw):
    q, k, v = draw(8, 4, 8), draw(9, 2, 8), draw(9, 2, 6)
    at_q, at_k = [0, 3, 8], [0, 4, 9]
    packed = {"cu_seqlens_q": at_q, "cu_seqlens_k": at_k, "causal": True, "align": "bottom_right"}
    out, lse = tessera.attention(q, k, v, return_lse=True, **packed)
    d_out, d_lse = draw(8, 4, 6), draw(4, 8)
    found = tessera.attention_backward(d_out, q, k, v, out, lse, d_lse=d_lse, **packed)
    for b in range(2):
        rows, keys = slice(at_q[b], at_q[b + 1]), slice(at_k[b], at_k[b + 1])
        options = {"causal": True, "offset": (at_k[b + 1] - at_k[b]) - (at_q[b + 1] - at_q[b])}
        one = (q[None, rows], k[None, keys], v[None, keys])
        expected = autograd(*one, options, d_out[None, rows], d_lse[None][:, :, rows])
        part = tessera.Gradients(found.dq[None, rows], found.dk[None, keys], found.dv[None, keys])
        check(part, expected, 1.5e-5)


@pytest.mark.parametrize("name", ["dq", "dk", "dv"])
def test_rows_and_keys_that_see_nothing_have_no_gradient(draw, name):
    q, k, v = draw(1, 4, 1, 8), draw(1, 6, 1, 8), draw(1, 6, 1, 8)
    mask = np.ones((4, 6), bool)
    mask[2] = False
    mask[:, 3] = False
    k[0, 3] = v[0, 3] = np.nan
    out, lse = tessera.attention(q, k, v, mask=mask, return_lse=True)
    found = tessera.attention_backward(np.ones_like(out), q, k, v, out, lse, mask=mask)
    x = getattr(found, name)
    assert np.isfinite(x).all()
    assert (x[0, 2 if name == "dq" else 3] == 0).all()
    assert np.abs(x[0, 1]).max() > 0

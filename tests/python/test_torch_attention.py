"""tessera.torch.attention: results and gradients against the definition in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

import tessera
import tessera.torch
from cases import TOLERANCE, calls, definition_of
from test_attention import to_torch
from test_backward import autograd

LEAVES = ("q", "k", "v", "bias", "sink")


def leaves_of(q, k, v, options):
    """The tensors of a call that have gradients, by name; and its other options."""
    tensors = {n: to_torch(x) for n, x in {"q": q, "k": k, "v": v, **options}.items()}
    leaves = {n: x.clone().requires_grad_() for n, x in tensors.items() if n in LEAVES}
    return leaves, {n: x for n, x in tensors.items() if n not in LEAVES}


@given(calls())
def test_results_and_gradients_are_those_of_the_definition(call):
    q, k, v, options, offset = call
    leaves, rest = leaves_of(q, k, v, options)
    out, lse = tessera.torch.attention(**leaves, **rest, return_lse=True)
    expected_out, expected_lse = tessera.attention(q, k, v, return_lse=True, **options)
    np.testing.assert_array_equal(out.detach().double(), expected_out.astype(np.float64))
    np.testing.assert_array_equal(lse.detach(), expected_lse)
    generator = torch.Generator().manual_seed(3)
    d_out = torch.randn(out.shape, generator=generator).to(out.dtype)
    d_lse = torch.randn(lse.shape, generator=generator).to(lse.dtype)
    found = torch.autograd.grad((out, lse), list(leaves.values()), (d_out, d_lse))
    expected = autograd(q, k, v, definition_of(options, offset), d_out, d_lse)
    size = max(1.0, *(np.abs(x).max(initial=0.0) for x in expected.values()))
    tolerance = 5 * TOLERANCE[q.dtype.name]
    if q.dtype == np.float64 and {"bias", "sink"} & set(options):
        tolerance = 1e-6  # bias and sink, and so their gradients, are float32
    for name, gradient in zip(leaves, found):
        assert gradient.dtype == leaves[name].dtype
        error = np.abs(gradient.double().numpy() - expected[name]).max(initial=0.0)
        assert error <= tolerance * size, f"d_{name} misses by {error} of {size}"


def test_only_what_requires_gradients_is_computed():
    q, k = torch.randn(1, 4, 2, 8), torch.randn(1, 4, 2, 8, requires_grad=True)
    v = torch.randn(1, 4, 2, 8)
    tessera.torch.attention(q, k, v).sum().backward()
    assert k.grad is not None
    assert q.grad is v.grad is None
    with torch.no_grad():
        assert not tessera.torch.attention(q, k, v).requires_grad


def test_a_tensor_without_gradients_is_refused():
    q = torch.randn(1, 4, 2, 8)
    slopes = torch.rand(2, requires_grad=True)
    with pytest.raises(ValueError, match=r"alibi requires gradients; .*: detach it"):
        tessera.torch.attention(q, q, q, alibi=slopes, align=0)

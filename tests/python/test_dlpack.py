"""Tensors that are neither NumPy's nor torch's: whatever has __dlpack__."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tessera


class Foreign:
    """A tensor of another library: DLPack is all that it has."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


class Old(Foreign):
    """A producer from before DLPack 1.0."""

    def __dlpack__(self):
        return self.x.__dlpack__()


@pytest.mark.parametrize("wrap", [Foreign, Old])
@pytest.mark.parametrize("inner", [np.asarray, torch.from_numpy])
def test_other_producers_give_numpy_arrays(draw, wrap, inner):
    q, k, v = draw(2, 5, 4, 8), draw(2, 7, 2, 8), draw(2, 7, 2, 6)
    bias = draw(5, 7)
    expected, expected_lse = tessera.attention(q, k, v, bias=bias, return_lse=True)
    ours = [wrap(inner(x)) for x in (q, k, v, bias)]
    out, lse = tessera.attention(*ours[:3], bias=ours[3], return_lse=True)
    assert type(out) is type(lse) is np.ndarray
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(lse, expected_lse)
    found = tessera.attention_backward(out, *ours[:3], out, lse, bias=ours[3])
    wanted = tessera.attention_backward(out, q, k, v, out, lse, bias=bias)
    np.testing.assert_array_equal(found.dk, wanted.dk)


def test_strides_and_offsets_of_producers_are_honoured(draw):
    x = torch.from_numpy(draw(2, 4, 9, 16)).transpose(1, 2)[:, 1:, :, ::2]
    expected = tessera.attention(x, x, x)
    out = tessera.attention(Foreign(x), Foreign(x), Foreign(x))
    np.testing.assert_array_equal(out, expected.numpy())


def test_bfloat16_of_a_producer(draw):
    x = torch.from_numpy(draw(1, 4, 2, 8)).bfloat16()
    out = tessera.attention(Foreign(x), Foreign(x), Foreign(x))
    assert out.dtype.name == "bfloat16"
    np.testing.assert_array_equal(
        out.astype(np.float32), tessera.attention(x, x, x).float().numpy()
    )


def test_producers_and_arrays_mix(draw):
    q, k = draw(1, 4, 2, 8), draw(1, 4, 2, 8)
    out = tessera.attention(q, Foreign(k), Foreign(k))
    np.testing.assert_array_equal(out, tessera.attention(q, k, k))


def test_dtypes_that_are_not_known(draw):
    x = Foreign(torch.zeros(1, 4, 2, 8, dtype=torch.int16))
    with pytest.raises(ValueError, match=r"q, of test_dlpack, has the DLPack type \(code 0, 16"):
        tessera.attention(x, x, x)


def test_outputs_must_be_arrays(draw):
    q = draw(1, 4, 2, 8)
    with pytest.raises(TypeError, match="an output must be a NumPy array or a torch tensor"):
        tessera.attention(q, q, q, out=Foreign(q.copy()))

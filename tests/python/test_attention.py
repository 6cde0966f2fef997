"""tessera.attention against the definition in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given

import tessera
from cases import TOLERANCE, calls, close, definition_of
from definition import kept, reference


@given(calls())
def test_numpy_calls_are_the_definition(call):
    q, k, v, options, offset = call
    out, lse = tessera.attention(q, k, v, return_lse=True, **options)
    expected, expected_lse = reference(q, k, v, **definition_of(options, offset))
    assert (out.dtype, out.shape) == (q.dtype, expected.shape)
    assert lse.dtype == (np.float64 if q.dtype == np.float64 else np.float32)
    close(out, expected, TOLERANCE[q.dtype.name])
    close(lse, expected_lse, TOLERANCE["float64" if q.dtype == np.float64 else "float32"])


def to_torch(x):
    if not isinstance(x, np.ndarray):
        return x
    if any(s < 0 for s in x.strides):
        x = x.copy()
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


@given(calls())
def test_torch_and_numpy_give_the_same_bits(call):
    q, k, v, options, _ = call
    ours = {name: to_torch(x) for name, x in options.items()}
    out, lse = tessera.attention(to_torch(q), to_torch(k), to_torch(v), return_lse=True, **ours)
    expected, expected_lse = tessera.attention(q, k, v, return_lse=True, **options)
    assert out.dtype == to_torch(q).dtype
    np.testing.assert_array_equal(out.double().numpy(), expected.astype(np.float64))
    np.testing.assert_array_equal(lse.numpy(), expected_lse)


@given(calls())
def test_a_repeated_call_gives_the_same_bits(call):
    q, k, v, options, _ = call
    first, second = (tessera.attention(q, k, v, **options) for _ in range(2))
    np.testing.assert_array_equal(first.astype(np.float64), second.astype(np.float64))


def test_calls_that_differ_in_one_scalar_are_not_taken_for_each_other(draw):
    q, k, v = draw(1, 6, 2, 8), draw(1, 6, 2, 8), draw(1, 6, 2, 8)
    for options in [{}, {"causal": True}, {"scale": 0.5}, {"softcap": 1.5}, {}, {"causal": True}]:
        close(tessera.attention(q, k, v, **options), reference(q, k, v, **options)[0], 3e-6)
    other = draw(1, 6, 2, 8)
    close(tessera.attention(other, k, v), reference(other, k, v)[0], 3e-6)


def test_a_row_without_keys_is_zero(draw):
    q, k, v = draw(1, 3, 2, 4), draw(1, 5, 2, 4), draw(1, 5, 2, 4)
    mask = np.ones((3, 5), bool)
    mask[1] = False
    out, lse = tessera.attention(q, k, v, mask=mask, return_lse=True)
    assert (out[0, 1] == 0).all()
    assert (lse[0, :, 1] == -np.inf).all()
    assert np.isfinite(lse[0, :, 0]).all()


@pytest.mark.parametrize("shape", [(0, 4, 2, 8), (1, 0, 2, 8), (1, 4, 0, 8)])
def test_empty_tensors(shape):
    for zeros in (np.zeros(shape, np.float32), torch.zeros(shape)):
        out, lse = tessera.attention(zeros, zeros, zeros, return_lse=True)
        assert tuple(out.shape) == shape
        assert tuple(lse.shape) == (shape[0], shape[2], shape[1])


def test_packed_sequences_are_each_a_call_of_its_own(draw):
    lengths_q, lengths_k = [3, 0, 5], [7, 2, 5]
    at_q, at_k = np.cumsum([0, *lengths_q]), np.cumsum([0, *lengths_k])
    q, k, v = draw(8, 4, 8), draw(14, 2, 8), draw(14, 2, 6)
    common = {"causal": True, "align": "bottom_right"}
    out, lse = tessera.attention(
        q, k, v, cu_seqlens_q=at_q, cu_seqlens_k=at_k.tolist(), return_lse=True, **common
    )
    assert (out.shape, lse.shape) == ((8, 4, 6), (4, 8))
    for b in range(3):
        rows, keys = slice(at_q[b], at_q[b + 1]), slice(at_k[b], at_k[b + 1])
        offset = lengths_k[b] - lengths_q[b]
        expected, expected_lse = reference(
            q[None, rows], k[None, keys], v[None, keys], causal=True, offset=offset
        )
        close(out[rows], expected[0], 3e-6)
        close(lse[:, rows], expected_lse[0], 3e-6)


def test_offsets_of_each_sequence(draw):
    q, k, v = draw(2, 3, 2, 8), draw(2, 6, 2, 8), draw(2, 6, 2, 8)
    out = tessera.attention(q, k, v, causal=True, align=np.array([0, 2], np.int32))
    for b, offset in enumerate([0, 2]):
        one = slice(b, b + 1)
        expected, _ = reference(q[one], k[one], v[one], causal=True, offset=offset)
        close(out[one], expected, 3e-6)


@pytest.mark.parametrize("align", [2, np.int64(2), torch.tensor(2)])
def test_an_offset_may_be_any_integer(draw, align):
    q, k, v = draw(1, 3, 2, 8), draw(1, 6, 2, 8), draw(1, 6, 2, 8)
    expected, _ = reference(q, k, v, causal=True, offset=2)
    close(tessera.attention(q, k, v, causal=True, align=align), expected, 3e-6)


def test_dropout_drops_the_same_pairs_however_sequences_lie(draw):
    seed, p = 2**40 + 17, 0.375
    q, k = np.zeros((2, 6, 2, 4), np.float32), np.zeros((2, 9, 2, 4), np.float32)
    v = np.broadcast_to(np.eye(9, dtype=np.float32)[None, :, None], (2, 9, 2, 9))
    dense = tessera.attention(q, k, v, dropout_p=p, seed=seed)
    pattern = kept((2, 2, 6, 9), p, seed)
    np.testing.assert_array_equal(dense.transpose(0, 2, 1, 3) != 0, pattern)
    packed = tessera.attention(
        q.reshape(12, 2, 4),
        k.reshape(18, 2, 4),
        v.reshape(18, 2, 9),
        cu_seqlens_q=[0, 6, 12],
        cu_seqlens_k=[0, 9, 18],
        dropout_p=p,
        seed=seed,
    )
    np.testing.assert_array_equal(packed.reshape(dense.shape), dense)
    turned = tessera.attention(q.swapaxes(1, 2).copy().swapaxes(1, 2), k, v, dropout_p=p, seed=seed)
    np.testing.assert_array_equal(turned, dense)


def test_a_state_goes_on_and_states_merge(draw):
    q, k, v = draw(2, 3, 4, 8), draw(2, 9, 2, 8), draw(2, 9, 2, 8)
    expected, expected_lse = reference(q, k, v)
    first = tessera.attention(q, k[:, :4], v[:, :4], return_lse=True)
    second = tessera.attention(q, k[:, 4:], v[:, 4:], return_lse=True)
    on, on_lse = tessera.attention(q, k[:, 4:], v[:, 4:], state=first, return_lse=True)
    merged, merged_lse = tessera.merge([first, second])
    for out, lse in ((on, on_lse), (merged, merged_lse)):
        close(out, expected, 3e-6)
        close(lse, expected_lse, 3e-6)
    given_out, given_lse = np.empty_like(expected, np.float32), np.empty((2, 4, 3), np.float32)
    again = tessera.merge([second, first], out=given_out, lse=given_lse)
    assert again[0] is given_out
    close(given_out, expected, 3e-6)
    close(given_lse, expected_lse, 3e-6)


def test_out_is_written_where_it_lies(draw):
    q = draw(1, 5, 2, 8).astype(ml_dtypes.bfloat16)
    memory = np.full((1, 2, 5, 16), 9, np.float32)
    out = memory.swapaxes(1, 2)[..., ::2]
    assert tessera.attention(q, q, q, out=out) is out
    close(out, reference(q, q, q)[0], 3e-6)
    assert (memory[..., 1::2] == 9).all()


def test_batch_invariance_and_backends(draw):
    q, k, v = draw(3, 4, 2, 8), draw(3, 50, 2, 8), draw(3, 50, 2, 8)
    whole = tessera.attention(q, k, v, batch_invariant=True)
    alone = tessera.attention(q[1:2, 2:3], k[1:2], v[1:2], batch_invariant=True)
    np.testing.assert_array_equal(whole[1:2, 2:3], alone)
    for backend in ("auto", "cpu", "reference", "standard"):
        close(tessera.attention(q, k, v, backend=backend), reference(q, k, v)[0], 3e-6)
        if backend != "auto":
            assert tessera.plan(q, k, v, backend=backend)["backend"] == backend


def test_threads_change_no_bit(draw):
    q = draw(2, 300, 4, 32)
    one, two = (tessera.attention(q, q, q, causal=True, threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_a_plan_tells_the_problem(draw):
    q, k = draw(2, 3, 4, 8), draw(2, 5, 2, 8)
    problem = tessera.plan(q, k, k, window=(4, 0), align="bottom_right", sink=draw(4))["problem"]
    assert (problem["batch"], problem["queries"], problem["keys"]) == (2, 3, 5)
    assert (problem["left"], problem["right"]) == (4, 0)
    assert problem["alignment"].replace("-", "_") == "bottom_right"
    assert "sink" in problem["options"]

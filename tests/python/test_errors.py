"""Each sentence with which the front end refuses a call, and that nothing was written then."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import tessera

Q = np.ones((1, 4, 2, 8), np.float32)
K = np.ones((1, 6, 2, 8), np.float32)
TORCH = torch.ones(1, 4, 2, 8)


def unaligned_strides():
    memory = np.zeros((1, 4, 2, 8), np.dtype([("x", np.float32), ("pad", np.uint8)]))
    return memory["x"]


REFUSALS = {
    # Tensors
    "no tensor": (lambda: tessera.attention([1.0], Q, Q), TypeError, "q is of type list; it must"),
    "masked": (
        lambda: tessera.attention(np.ma.masked_array(Q), Q, Q),
        TypeError,
        "q is a masked array",
    ),
    "strides": (
        lambda: tessera.attention(Q, unaligned_strides(), Q),
        ValueError,
        "k has strides of .* bytes, which are no multiples of its items of 4 bytes",
    ),
    "byte order": (
        lambda: tessera.attention(Q, Q, Q.astype(">f4")),
        ValueError,
        "v has dtype >f4, in the byte order of other machines",
    ),
    "numpy dtype": (
        lambda: tessera.attention(Q.astype(np.int16), Q, Q),
        ValueError,
        "q has dtype int16; it must be float32",
    ),
    "torch dtype": (
        lambda: tessera.attention(TORCH.to(torch.int16), TORCH, TORCH),
        ValueError,
        r"q has dtype torch\.int16; it must be float32",
    ),
    "libraries": (
        lambda: tessera.attention(TORCH, Q, Q),
        ValueError,
        "q is of torch but k of NumPy; all tensors of a call must be of one library",
    ),
    "libraries of options": (
        lambda: tessera.attention(Q, Q, Q, bias=torch.zeros(4, 4)),
        ValueError,
        "q is of NumPy but bias of torch",
    ),
    "libraries of outputs": (
        lambda: tessera.attention(TORCH, TORCH, TORCH, out=Q.copy()),
        ValueError,
        "q is of torch but out of NumPy",
    ),
    "gradients": (
        lambda: tessera.attention(TORCH, TORCH, TORCH.clone().requires_grad_()),
        ValueError,
        r"v requires gradients, which this function does not record; call .* tessera\.torch",
    ),
    "negated": (
        lambda: tessera.attention(TORCH, torch._neg_view(TORCH), TORCH),
        ValueError,
        "k is a negated view",
    ),
    "device": (
        lambda: tessera.attention(TORCH.to("meta"), TORCH, TORCH),
        ValueError,
        "q lies on the device 'meta'; this version computes on the CPU",
    ),
    "rank": (
        lambda: tessera.attention(Q[0], Q, Q),
        ValueError,
        r"q has shape \(4, 2, 8\); it must be \[batch, sequence, heads, dim\], or .* cu_seqlens_q",
    ),
    "rank of an option": (
        lambda: tessera.attention(Q, Q, Q, bias=np.zeros((1, 1, 1, 4, 4), np.float32)),
        ValueError,
        "bias has shape .*; at most 4 dimensions",
    ),
    # Outputs
    "read-only": (
        lambda: tessera.attention(Q, Q, Q, out=np.broadcast_to(np.float32(0), Q.shape)),
        ValueError,
        "out is marked TESSERA_READ_ONLY, but the call writes it",
    ),
    "self overlap": (
        lambda: tessera.attention(TORCH, TORCH, TORCH, out=torch.zeros(1).expand(1, 4, 2, 8)),
        ValueError,
        "out .* has several elements in the same place",
    ),
    "overlap": (lambda: tessera.attention(Q, Q, K[:, :4], out=Q), ValueError, "out overlaps q"),
    # Options
    "window": (
        lambda: tessera.attention(Q, Q, Q, window=3),
        ValueError,
        r"window is 3; it must be \(left, right\)",
    ),
    "side": (
        lambda: tessera.attention(Q, Q, Q, window=(-2, 0)),
        ValueError,
        r"window is \(-2, 0\); each side must be a count of keys",
    ),
    "align": (
        lambda: tessera.attention(Q, Q, Q, align="left"),
        ValueError,
        "align is 'left'; it must be 'top_left'",
    ),
    "align as a float": (
        lambda: tessera.attention(Q, Q, Q, align=2.0),
        ValueError,
        r"align is 2.0; it must be .* \(an integer\)",
    ),
    "align as a bool": (
        lambda: tessera.attention(Q, Q, Q, align=True),
        ValueError,
        "align is True",
    ),
    "causal as a text": (
        lambda: tessera.attention(Q, Q, Q, causal="no"),
        ValueError,
        "causal is 'no'; it must be True or False",
    ),
    "causal of a plan as a text": (
        lambda: tessera.plan(Q, Q, Q, causal="no"),
        ValueError,
        "causal is 'no'; it must be True or False",
    ),
    "a wide side": (
        lambda: tessera.attention(Q, Q, Q, window=(2**70, 0)),
        ValueError,
        r"from 0 to 2\^63 - 1",
    ),
    "lengths that are no integers": (
        lambda: tessera.attention(Q, K, K, kv_lengths=(3.7,)),
        ValueError,
        r"kv_lengths\[0\] is 3.7; a list of kv_lengths must hold integers",
    ),
    "align of 65 bits": (lambda: tessera.attention(Q, Q, Q, align=2**64), ValueError, "64 bits"),
    "causal without align": (
        lambda: tessera.attention(Q, K, K, causal=True),
        ValueError,
        "a bounded band and 4 queries but 6 keys, so the diagonal must be named",
    ),
    "window without align": (
        lambda: tessera.attention(Q, K, K, window=(2, None)),
        ValueError,
        "so the diagonal must be named",
    ),
    "scale": (lambda: tessera.attention(Q, Q, Q, scale=-1.0), ValueError, "scale is -1"),
    "scale too large": (lambda: tessera.attention(Q, Q, Q, scale=1e60), ValueError, "scale is inf"),
    "scale NaN": (lambda: tessera.attention(Q, Q, Q, scale=np.nan), ValueError, "scale is NaN"),
    "scale no number": (
        lambda: tessera.attention(Q, Q, Q, scale="x"),
        TypeError,
        "scale is of type str; it must be a number",
    ),
    "softcap": (lambda: tessera.attention(Q, Q, Q, softcap=-2), ValueError, "softcap is -2"),
    "dropout": (lambda: tessera.attention(Q, Q, Q, dropout_p=1.0), ValueError, "dropout_p is 1"),
    "seed": (
        lambda: tessera.attention(Q, Q, Q, dropout_p=0.5, seed=-1),
        ValueError,
        r"seed is -1; it must be an integer from 0 to 2\^64 - 1",
    ),
    "dropout offset": (
        lambda: tessera.attention(Q, Q, Q, dropout_p=0.5, dropout_offset=2**32),
        ValueError,
        r"dropout_offset is 4294967296; it must be an integer from 0 to 2\^32 - 1",
    ),
    "backend": (
        lambda: tessera.attention(Q, Q, Q, backend="gpu"),
        ValueError,
        "backend is 'gpu'; it must be 'auto'",
    ),
    "threads": (lambda: tessera.attention(Q, Q, Q, threads=0), ValueError, "threads is 0"),
    "many threads": (lambda: tessera.attention(Q, Q, Q, threads=5000), ValueError, "threads is"),
    "threads of 33 bits": (
        lambda: tessera.attention(Q, Q, Q, threads=2**33),
        ValueError,
        "threads is 8589934592; it must be from 1 to 1024",
    ),
    "state": (lambda: tessera.attention(Q, Q, Q, state=Q), ValueError, "state must be"),
    "shape of the library": (
        lambda: tessera.attention(Q, K, Q),
        ValueError,
        r"v has shape .*; it must be",
    ),
    "unsupported": (
        lambda: tessera.attention(Q, Q, Q, batch_invariant=True, backend="standard"),
        NotImplementedError,
        "TESSERA_BATCH_INVARIANT but backend is TESSERA_BACKEND_STANDARD",
    ),
    "unknown option": (
        lambda: tessera.plan(Q, Q, Q, casual=True),
        TypeError,
        "unknown option casual; the options are alibi",
    ),
    # Gradients
    "wanted": (
        lambda: tessera.attention_backward(Q, Q, Q, Q, Q, Q, wanted=["q"]),
        ValueError,
        "wanted has 'q'; it may have dq, dk, dv, d_bias, d_sink",
    ),
    "wanted of nothing": (
        lambda: tessera.attention_backward(Q, Q, Q, Q, Q, Q, wanted=["d_sink"]),
        ValueError,
        "d_sink is wanted, but the call has no sink",
    ),
    "accumulate": (
        lambda: tessera.attention_backward(Q, Q, Q, Q, Q, Q, accumulate=True),
        ValueError,
        "accumulate is set without into",
    ),
    "no lse": (
        lambda: tessera.attention_backward(Q, Q, Q, Q, Q, None),
        TypeError,
        "lse is of type NoneType",
    ),
    # States, rotary positions, caches
    "merge nothing": (lambda: tessera.merge([]), ValueError, "states is empty"),
    "merge rank": (lambda: tessera.merge([(Q[0, 0], Q)]), ValueError, "states.out has shape"),
    "rotate rank": (lambda: tessera.rotate(Q[0], Q, Q), ValueError, "x has shape"),
    "append rank": (
        lambda: tessera.append(Q, Q[0], Q, Q, [0]),
        ValueError,
        r"v has shape \(4, 2, 8\); it must be \[batch, sequence, heads, dim\]",
    ),
    "read-only cache": (
        lambda: tessera.append(Q, Q, np.broadcast_to(np.float32(0), (1, 9, 2, 8)), K.copy(), [0]),
        ValueError,
        "k_cache is marked TESSERA_READ_ONLY",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_each_refusal_is_a_sentence(name):
    call, exception, sentence = REFUSALS[name]
    with pytest.raises(exception, match=sentence):
        call()


def test_a_refused_call_writes_nothing():
    out = np.full(Q.shape, 7, np.float32)
    with pytest.raises(ValueError, match="diagonal"):
        tessera.attention(Q, K, K, causal=True, out=out)
    assert (out == 7).all()


def test_a_tensor_of_a_gpu_beside_others_is_refused_by_the_library():
    """The sentence of the library, by way of a tensor that says it lies there."""

    class Elsewhere:
        def __dlpack__(self, **options):
            raise BufferError("no driver")

    with pytest.raises(BufferError, match="no driver"):
        tessera.attention(Elsewhere(), Q, Q)

    from tessera import _dlpack

    view = _dlpack.view(Wrapped(Q), "k")
    view.device = (2, 0)
    with pytest.raises(ValueError, match="k has device_type 2 and device_id 0 but q has 1 and 0"):
        tessera.attention(Q, view, Q)


class Wrapped:
    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)


def test_gradients_that_are_not_recorded_are_fine_where_none_are_wanted():
    x = TORCH.clone().requires_grad_()
    with torch.no_grad():
        out = tessera.attention(x, x, x)
    assert not out.requires_grad
    assert torch.equal(out, tessera.attention(TORCH, TORCH, TORCH))


def test_writing_an_output_makes_what_autograd_saved_of_it_stale():
    out = torch.zeros_like(TORCH)
    before = out._version
    tessera.attention(TORCH, TORCH, TORCH, out=out)
    assert out._version > before


def test_read_only_inputs_are_fine():
    x = Q.copy()
    x.flags.writeable = False
    np.testing.assert_array_equal(tessera.attention(x, x, x), tessera.attention(Q, Q, Q))


def run(code, **environment):
    """A fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_missing_library_is_a_sentence():
    failed = run("import tessera", TESSERA_LIBRARY="/nowhere/libtessera.so")
    assert "ImportError: the native library of tessera was not found" in failed.stderr
    assert "set TESSERA_LIBRARY" in failed.stderr


def test_parts_are_imported_when_they_are_named():
    assert tessera.onnx.attention is importlib.import_module("tessera.onnx").attention
    with pytest.raises(AttributeError, match="has no attribute 'jax'"):
        tessera.jax  # noqa: B018


def test_importing_imports_no_array_library():
    code = "import sys, tessera; print([m for m in ('numpy', 'torch') if m in sys.modules])"
    assert run(code).stdout.strip() == "[]"


def test_info():
    told = subprocess.run(
        [sys.executable, "-m", "tessera", "info"], capture_output=True, text=True, check=True
    ).stdout
    for name in ("tessera", "library", "target", "threads", "numpy", "torch"):
        assert f"\n{name} " in "\n" + told


def test_many_threads_at_once_and_after_fork():
    expected = tessera.attention(Q, K, K)
    wrong = []

    def work():
        for _ in range(200):
            if not np.array_equal(tessera.attention(Q, K, K), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    code = (
        "import os, numpy as np, tessera\n"
        "x = np.ones((2, 300, 4, 32), np.float32); a = tessera.attention(x, x, x)\n"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(0 if np.array_equal(tessera.attention(x, x, x), a) else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    assert run(code).stdout.strip() == "0"

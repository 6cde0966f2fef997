"""Calls that are kept (_repeat.py): each property that a call has makes it another call.

A call is made until it is kept. One property is then changed, and the answer compared with that of
a process that keeps nothing; the old call comes again at the end.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode

import tessera
from repeated import arrays, is_kept, numbers, outcome, strided
from tessera import _descriptors as d

# ---- Repeated calls are right --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("names", [[n] for n in arrays("numpy", lambda *s: np.ones(s))[3]] + [None])
def test_repeated_calls_with_tensors_among_the_options(kind, names, draw, anew, monkeypatch):
    q, k, v, options = arrays(kind, draw)
    options = {name: options[name] for name in names or options}
    more = {"causal": True, "align": "top_left", **options, "return_lse": True, "window": (3, None)}

    def call(scale=1.0):
        changed = {
            n: x * type(scale)(scale) if n in ("bias", "sink") else x for n, x in more.items()
        }
        return tessera.attention(q * scale, k, v, **changed)

    call()
    assert is_kept(monkeypatch, call)
    for scale in (1.0, 2.0):  # other memory, other numbers
        assert outcome(call, scale) == anew(call, scale)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_repeated_gradients(kind, draw, anew, monkeypatch):
    q, k, v, options = arrays(kind, draw)
    more = {"causal": True, **options}
    wanted = ("d_sink", "dv", "d_bias", "dq")

    def call(scale=1.0, into=None):
        x = q * scale
        out, lse = tessera.attention(x, k, v, return_lse=True, **more)
        return tessera.attention_backward(
            out, x, k, v, out, lse, d_lse=lse, wanted=wanted, into=into, **more
        )

    first = call()
    assert first.dk is None
    assert is_kept(monkeypatch, call)
    for scale in (1.0, 2.0):
        assert outcome(call, scale) == anew(call, scale)
        given = call(scale)
        assert call(scale, given).d_bias is given.d_bias
        assert is_kept(monkeypatch, call, scale, given)
        assert numbers(given) == anew(call, scale)


def test_the_gradients_of_a_repeated_call_are_new_memory(some):
    q = some(1, 6, 2, 8)
    out, lse = tessera.attention(q, q, q, return_lse=True)
    gradients = [tessera.attention_backward(out, q, q, q, out, lse) for _ in range(3)]
    assert len({x.data_ptr() for g in gradients for x in g[:3]}) == 9


# ---- Each property is looked at ------------------------------------------------------------------


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


MUTATIONS = {
    "shape": lambda x: x[..., :1],
    "rank": lambda x: x[0],
    "no dimensions": lambda x: x.reshape(-1)[:1].reshape(()),
    "strides": strided,
    "dtype": lambda x: x.astype("float16") if isinstance(x, np.ndarray) else x.half(),
    "float64": lambda x: x.astype("float64") if isinstance(x, np.ndarray) else x.double(),
    "byte order": lambda x: x.astype(x.dtype.newbyteorder("S")),
    "read only": read_only,
    "library": lambda x: torch.from_numpy(x) if isinstance(x, np.ndarray) else x.numpy(),
    "type": lambda x: x.tolist(),
    "subclass": lambda x: (
        x.view(np.memmap) if isinstance(x, np.ndarray) else torch.nn.Parameter(x, False)
    ),
    "masked": lambda x: np.ma.masked_array(x),
    "requires_grad": lambda x: x.clone().requires_grad_(),
    "negative bit": torch._neg_view,
    "negated view": lambda x: torch.complex(x.float(), x.float()).conj().imag,
    "conjugate": lambda x: x.to(torch.complex64).conj(),
    "device": lambda x: x.to("meta"),
    "fake": lambda x: FakeTensorMode().from_tensor(x),
    "sparse": lambda x: x.to_sparse(),
}
ONLY = {
    "byte order": "numpy",
    "read only": "numpy",
    "masked": "numpy",
    "requires_grad": "torch",
    "negative bit": "torch",
    "negated view": "torch",
    "conjugate": "torch",
    "device": "torch",
    "fake": "torch",
    "sparse": "torch",
}
PLACES = ["q", "k", "v", "out", "bias", "sink", "kv_lengths"]


FAKE = "ignore:Accessing the data pointer of FakeTensor"  # said once in a process


@pytest.mark.filterwarnings(FAKE)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("property_", MUTATIONS)
@pytest.mark.parametrize("place", PLACES)
def test_a_tensor_that_differs_is_another_call(kind, place, property_, draw, anew, monkeypatch):
    if ONLY.get(property_, kind) != kind or (place, property_) == ("kv_lengths", "requires_grad"):
        pytest.skip(f"{place} of {kind} has no {property_}")
    q, k, v, options = arrays(kind, draw)
    tensors = {"q": q, "k": k, "v": v, "out": tessera.attention(q, k, v)}
    tensors |= {name: options[name] for name in ("bias", "sink", "kv_lengths")}

    def call(**changed):
        return tessera.attention(**{**tensors, **changed})

    expected = outcome(call)
    assert is_kept(monkeypatch, call)
    other = MUTATIONS[property_](tensors[place])
    found = outcome(lambda: call(**{place: other}))
    again = MUTATIONS[property_](tensors[place])
    assert found == anew(lambda: call(**{place: again}))
    assert outcome(lambda: call(**{place: other})) == found
    assert outcome(call) == expected


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("place", ["q", "k", "v", "out"])
def test_two_tensors_with_gaps_are_two_calls(kind, place, draw, anew):
    q, k, v, _ = arrays(kind, draw)
    tensors = {"q": q, "k": k, "v": v, "out": tessera.attention(q, k, v)}
    wide = np.repeat(draw(*tensors[place].shape), 4, -1)
    wide = torch.from_numpy(wide) if kind == "torch" else wide
    for step in (2, 4, 2, 4):
        changed = {**tensors, place: wide[..., : step * tensors[place].shape[-1] : step]}
        found = outcome(tessera.attention, **changed)
        assert found == anew(tessera.attention, **changed)


@pytest.mark.filterwarnings(FAKE)
@pytest.mark.parametrize("place", ["d_out", "q", "k", "v", "out", "lse", "d_lse", "into"])
@pytest.mark.parametrize("property_", MUTATIONS)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_tensor_that_differs_is_another_backward_call(
    kind, place, property_, draw, anew, monkeypatch
):
    if ONLY.get(property_, kind) != kind:
        pytest.skip(f"{kind} has no {property_}")
    q, k, v, _ = arrays(kind, draw)
    out, lse = tessera.attention(q, k, v, return_lse=True)
    tensors = {"d_out": out, "q": q, "k": k, "v": v, "out": out, "lse": lse, "d_lse": lse}

    def call(into=None, **changed):
        given = None if into is None else tessera.Gradients(dq=into)
        return tessera.attention_backward(**{**tensors, **changed}, into=given)

    place_of = {**tensors, "into": q * 0}
    base = {"into": place_of["into"]} if place == "into" else {}
    expected = outcome(lambda: call(**base))
    assert is_kept(monkeypatch, lambda: call(**base))
    other = MUTATIONS[property_](place_of[place])
    found = outcome(lambda: call(**{place: other}))
    again = MUTATIONS[property_](place_of[place])
    assert found == anew(lambda: call(**{place: again}))
    assert outcome(lambda: call(**{place: other})) == found
    assert outcome(lambda: call(**base)) == expected


SCALARS = [
    {"causal": True},
    {"causal": "False"},
    {"window": (1, 2)},
    {"window": (1.0, 2)},
    {"window": (True, 2)},
    {"window": [1, 2]},
    {"window": ()},
    {"window": (2, 1)},
    {"window": (1, 2), "causal": True},
    {"align": 1, "causal": True},
    {"align": True, "causal": True},
    {"align": 1.0, "causal": True},
    {"align": "top_left", "causal": True},
    {"align": np.array([1, 0]), "causal": True},
    {"align": np.array([0, 1]), "causal": True},
    {"align": np.int64(1), "causal": True},
    {"scale": 0.5},
    {"scale": True},
    {"scale": "0.5"},
    {"scale": np.array(0.5)},
    {"scale": float("nan")},
    {"softcap": 1.5},
    {"backend": "reference"},
    {"backend": "nonesuch"},
    {"batch_invariant": True},
    {"dropout_p": 0.5, "seed": 3},
    {"dropout_p": 0.5, "seed": 4},
    {"seed": -1},
    {"return_lse": True},
    {"threads": 0},
    {"threads": True},
    {"threads": 2.0},
    {"kv_lengths": [3, 6]},
    {"kv_starts": [3, 6]},
    {"kv_lengths": np.array([3, 6])},
    {"kv_starts": np.array([3, 6])},
    {},
]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_scalars_and_names_that_differ_are_other_calls(kind, draw, anew):
    q, k, v, _ = arrays(kind, draw)
    for _ in range(2):
        for options in SCALARS:
            if kind == "torch":
                options = {
                    n: torch.from_numpy(x) if isinstance(x, np.ndarray) else x
                    for n, x in options.items()
                }
            found = outcome(tessera.attention, q, k, v, **options)
            assert found == anew(tessera.attention, q, k, v, **options), options


def test_scalars_of_gradients_that_differ_are_other_calls(draw, anew):
    q, k, v, _ = arrays("numpy", draw)
    out, lse = tessera.attention(q, k, v, return_lse=True)
    into = tessera.attention_backward(out, q, k, v, out, lse)
    calls = [s for s in SCALARS if "return_lse" not in s]
    calls += [
        {"wanted": w} for w in ((), ["dq"], ("dk", "dq"), {"dv"}, "dq", ("d_bias",), (["q"],))
    ]
    calls += [{"accumulate": True}, {"nonesuch": None}, {"state": (out, lse)}, {}]
    for _ in range(2):
        for options in calls:
            found = outcome(tessera.attention_backward, out, q, k, v, out, lse, **options)
            assert found == anew(tessera.attention_backward, out, q, k, v, out, lse, **options), (
                options
            )
    before = into.dq.copy()
    for _ in range(3):
        tessera.attention_backward(out, q, k, v, out, lse, into=into, accumulate=True)
    np.testing.assert_allclose(into.dq, 4 * before, rtol=1e-5)


# ---- What else a call depends on -----------------------------------------------------------------


def test_recording_of_gradients_is_looked_at(some):
    q = some(1, 6, 2, 8).requires_grad_()
    for _ in range(2):
        with torch.no_grad():
            tessera.attention(q, q, q)
        with pytest.raises(ValueError, match="q requires gradients"):
            tessera.attention(q, q, q)


def test_what_autograd_saved_of_an_output_is_stale(some):
    q = some(1, 6, 2, 8)
    out = torch.zeros_like(q)
    into = tessera.Gradients(dq=torch.zeros_like(q))
    _, lse = tessera.attention(q, q, q, return_lse=True)
    for _ in range(3):
        versions = out._version, into.dq._version
        tessera.attention(q, q, q, out=out)
        tessera.attention_backward(out, q, q, q, out, lse, into=into)
        assert out._version > versions[0]
        assert into.dq._version > versions[1]


def test_threads_are_no_part_of_what_is_kept(some, monkeypatch):
    q = some(1, 6, 2, 8)
    contexts = []
    function = tessera._native.attention
    monkeypatch.setattr(
        tessera._native, "attention", lambda c, *rest: contexts.append(c) or function(c, *rest)
    )
    for threads in (1, 2, 1):
        tessera.attention(q, q, q, threads=threads)
    assert contexts[0] == contexts[2] != contexts[1]


def test_the_places_of_words_are_those_of_the_descriptors(draw):
    packed = bytes(range(256)) * (d.BLOCK_SIZE // 256 + 1)
    fields = d.CALL.unpack(packed[: d.CALL_SIZE])

    def word(name):
        return int.from_bytes(packed[d.CALL_PLACES[name] :][:8], "little")

    assert [word(name) for name in ("q", "k", "v", "out", "lse")] == list(fields[4:14:2])
    rest = d.REST.unpack(fields[-1])
    assert word("stream") == rest[-1]
    for i, name in enumerate(d.OPTIONAL):
        assert word(name) == d.TENSOR.unpack(rest[0][i * d.TENSOR.size :][: d.TENSOR.size])[0]
    back = d.BACKWARD.unpack(packed[: d.BACKWARD.size])

    def at(name):
        return int.from_bytes(packed[d.BLOCK_PLACES[name] :][:8], "little")

    assert int.from_bytes(packed[d.FORWARD_PLACE :][:8], "little") == back[2]
    both = back[3] + back[4]
    for i, name in enumerate(("d_out", "d_lse", *d.GRADIENTS)):
        assert at(name) == d.TENSOR.unpack(both[i * d.TENSOR.size :][: d.TENSOR.size])[0]
    assert d.BLOCK_PLACES["q"] == d.BACKWARD.size + d.CALL_PLACES["q"]


def test_a_prototype_of_torch_holds_no_memory(some):
    kind = tessera._tensors.kinds[torch.Tensor]
    prototype = kind.prototype(some(1, 6, 2, 8))
    assert prototype.untyped_storage().nbytes() == 0
    made = kind.new(prototype)
    assert made.is_contiguous()
    assert made.untyped_storage().nbytes() == 1 * 6 * 2 * 8 * ctypes.sizeof(ctypes.c_float)

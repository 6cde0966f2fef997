"""Calls that are kept (_repeat.py): each property that a call has makes it another call.

A call is made until it is kept. One property is then changed, and the answer compared with that of
a process that keeps nothing; the old call comes again at the end.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode

import tessera
from tessera import _descriptors as d
from tessera import _repeat


@pytest.fixture
def anew(monkeypatch):
    """Runs a call as if it were the first."""

    def call(function, *tensors, **options):
        with monkeypatch.context() as patch:
            patch.setattr(_repeat.Kept, "find", lambda *_: None)
            patch.setattr(_repeat.Kept, "keep", lambda *_: None)
            return outcome(function, *tensors, **options)

    return call


def numbers(x):
    """Whatever a call gives, as dtypes and lists."""
    if isinstance(x, tuple):
        return tuple(map(numbers, x))
    if x is None:
        return None
    return (type(x), str(x.dtype), x.tolist(), tuple(x.shape))


def outcome(function, *tensors, **options):
    """What a call gives, or the error that it raises."""
    try:
        return numbers(function(*tensors, **options))
    except (ValueError, TypeError, NotImplementedError, RuntimeError) as error:
        return type(error), str(error)


def is_kept(monkeypatch, function, *tensors):
    """Whether the next call of this kind is answered by one that was kept."""
    found, hits = _repeat.Kept.find, []
    with monkeypatch.context() as patch:
        patch.setattr(_repeat.Kept, "find", lambda *call: hits.append(found(*call)) or hits[-1])
        function(*tensors)
    return hits[-1] is not None


def arrays(kind, draw):
    """q, k, v and the options of a call that has most of them."""
    q, k, v = draw(2, 6, 4, 8), draw(2, 6, 2, 8), draw(2, 6, 2, 8)
    options = {
        "mask": draw(6, 6) < 1,
        "bias": draw(4, 6, 6),
        "alibi": np.abs(draw(4)),
        "sink": draw(4),
        "kv_lengths": np.array([5, 6]),
        "kv_starts": np.array([1, 0], np.int32),
        "align": np.array([0, 1]),
    }
    if kind == "torch":
        q, k, v = map(torch.from_numpy, (q, k, v))
        options = {name: torch.from_numpy(x) for name, x in options.items()}
    return q, k, v, options


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


def strided(x):
    """The same numbers in memory that lies differently."""
    if isinstance(x, torch.Tensor):
        return torch.stack([x, x], -1)[..., 0]
    return np.stack([x, x], -1)[..., 0]


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


# ---- Other memory, the same call -----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_tensor_in_the_place_of_one_that_was_freed(kind, draw, anew, monkeypatch):
    _, k, v, _ = arrays(kind, draw)
    places = set()
    for _ in range(20):
        q = arrays(kind, draw)[0]
        places.add(id(q))
        assert outcome(tessera.attention, q, k, v) == anew(tessera.attention, q, k, v)
        del q
    assert len(places) < 20, "no id came twice, so that nothing was tested"
    assert is_kept(monkeypatch, tessera.attention, arrays(kind, draw)[0], k, v)


def test_a_tensor_whose_memory_was_swapped(draw, anew, monkeypatch):
    q, k, v, _ = arrays("torch", draw)
    for _ in range(3):
        tessera.attention(q, k, v)
        assert is_kept(monkeypatch, tessera.attention, q, k, v)
        q.set_(arrays("torch", draw)[0])
        assert outcome(tessera.attention, q, k, v) == anew(tessera.attention, q, k, v)
    for other in (strided(q), q[:, :3], q.double()):
        q.data = other
        assert outcome(tessera.attention, q, k, v) == anew(tessera.attention, q, k, v)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("place", ["q", "k", "v", "out"])
def test_views_into_one_memory(kind, place, draw, anew, monkeypatch):
    q, k, v, _ = arrays(kind, draw)
    tensors = {"q": q, "k": k, "v": v, "out": tessera.attention(q, k, v)}
    memory = draw(5, *tensors[place].shape)
    memory = torch.from_numpy(memory) if kind == "torch" else memory
    for i in range(5):
        changed = {**tensors, place: memory[i]}
        assert outcome(tessera.attention, **changed) == anew(tessera.attention, **changed)
    assert is_kept(monkeypatch, lambda: tessera.attention(**changed))


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_numbers_of_kept_calls_are_read_anew(kind, draw, anew):
    q, k, v, _ = arrays(kind, draw)
    for _ in range(3):
        q += 1
        assert outcome(tessera.attention, q, k, v) == anew(tessera.attention, q, k, v)


def test_empty_arrays_with_strides_that_do_not_count(draw, anew):
    q, k, v = draw(0, 6, 4, 8), draw(0, 6, 2, 8), draw(0, 6, 2, 8)
    odd = np.lib.stride_tricks.as_strided(q, q.shape, (3, 5, 7, 9))
    for x in (q, odd, q, odd):
        assert outcome(tessera.attention, x, k, v) == anew(tessera.attention, odd, k, v)


# ---- Descriptors are lent ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", ["attention", "attention_backward"])
def test_a_call_within_a_call_like_it(kind, name, draw, anew, monkeypatch):
    """As of another thread that comes between the packing and the reading of a descriptor."""

    def tensors():
        q, k, v, _ = arrays(kind, draw)
        answer = tessera.attention(q, k, v, return_lse=True)
        return (q, k, v) if name == "attention" else (answer[0], q, k, v, *answer)

    function, native, within = getattr(tessera, name), getattr(tessera._native, name), []
    outer, inner = tensors(), tensors()
    function(*outer)
    assert is_kept(monkeypatch, function, *outer)

    def interrupted(*call):
        if not within:
            within.append(None)
            within[0] = outcome(function, *inner)
        return native(*call)

    monkeypatch.setattr(tessera._native, name, interrupted)
    assert outcome(function, *outer) == anew(function, *outer)
    assert within == [anew(function, *inner)]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_threads_that_make_the_same_call(kind, draw, anew):
    calls = [arrays(kind, draw)[:3] for _ in range(6)]
    expected = [anew(tessera.attention, *call) for call in calls]

    def again(i):
        return all(
            outcome(tessera.attention, *calls[i], threads=1) == expected[i] for _ in range(200)
        )

    with ThreadPoolExecutor(len(calls)) as pool:
        assert all(pool.map(again, range(len(calls))))


def test_a_refusal_by_the_library_does_not_stay(draw, anew):
    q, k, v, _ = arrays("numpy", draw)
    for out in (q, np.empty_like(q)) * 2:
        call = {"q": q, "k": k, "v": v, "out": out}
        assert outcome(tessera.attention, **call) == anew(tessera.attention, **call)


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

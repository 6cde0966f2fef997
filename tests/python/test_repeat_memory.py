"""Calls that are kept (_repeat.py) on other memory, within each other, and at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import tessera
from repeated import arrays, is_kept, outcome, strided


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

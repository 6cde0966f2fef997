"""Calls on torch tensors run on the threads of torch's OpenMP: the same bits, safe to fork."""

import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
import torch

import tessera
from tessera import _native, _openmp
from tessera._tensors import adopt, kinds

SHARED = _openmp.library_of(torch) is not None
needs_openmp = pytest.mark.skipif(not SHARED, reason="this torch has no OpenMP run time to share")


def tensors(rows=300):
    torch.manual_seed(0)
    return [torch.randn(2, rows, 4, 32) for _ in range(3)]


@pytest.fixture
def torch_threads():
    """Sets the number of torch's threads for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def run(code, **environment):
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", "import os, torch, tessera\n" + code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def contexts_of_torch():
    adopt(torch.zeros(1), "x")
    return kinds[torch.Tensor].contexts


@needs_openmp
def test_the_wheel_of_torch_is_known():
    assert "omp" in _openmp.library_of(torch).name


@needs_openmp
def test_threads_follow_torch(torch_threads):
    q, k, v = tensors()
    for n in (2, 3):
        torch_threads(n)
        tessera.attention(q, k, v)
        lent = contexts_of_torch()[n]
        assert lent not in _native.contexts.values()
        about = _native.describe(_native._context_describe, lent)
        assert f'"threads":{n},' in about
        assert '"executor":"a pool of its own"' not in about


@needs_openmp
def test_the_bits_are_those_of_threads_of_our_own(torch_threads):
    torch_threads(2)
    q, k, v = tensors()
    out, lse = tessera.attention(q, k, v, causal=True, return_lse=True)
    grads = tessera.attention_backward(torch.ones_like(out), q, k, v, out, lse, causal=True)
    for threads in (1, 2, 3):
        again = tessera.attention(
            q.numpy(), k.numpy(), v.numpy(), causal=True, return_lse=True, threads=threads
        )
        assert torch.equal(out, torch.from_numpy(again[0]))
        assert torch.equal(lse, torch.from_numpy(again[1]))
        other = tessera.attention_backward(
            torch.ones_like(out), q, k, v, out, lse, causal=True, threads=threads
        )
        assert all(torch.equal(a, b) for a, b in zip(grads[:3], other[:3]))


def test_another_number_than_torchs_has_threads_of_its_own(torch_threads):
    torch_threads(2)
    q, k, v = tensors()
    tessera.attention(q, k, v, threads=5)
    assert 5 in _native.contexts
    assert 5 not in contexts_of_torch()


def test_a_child_of_fork_has_threads_of_its_own():
    # Compared by NumPy: an operation of torch on its lost threads would not return.
    code = (
        "torch.set_num_threads(2)\n"
        "x = torch.ones(2, 300, 4, 32); a = tessera.attention(x, x, x)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    again = tessera.attention(x, x, x).numpy()\n"
        "    os._exit(0 if (again == a.numpy()).all() else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    assert run(code) == "0"


def test_many_python_threads_at_once(torch_threads):
    torch_threads(2)
    q, k, v = tensors(128)
    expected = tessera.attention(q, k, v)
    wrong = []

    def work():
        for _ in range(50):
            if not torch.equal(tessera.attention(q, k, v), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_it_can_be_turned_off():
    code = (
        "from tessera import _native\n"
        "torch.set_num_threads(2)\n"
        "x = torch.ones(1, 2, 1, 4); tessera.attention(x, x, x); print(2 in _native.contexts)"
    )
    assert run(code, TESSERA_OPENMP="0") == "True"
    assert run(code) == str(not SHARED)


def fake_torch(info):
    config = SimpleNamespace(parallel_info=lambda: info)
    return SimpleNamespace(__config__=config, __file__=torch.__file__)


def test_a_torch_without_openmp_has_none():
    assert _openmp.library_of(fake_torch("ATen parallel backend: native thread pool")) is None


def test_of_several_run_times_that_of_torch_is_taken(monkeypatch):
    home = _openmp.Path(torch.__file__).parent / "lib"
    other = _openmp.Path("/usr/lib/libgomp.so.1")
    info = "ATen parallel backend: OpenMP"
    monkeypatch.setattr(sys, "platform", "linux")
    for loaded, taken in [
        ([home / "libgomp.so.1", other], home / "libgomp.so.1"),
        ([other], other),
        ([other, _openmp.Path("/opt/libiomp5.so")], None),
        ([], None),
    ]:
        monkeypatch.setattr(_openmp, "_loaded", lambda loaded=loaded: loaded)
        assert _openmp.library_of(fake_torch(info)) == taken


def test_a_library_without_the_functions_is_not_used():
    assert _openmp._functions_of(_openmp.Path(_native.path)) == []

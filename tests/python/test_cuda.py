"""torch tensors on a GPU. There is none here: a libcuda that is none stands in for the driver, and
the emulator carries out what is launched, in memory that comes from that driver.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FAKE = os.environ.get("TESSERA_FAKE_DRIVER", "")  # the folder of libcuda.so.1
pytestmark = pytest.mark.skipif(not FAKE, reason="TESSERA_FAKE_DRIVER names no folder")

HEAD = """
import ctypes, types
import numpy as np, torch
import tessera
from tessera import _descriptors as d

driver = ctypes.CDLL("libcuda.so.1")
driver.cuGetProcAddress_v2.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int,
                                       ctypes.c_uint64, ctypes.c_void_p]
allocate = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)()
driver.cuGetProcAddress_v2(b"cuMemAlloc", ctypes.byref(allocate), 12000, 0, None)
driver.fake_last_stream.restype = ctypes.c_void_p
torch.cuda.current_stream = lambda device: types.SimpleNamespace(cuda_stream=0x1234)


class OnGpu(torch.Tensor):
    is_cpu = False
    device = torch.device("cuda", 0)


def there(x):
    place = ctypes.c_uint64()
    assert allocate(ctypes.byref(place), x.nbytes) == 0
    memory = np.frombuffer((ctypes.c_char * x.nbytes).from_address(place.value), np.uint8)
    y = torch.from_numpy(memory).view(x.dtype).view(x.shape)
    y.copy_(x)
    return y.as_subclass(OnGpu)


def here(x):
    return x.as_subclass(torch.Tensor)


generator = torch.Generator().manual_seed(1)
q = torch.randn(2, 40, 4, 64, generator=generator).bfloat16()
k, v = (torch.randn(2, 50, 2, 64, generator=generator).bfloat16() for _ in range(2))
out = there(torch.full_like(q, float("nan")))
"""


def run(text: str) -> str:
    env = {**os.environ, "LD_LIBRARY_PATH": FAKE, "FAKE_CUDA_COMPUTE": "1"}
    command = [sys.executable, "-W", "ignore", "-c", HEAD + text]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_call_is_computed_there_on_the_current_stream():
    assert "right" in run("""
got = tessera.attention(there(q), there(k), there(v), causal=True, align="bottom_right", out=out)
wanted = tessera.attention(q, k, v, causal=True, align="bottom_right")
assert got is out
assert (here(got).float() - wanted.float()).abs().max() < 0.02
assert driver.fake_last_stream() == 0x1234
print("right")
""")


def test_options_lie_there_too():
    assert "right" in run("""
lengths = torch.tensor([30, 50])
got = tessera.attention(there(q), there(k), there(v), kv_lengths=there(lengths), out=out)
wanted = tessera.attention(q, k, v, kv_lengths=lengths)
assert (here(got).float() - wanted.float()).abs().max() < 0.02
print("right")
""")


def test_what_lies_elsewhere_is_refused():
    assert "v has device_type 1 and device_id 0 but q has 2 and 0" in run("""
try:
    tessera.attention(there(q), there(k), v, out=out)
except ValueError as error:
    print(error)
""")


def test_a_type_without_a_kernel_is_refused():
    assert "the kernels of sm_80 take float32, float16 and bfloat16, not float64" in run("""
try:
    tessera.attention(*(there(x.double()) for x in (q, k, v)), out=there(q.double()))
except NotImplementedError as error:
    print(error)
""")


def test_a_repeated_call_goes_into_the_stream_of_its_time():
    assert "right" in run("""
from tessera import _repeat
sink = torch.randn(4, generator=generator)
wanted, wanted_sink = tessera.attention(q, k, v), tessera.attention(q, k, v, sink=sink)
found, hits = _repeat.Kept.find, []
_repeat.Kept.find = lambda *call: hits.append(found(*call)) or hits[-1]
current = types.SimpleNamespace(cuda_stream=0)
torch.cuda.current_stream = lambda device: current
for current.cuda_stream in (0x1000, 0x2000, 0x3000):
    out = there(torch.full_like(q, float("nan")))
    tessera.attention(there(q), there(k), there(v), out=out)
    assert (here(out).float() - wanted.float()).abs().max() < 0.02
    assert driver.fake_last_stream() == current.cuda_stream
    tessera.attention(there(q), there(k), there(v), sink=there(sink), out=out)
    assert (here(out).float() - wanted_sink.float()).abs().max() < 0.02
    assert driver.fake_last_stream() == current.cuda_stream
assert [hit is not None for hit in hits] == [False, False, True, True, True, True], hits
OnGpu.device = torch.device("cuda", 1)  # on another GPU it is another call
try:
    tessera.attention(there(q), there(k), there(v), out=there(q))
except (ValueError, NotImplementedError, RuntimeError):
    pass
assert hits[-1] is None
print("right")
""")


OTHER = """
address_of = ctypes.pythonapi.PyCapsule_GetPointer
address_of.restype, address_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class Other:
    '''An array of another library on the GPU: DLPack is all that it has.'''

    def __init__(self, x):
        self.x, self.streams = there(x), []

    def __dlpack_device__(self):
        return d.CUDA, 0

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        capsule = torch.utils.dlpack.to_dlpack(here(self.x))
        ctypes.c_int32.from_address(address_of(capsule, b"dltensor") + 8).value = d.CUDA
        return capsule


class Old(Other):
    '''The same from before DLPack 1.0.'''

    def __dlpack__(self, stream=None):
        return super().__dlpack__(stream=stream)


def agrees(got, **options):
    wanted = tessera.attention(q, k, v, **options)
    return (here(got.x).float() - wanted.float()).abs().max() < 0.02
"""


def test_other_libraries_are_computed_on_the_default_stream():
    assert "right" in run(
        OTHER
        + """
lengths = torch.tensor([30, 50])
for library in (Other, Old):
    tensors = [library(x) for x in (q, k, v)]
    out = library(torch.full_like(q, float("nan")))
    driver.fake_last_stream()
    got = tessera.attention(*tensors, causal=True, align="bottom_right", out=out)
    assert got is out
    assert agrees(out, causal=True, align="bottom_right")
    assert all(x.streams == [1] for x in (*tensors, out)), [x.streams for x in tensors]
    assert driver.fake_last_stream() is None  # CUDA's name of the default stream is 0
    tessera.attention(*tensors, kv_lengths=library(lengths), out=out)
    assert agrees(out, kv_lengths=lengths)
print("right")
"""
    )


def test_other_libraries_need_an_output():
    text = run(
        OTHER
        + """
x = [Other(t) for t in (q, k, v)]
out = np.zeros(q.shape, np.float32)
for options in ({}, {"out": Other(q), "return_lse": True}, {"out": out}, {"out": here(q)}):
    try:
        tessera.attention(*x, **options)
    except ValueError as error:
        print(error)
"""
    )
    lines = text.splitlines()
    assert len(lines) == 4
    for line in lines[:2]:
        assert "lie on a GPU and are not torch's" in line
        assert "pass out= and leave return_lse off" in line
    assert "out has device_type 1" in lines[2]
    assert "q is of DLPack but out of torch" in lines[3]


def test_arrays_of_the_host_do_not_meet_those_of_a_gpu():
    assert "k has device_type 1 and device_id 0 but q has 2 and 0" in run(
        OTHER
        + """
try:
    tessera.attention(Other(q.float()), k.float().numpy(), v.float().numpy(), out=Other(q.float()))
except ValueError as error:
    print(error)
"""
    )

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


def test_other_libraries_are_sent_to_torch():
    assert "lies on a GPU; of tensors there torch's are taken" in run("""
class Other:
    def __dlpack__(self, **_):
        return self.capsule

x = Other()
x.capsule = torch.utils.dlpack.to_dlpack(q)
address = ctypes.pythonapi.PyCapsule_GetPointer
address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
ctypes.c_int32.from_address(address(x.capsule, b"dltensor") + 8).value = d.CUDA
try:
    tessera.attention(x, x, x)
except NotImplementedError as error:
    print(error)
""")

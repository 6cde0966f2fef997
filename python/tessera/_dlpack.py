"""Tensors of other libraries through DLPack: addresses, layouts, and NumPy arrays for outputs.

Source: the DLPack specification 1.1, structs DLManagedTensor and DLManagedTensorVersioned.
"""

from __future__ import annotations

import ctypes
from struct import Struct
from typing import Any

from tessera import _descriptors as d
from tessera._numpy import NumpyKind, capsule_pointer
from tessera._tensors import NAMES, Shape, pack_layout, read_only

# data, device type and id, rank, dtype code, bits and lanes, shape, strides, byte_offset
_DL_TENSOR = Struct("<Q ii iBBH QQ Q")
# Before it, in a versioned capsule: major, minor, manager_ctx, deleter, flags
_VERSIONED = Struct("<II QQ Q")
_FLAG_READ_ONLY = 1
_KNOWN_MAJOR = 1
_CUDA_HOST = 3  # pinned memory of the host
# The stream that producers on a GPU are told to have their data ready on, and that calls on it go
# into: CUDA's legacy default stream, which DLPack calls 1 and CUDA 0.
_DLPACK_DEFAULT, _CUDA_DEFAULT = 1, 0


class View:
    """A tensor of another library; it lives as long as its capsule does."""

    def __init__(self, capsule: Any, who: str) -> None:
        self.capsule = capsule
        address, self.read_only = _dl_tensor(capsule, who)
        data, device, index, rank, code, bits, lanes, shape, strides, skip = _DL_TENSOR.unpack(
            ctypes.string_at(address, _DL_TENSOR.size)
        )
        self.address = data + skip if data else 0
        self.device = (d.CPU, 0) if device == _CUDA_HOST else (device, index)
        self.dtype = code | bits << 8
        if lanes != 1 or self.dtype not in NAMES:
            raise ValueError(
                f"{who} has the DLPack type (code {code}, {bits} bits, {lanes} "
                "lanes); it must be float32, float16, bfloat16, float64, bool, uint8, int32 or "
                "int64: convert it"
            )
        self.shape: Shape = _integers(shape, rank)
        self.strides: Shape = _integers(strides, rank) if strides else _dense(self.shape)


def _dl_tensor(capsule: Any, who: str) -> tuple[int, bool]:
    """The address of the DLTensor in a capsule, and whether it may only be read."""
    if '"dltensor_versioned"' not in repr(capsule):
        return capsule_pointer(capsule, b"dltensor"), False
    address = capsule_pointer(capsule, b"dltensor_versioned")
    major, minor, _, _, flags = _VERSIONED.unpack(ctypes.string_at(address, _VERSIONED.size))
    if major != _KNOWN_MAJOR:
        raise ValueError(
            f"{who} comes by DLPack {major}.{minor}; version {_KNOWN_MAJOR} is "
            "understood: pass a NumPy array"
        )
    return address + _VERSIONED.size, bool(flags & _FLAG_READ_ONLY)


def _integers(address: int, count: int) -> Shape:
    return tuple((ctypes.c_int64 * count).from_address(address)) if count else ()


def _dense(shape: Shape) -> Shape:
    strides = [1] * len(shape)
    for i in range(len(shape) - 1, 0, -1):
        strides[i - 1] = strides[i] * shape[i]
    return tuple(strides)


def view(x: Any, name: str) -> View:
    """x as its producer hands it out, without a copy."""
    producer = type(x).__module__.partition(".")[0]
    on_gpu = hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] == d.CUDA
    stream = {"stream": _DLPACK_DEFAULT} if on_gpu else {}
    try:
        capsule = x.__dlpack__(max_version=(_KNOWN_MAJOR, 0), **stream)
    except TypeError:  # a producer from before DLPack 1.0
        capsule = x.__dlpack__(**stream)
    return View(capsule, f"{name}, of {producer},")


class ViewKind(NumpyKind):
    """Tensors of other libraries; outputs for those on the CPU are NumPy arrays."""

    name = "DLPack"
    look = ""

    def read(self, x: Any, name: str, shape: Shape, lead: int = 0) -> tuple[int, bytes]:
        return x.address, pack_layout(name, shape, x.strides, x.dtype, lead, x.device)

    def write(self, x: Any, name: str, shape: Shape, lead: int = 0) -> tuple[int, bytes]:
        address, layout = self.read(x, name, shape, lead)
        return address, read_only(layout) if x.read_only else layout

    def dtype(self, x: Any, name: str) -> int:
        return int(x.dtype)

    def empty(self, like: Any, shape: Shape, dtype: int) -> Any:
        if like.device[0] == d.CUDA:
            raise ValueError(
                "the tensors of this call lie on a GPU and are not torch's, so that no output can "
                "be made like them; pass out= and leave return_lse off, or pass "
                "torch.from_dlpack(x), which shares their memory"
            )
        return super().empty(like, shape, dtype)

    def empty_like(self, q: Any, shape: Shape) -> Any:
        return self.empty(q, shape, q.dtype)

    def stream(self, q: Any) -> int | None:
        return _CUDA_DEFAULT if q.device[0] == d.CUDA else None

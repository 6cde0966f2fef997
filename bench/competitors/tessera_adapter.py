"""Our own library as a peer of ../peers/peers.py, called through its C interface by ctypes.

The variant "" has the memory order that all peers share, [batch, heads, sequence, dim], which is a
matter of strides to us; "BLHD" has [batch, sequence, heads, dim], as projections leave it.
TESSERA_LIBRARY names a library other than that of the release build. The structures below mirror
include/tessera/tessera.h.
"""
from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_uint32
from ctypes import c_uint64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from case import Case

Array = np.ndarray
RELEASE = Path(__file__).resolve().parents[2] / "build" / "release" / "lib" / "libtessera.so"
DTYPES = {"float32": 0x2002, "float16": 0x1002, "uint16": 0x1004}  # bfloat16 comes as its bits
UNBOUNDED = 2**63 - 1
TOP_LEFT, BACKEND_CPU, DEVICE_CPU = 1, 1, 1


class Error(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("status", c_int32), ("message", c_char * 504)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p), ("shape", c_int64 * 4), ("stride", c_int64 * 4), ("dtype", c_uint32),
        ("device_type", c_int32), ("device_id", c_int32), ("flags", c_uint32),
        ("reserved", c_uint64 * 2)]


def tensors(names: str) -> list[tuple[str, type]]:
    return [(name, Tensor) for name in names.split()]


class Attention(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32), ("flags", c_uint32), ("backend", c_uint32), ("align", c_uint32),
        *tensors("q k v out lse"),
        ("scale", c_float), ("softcap", c_float),
        ("left", c_int64), ("right", c_int64), ("offset", c_int64),
        *tensors("offsets mask bias alibi sink kv_lengths kv_starts cache_batch_idx"),
        *tensors("cu_seqlens_q cu_seqlens_k seqused_q seqused_k block_table"),
        ("dropout_p", c_float), ("dropout_offset", c_uint32), ("dropout_seed", c_uint64),
        *tensors("state_out state_lse"),
        ("mask_expr", c_char_p), ("score_expr", c_char_p),
        ("bindings", c_void_p), ("binding_count", c_uint64),
        ("workspace", c_void_p), ("workspace_bytes", c_uint64), ("stream", c_void_p),
        ("score_max", POINTER(c_double))]


class Backward(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32), ("flags", c_uint32), ("forward", POINTER(Attention)),
        *tensors("d_out d_lse dq dk dv d_bias d_sink"),
        ("workspace", c_void_p), ("workspace_bytes", c_uint64), ("term_norms", POINTER(c_double))]


class ContextConfig(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32), ("flags", c_uint32), ("threads", c_int32), ("reserved", c_uint32),
        ("cpu_target", c_char_p), ("parallel_for", c_void_p), ("executor_user", c_void_p),
        ("allocate", c_void_p), ("release", c_void_p), ("allocator_user", c_void_p)]


# ---- The library ---------------------------------------------------------------------------------


def library_path() -> Path:
    path = Path(os.environ.get("TESSERA_LIBRARY", RELEASE))
    if not path.exists():
        raise FileNotFoundError(f"{path.name} is not in {path.parent}; build the release preset, "
                                "or name the library in TESSERA_LIBRARY")
    return path


@functools.cache
def library() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(library_path()))
    lib.tessera_version.restype = c_char_p
    lib.tessera_context_create.argtypes = [c_void_p, POINTER(c_void_p), c_void_p]
    lib.tessera_attention.argtypes = [c_void_p, c_void_p, c_void_p]
    lib.tessera_attention_backward.argtypes = [c_void_p, c_void_p, c_void_p]
    return lib


def new_error() -> Error:
    return Error(size=ctypes.sizeof(Error))


def check(status: int, error: Error) -> None:
    if status:
        raise RuntimeError(error.message.decode() or f"status {status}")


@functools.cache
def context(threads: int) -> c_void_p:
    """Lives as long as the process, like the pools of the other peers."""
    config = ContextConfig(size=ctypes.sizeof(ContextConfig), threads=threads)
    made, error = c_void_p(), new_error()
    create = library().tessera_context_create
    check(create(ctypes.byref(config), ctypes.byref(made), ctypes.byref(error)), error)
    return made


# ---- The adapter ---------------------------------------------------------------------------------


def absent() -> Tensor:
    ones = (1, 1, 1, 1)
    return Tensor(None, ones, ones, DTYPES["float32"], DEVICE_CPU)


def tensor(x: Array) -> Tensor:
    """A view of [batch, sequence, heads, dim], with the strides of x."""
    strides = [stride // x.itemsize for stride in x.strides]
    return Tensor(x.ctypes.data, x.shape, tuple(strides), DTYPES[x.dtype.name], DEVICE_CPU)


def fields(kind: type, **given: Array) -> dict[str, Tensor]:
    """All tensors of a structure: those that are given, and absent ones."""
    names = [name for name, of in kind._fields_ if of is Tensor]
    return {name: tensor(given[name]) if name in given else absent() for name in names}


def description(case: Case, **given: Array) -> Attention:
    return Attention(
        size=ctypes.sizeof(Attention), backend=BACKEND_CPU, align=TOP_LEFT if case.causal else 0,
        scale=float("nan"), left=UNBOUNDED, right=0 if case.causal else UNBOUNDED,
        **fields(Attention, **given))


def backward_pair(case: Case, views: list[Array]) -> tuple[Callable, Callable] | Exception:
    """As `pair`, for the gradients."""
    q, k, v, grad = views
    out, lse = np.zeros_like(q), np.zeros((1, case.heads, case.queries, 1), np.float32)
    gradients = [np.zeros_like(x) for x in (q, k, v)]
    forward = description(case, q=q, k=k, v=v, out=out, lse=lse)
    desc = Backward(size=ctypes.sizeof(Backward), forward=ctypes.pointer(forward),
                    **fields(Backward, d_out=grad, **dict(zip(("dq", "dk", "dv"), gradients))))
    error, owner, lib = new_error(), context(case.threads), library()
    where, why = ctypes.byref(desc), ctypes.byref(error)

    def call() -> list[Array]:
        check(lib.tessera_attention_backward(owner, where, why), error)
        return gradients

    def read(result: list[Array]) -> list[Array]:
        return [x.swapaxes(1, 2) for x in result]

    try:
        check(lib.tessera_attention(owner, ctypes.byref(forward), why), error)
        call()
    except RuntimeError as refusal:
        return refusal
    call.arrays = [views, out, lse]  # keeps them alive
    return call, read


def pair(case: Case, views: list[Array]) -> tuple[Callable, Callable] | Exception:
    """The call and its reader, for arrays seen as [batch, sequence, heads, dim]; or why not."""
    q, k, v = views
    out = np.zeros_like(q)  # with the strides of q
    desc, error = description(case, q=q, k=k, v=v, out=out), new_error()
    owner = context(case.threads)
    attend, where, why = library().tessera_attention, ctypes.byref(desc), ctypes.byref(error)

    def call() -> Array:
        check(attend(owner, where, why), error)
        return out

    def read(result: Array) -> Array:
        return result.swapaxes(1, 2)

    try:
        call()  # what this version does not do, it says now
    except RuntimeError as refusal:
        return refusal
    call.arrays = views  # keeps copies alive
    return call, read


def prepare(case: Case, q: Array, k: Array, v: Array, grad: Array) -> dict:
    views = [x.swapaxes(1, 2) for x in (q, k, v)]
    if case.suite == "backward":
        return {"": backward_pair(case, [*views, grad.swapaxes(1, 2)])}
    pairs = {"": pair(case, views)}
    if case.suite == "forward":
        pairs["BLHD"] = pair(case, [np.ascontiguousarray(x) for x in views])
    return pairs


ABOUT = library().tessera_version().decode()

"""The native library: where it lies, its functions, its contexts, its refusals as exceptions.

Environment variables:
  TESSERA_LIBRARY  path of the library to open, instead of the one beside the package
  TESSERA_THREADS  threads of calls on tensors that are not torch's, read by the library
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from pathlib import Path

from tessera import _descriptors as d

VERSION = "0.1"  # major.minor that the formats of _descriptors.py describe
_SONAMES = {"darwin": "libtessera.0.dylib", "win32": "tessera.dll"}
_PATTERNS = {"darwin": "libtessera*.dylib", "win32": "*tessera*.dll"}
_OK, _INVALID_ARGUMENT, _UNSUPPORTED, _OUT_OF_MEMORY = 0, 1, 2, 3
_EXCEPTIONS: dict[int, type[Exception]] = {
    _INVALID_ARGUMENT: ValueError,
    _UNSUPPORTED: NotImplementedError,
    _OUT_OF_MEMORY: MemoryError,
}


def _candidates() -> list[str]:
    """Names to open, best first."""
    given = os.environ.get("TESSERA_LIBRARY")
    if given:
        return [given]
    pattern = _PATTERNS.get(sys.platform, "libtessera.so*")
    beside = sorted((Path(__file__).parent / "lib").glob(pattern), key=lambda p: len(p.name))
    return [*map(str, beside), _SONAMES.get(sys.platform, "libtessera.so.0")]


def _open() -> tuple[ctypes.CDLL, str]:
    reasons = []
    for name in _candidates():
        try:
            return ctypes.CDLL(name), name
        except OSError as error:
            reasons.append(f"{name}: {error}")
    raise ImportError(
        "the native library of tessera was not found or does not load "
        f"({'; '.join(reasons)}); install the package again, or set TESSERA_LIBRARY to the path "
        "of libtessera"
    )


library, path = _open()

_POINTER, _TEXT = ctypes.c_void_p, ctypes.c_char_p


def _function(name: str, *arguments: type) -> ctypes._NamedFuncPointer:
    """A function that takes descriptors, as bytes or by their address, and answers a
    tessera_status.
    """
    function: ctypes._NamedFuncPointer = getattr(library, name)
    function.argtypes = arguments
    function.restype = ctypes.c_int
    return function


_DESCRIBE = (_TEXT, _POINTER, ctypes.c_uint64, _POINTER, _POINTER)
attention = _function("tessera_attention", _POINTER, _POINTER, _POINTER)
attention_backward = _function("tessera_attention_backward", _POINTER, _POINTER, _POINTER)
merge = _function("tessera_merge", _POINTER, _TEXT, _POINTER)
rotate = _function("tessera_rotate", _POINTER, _TEXT, _POINTER)
append = _function("tessera_append", _POINTER, _TEXT, _POINTER)
plan_describe = _function("tessera_plan_describe", _POINTER, *_DESCRIBE)
backward_plan_describe = _function("tessera_backward_plan_describe", _POINTER, *_DESCRIBE)
_context_describe = _function("tessera_context_describe", _POINTER, *_DESCRIBE[1:])
_context_create = _function("tessera_context_create", _TEXT, _POINTER, _POINTER)


class _Error(threading.local):
    """The tessera_error of a thread: one buffer, since a thread makes one call at a time."""

    def __init__(self) -> None:
        self.buffer = ctypes.create_string_buffer(d.ERROR_SIZE)
        d.ERROR_HEAD.pack_into(self.buffer, 0, d.ERROR_SIZE, _OK)
        self.address = ctypes.addressof(self.buffer)


error = _Error()


def refuse(status: int) -> None:
    """Raises the exception of a status, with the sentence that the library left in `error`."""
    sentence = error.buffer.raw[d.ERROR_HEAD.size :].split(b"\0", 1)[0].decode("utf-8", "replace")
    raise _EXCEPTIONS.get(status, RuntimeError)(sentence)


def version() -> str:
    """ "major.minor.patch" of the library."""
    library.tessera_version.restype = ctypes.c_char_p
    return str(library.tessera_version().decode())


# ---- Contexts ------------------------------------------------------------------------------------

contexts: dict[int, int] = {}
_contexts_lock = threading.Lock()


def new_context(threads: int, executor: tuple[int, int] = (0, 0)) -> int:
    """A context; executor: the addresses of a parallel_for and of its user.

    Raises:
      ValueError: threads is not from 1 to 1024, or 0.
    """
    if not -(2**31) <= threads < 2**31:
        raise ValueError(f"threads is {threads}; it must be from 1 to 1024, or None")
    made = ctypes.c_void_p()
    config = d.context_config(threads, executor)
    status = _context_create(config, ctypes.addressof(made), error.address)
    if status:
        refuse(status)
    return made.value or 0


def context(threads: int) -> int:
    """The context of that many threads (0: the library's default), made when first asked for.

    Contexts live as long as the process: a call may use one at any time. The library itself gives a
    child of fork() new threads.

    Raises:
      ValueError: threads is not from 1 to 1024, or 0.
    """
    with _contexts_lock:
        if threads not in contexts:
            contexts[threads] = new_context(threads)
        return contexts[threads]


# fork() may come while another thread holds the lock; the child has only the thread that forked.
def _after_fork() -> None:
    global _contexts_lock
    _contexts_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# ---- Descriptions --------------------------------------------------------------------------------


def describe(function: ctypes._NamedFuncPointer, *arguments: int | bytes) -> str:
    """The JSON text of a describing function."""
    needed = ctypes.c_uint64()
    where = ctypes.addressof(needed)
    status = function(*arguments, None, 0, where, error.address)
    if status:
        refuse(status)
    text = ctypes.create_string_buffer(needed.value)
    status = function(*arguments, ctypes.addressof(text), needed.value, where, error.address)
    if status:
        refuse(status)
    return text.value.decode()


def describe_context(threads: int = 0) -> str:
    """The JSON text of tessera_context_describe."""
    return describe(_context_describe, context(threads))


# ---- Does the library have the layout that we pack? ----------------------------------------------


def _check_layout() -> None:
    """Raises ImportError unless the library reads our descriptors as they are meant.

    Sizes other than its own the library would translate (docs/abi.md), so a packed call whose last
    fields have a meaning is described: the plan tells what the library understood.
    """
    found = version()
    if found.split(".")[:2] != VERSION.split("."):
        raise ImportError(
            f"{path} is tessera {found}, but this package needs {VERSION}; install the two "
            "together, or correct TESSERA_LIBRARY"
        )
    try:
        plan = json.loads(describe(plan_describe, context(0), d.layout_probe()))
    except (ValueError, NotImplementedError) as refusal:
        raise ImportError(f"{path} does not know the layout of this package: {refusal}") from None
    problem = plan["problem"]
    if any(problem.get(name) != value for name, value in d.LAYOUT_PROBE.items()):
        raise ImportError(
            f"{path} reads a call as {problem} that was meant as {d.LAYOUT_PROBE}; install the "
            "package and the library together"
        )


_check_layout()

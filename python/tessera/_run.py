"""Running a packed descriptor on the threads that its tensors call for."""

from __future__ import annotations

from ctypes import Array
from typing import Any

from tessera import _native
from tessera._tensors import Kind


def _checked(threads: Any) -> int:
    if not hasattr(threads, "__index__") or threads < 1:
        raise ValueError(f"threads is {threads}; it must be from 1 to 1024, or None")
    return int(threads)


def context_of(kind: Kind, threads: int | None) -> int:
    """The context of a call: of the threads asked for, else as torch has them for its tensors, else
    the library's default.
    """
    if threads is None:
        count = kind.threads()
    else:
        count = threads if type(threads) is int and threads > 0 else _checked(threads)
    return kind.contexts.get(count) or kind.context(count)


def run(
    function: Any, descriptor: bytes | Array[Any] | int, kind: Kind, threads: int | None
) -> None:
    """Calls a function of the library on a descriptor or its address; raises its refusal."""
    status = function(context_of(kind, threads), descriptor, _native.error.address)
    if status:
        _native.refuse(status)

"""The OpenMP run time on whose threads torch computes, so that calls on its tensors share them.

Its threads spin for a while after each operation of torch and hold their cores; threads of ours
beside them would wait. On Linux, where torch was built with OpenMP; elsewhere calls have threads of
their own.

Environment variables:
  TESSERA_OPENMP  0: threads of our own for torch tensors too
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

from tessera import _descriptors as d
from tessera import _native

_FUNCTIONS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
_PREFIXES = ("libgomp", "libiomp", "libomp")


def _loaded() -> list[Path]:
    """The OpenMP run times of this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {Path(line.split(maxsplit=5)[-1]) for line in lines}
    return sorted(path for path in paths if path.name.startswith(_PREFIXES))


def library_of(torch: Any) -> Path | None:
    """The run time of torch: one that came with it, else the only one that there is."""
    if sys.platform != "linux" or os.environ.get("TESSERA_OPENMP") == "0":
        return None
    if "parallel backend: OpenMP" not in torch.__config__.parallel_info():
        return None
    try:
        loaded = _loaded()
    except OSError:  # no /proc
        return None
    home = Path(torch.__file__).parent
    own = [p for p in loaded if home in p.parents]
    candidates = own or loaded
    return candidates[0] if len(candidates) == 1 else None


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _functions_of(library: Path | None) -> list[int]:
    """The addresses of _FUNCTIONS; none if the library lacks one."""
    if library is None:
        return []
    run_time = ctypes.CDLL(str(library))
    if not all(hasattr(run_time, name) for name in _FUNCTIONS):
        return []
    return [_address(getattr(run_time, name)) for name in _FUNCTIONS]


class Threads:
    """Contexts on the threads of torch, by their number."""

    def __init__(self, torch: Any) -> None:
        self._count = torch.get_num_threads
        self._functions = _functions_of(library_of(torch))
        self._lent: list[Any] = []  # what contexts point at lives as long as they do
        self.contexts: dict[int, int] = {}
        # The child of a fork has no thread of the run time but the one that forked.
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._functions = []
        self.contexts.clear()

    def context(self, count: int) -> int:
        """The context of that many threads, made when first asked for.

        Teams of another size than torch's would make the run time end and start threads, so other
        numbers get threads of our own, as 1 does.

        Raises:
          ValueError: count is not from 1 to 1024.
        """
        if not self._functions or count == 1:
            return self.contexts.setdefault(count, _native.context(count))
        if count != self._count():
            return _native.context(count)
        openmp = ctypes.create_string_buffer(d.OPENMP.pack(d.OPENMP.size, count, *self._functions))
        executor = (_address(_native.library.tessera_openmp_parallel_for), ctypes.addressof(openmp))
        self._lent.append(openmp)
        return self.contexts.setdefault(count, _native.new_context(count, executor))

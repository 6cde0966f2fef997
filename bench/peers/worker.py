"""The process of one peer of peers.py: it prepares cells, and times one sample when told to.

Started as `worker.py ADAPTER LIBRARY THREADS`. A question is a line of JSON, [method of Worker,
argument ...]; so is the answer, {"answer": ...} or {"failed": why}.
"""
from __future__ import annotations

import ctypes
import gc
import importlib.metadata
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from case import Case

TOLERANCE = {"fp32": 1e-4, "bf16": 2e-2, "fp16": 2e-3}  # of the largest element of the result
CHECKED_LENGTH = 256  # of the cells on which results are compared with float64
BURST_SECONDS = 0.009
READ_BYTES = 256 << 20  # of all threads together: more than the caches hold
SAMPLE_SECONDS = 0.004  # a sample repeats shorter calls
WARM_SECONDS = 0.05  # shorter calls are preceded by one that is not timed
LONGEST_SECONDS = 10  # of one call: slower peers are left out of the cell


def stored(x: np.ndarray, dtype: str) -> np.ndarray:
    """float32 as an adapter gets it; bfloat16 is rounded to nearest, ties to even."""
    if dtype != "bf16":
        return x.astype(np.float32 if dtype == "fp32" else np.float16)
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def exact(x: np.ndarray) -> np.ndarray:
    """An array of an adapter in float64."""
    if x.dtype == np.uint16:
        x = (x.astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.float64)


def reference(case: Case, q, k, v, grad) -> list[np.ndarray]:
    """[out], or [dq, dk, dv] in backward, by the definition in float64."""
    q, grad, scale = exact(q), exact(grad), case.dim**-0.5
    k, v = (exact(x).repeat(case.heads // case.kv_heads, axis=1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) * scale
    if case.causal:
        s[..., np.triu(np.ones((case.queries, case.keys), bool), 1)] = -np.inf
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    if case.suite != "backward":
        return [p @ v]
    dp = grad @ v.swapaxes(-1, -2)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale
    return [ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ grad]


def brief(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def attempt(function: Callable, *arguments):
    """The result of the call, or as text why it failed."""
    try:
        return function(*arguments)
    except Exception as error:
        return brief(error)


def timed(call: Callable, repeats: int = 1) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


class Worker:
    """One peer: its adapter, and the cell that it is ready for."""

    def __init__(self, adapter: str, library: str, threads: int):
        spec = importlib.util.spec_from_file_location("adapter", adapter)
        self.adapter = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.adapter)
        self.peak, self.threads, self.errors = ctypes.CDLL(library), threads, {}
        self.peak.peak_name.restype = ctypes.c_char_p
        self.peak.peak_gflops.restype = self.peak.peak_read.restype = ctypes.c_double

    def about(self, package: str | None) -> str:
        """What was measured: the version of a package, or what the adapter says of itself."""
        if package:
            return f"{package} {importlib.metadata.version(package)}"
        return f"{os.environ['PEER_NAME']} {getattr(self.adapter, 'ABOUT', '')}".rstrip()

    def units(self) -> dict[str, str]:
        """The arithmetic unit behind each kind of burst."""
        found = {kind: self.peak.peak_unit(kind.encode()) for kind in ("fp32", "bf16")}
        if found["fp32"] < 0:
            raise RuntimeError("peak.cpp needs a processor with AVX2 and FMA")
        return {kind: self.peak.peak_name(unit).decode() for kind, unit in found.items()}

    def bursts(self, kinds: list[str]) -> dict[str, float]:
        """GFLOP/s, or GB/s for reads, of all threads together, now."""
        rates = {}
        for kind in kinds:
            if kind == "read":
                share = ctypes.c_size_t(READ_BYTES // self.threads // 256 * 256)
                rates[kind] = self.peak.peak_read(self.threads, share, 1)
            else:
                unit, seconds = self.peak.peak_unit(kind.encode()), ctypes.c_double(BURST_SECONDS)
                rates[kind] = self.peak.peak_gflops(unit, self.threads, seconds)
        return rates

    def begin(self, fields: dict) -> dict[str, float | str]:
        """Makes a cell ready: the largest error of each variant at a small size, or why not."""
        case = Case(**fields)
        small = replace(case, queries=min(case.queries, CHECKED_LENGTH), keys=CHECKED_LENGTH)
        self.calls = self.arrays = None  # frees the last cell
        gc.collect()
        if small not in self.errors:
            arrays, pairs = self.build(small)
            self.errors[small] = {variant: attempt(self.error, small, pair, arrays)
                                  for variant, pair in pairs.items()}
        self.arrays, pairs = self.build(case)
        unchecked = f"not offered at {CHECKED_LENGTH} keys, so it could not be checked"
        verdicts = {variant: self.errors[small].get(variant, unchecked) for variant in pairs}
        self.calls = {variant: attempt(self.warm, pairs[variant])
                      for variant, verdict in verdicts.items() if isinstance(verdict, float)}
        return verdicts | {v: call for v, call in self.calls.items() if isinstance(call, str)}

    def build(self, case: Case) -> tuple[list, dict]:
        rng = np.random.default_rng(0)
        q, kv = (1, case.heads, case.queries, case.dim), (1, case.kv_heads, case.keys, case.dim)
        arrays = [rng.standard_normal(shape, np.float32) for shape in (q, kv, kv, q)]
        arrays = [stored(x, case.dtype) for x in arrays]
        return arrays, self.adapter.prepare(case, *arrays)

    def error(self, case: Case, pair, arrays: list) -> float:
        """The largest absolute error; raises where no rounding can explain it."""
        if isinstance(pair, Exception):
            raise pair
        call, read = pair
        got, wanted = read(call()), reference(case, *arrays)
        got = got if isinstance(got, (list, tuple)) else [got]
        worst = float(np.max([abs(exact(g).reshape(w.shape) - w).max()
                              for g, w in zip(got, wanted, strict=True)]))
        largest = max(abs(w).max() for w in wanted)
        if not worst <= TOLERANCE[case.dtype] * largest:
            raise ArithmeticError(f"wrong by {worst:.1e}")
        return worst

    def warm(self, pair) -> tuple[Callable, float]:
        """The call, and its seconds."""
        if isinstance(pair, Exception):
            raise pair
        call, _ = pair
        if (seconds := timed(call)) > LONGEST_SECONDS:
            raise TimeoutError(f"one call takes {seconds:.0f} s")
        self.settle()  # the threads of the check may still spin
        return call, timed(call)

    def sample(self, variant: str, kinds: list[str], floor: float) -> dict:
        """One turn: bursts and the seconds of a call; none if the first burst is below floor."""
        before = self.bursts(kinds)
        if before[kinds[0]] < floor:
            return {"bursts": [before]}
        call, seconds = self.calls[variant]
        repeats = max(1, round(SAMPLE_SECONDS / seconds))
        if seconds < WARM_SECONDS:  # longer calls hide the start
            call()
        seconds = timed(call, repeats)
        asleep = self.settle()
        return {"seconds": seconds, "asleep": asleep, "bursts": [before, self.bursts(kinds)]}

    def settle(self) -> bool:
        """Waits until the process has no running thread but this one; False after 200 ms of it."""
        for _ in range(200):
            if running_threads() <= 1:
                return True
            time.sleep(0.001)
        return False


def running_threads() -> int:
    """By state, since the processor time of a spinning thread is only brought up at clock ticks."""
    stats = [path.read_text() for path in Path("/proc/self/task").glob("*/stat")]
    return sum(stat.rpartition(")")[2].split()[0] == "R" for stat in stats)


def main() -> None:
    adapter, library, threads = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes elsewhere
    try:
        worker = Worker(adapter, library, int(threads))
    except Exception as error:
        raise SystemExit(brief(error)) from None
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        try:
            answer = {"answer": getattr(worker, method)(*arguments)}
        except Exception as error:
            answer = {"failed": brief(error)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()

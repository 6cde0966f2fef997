#!/usr/bin/env python3
"""What a small call costs in Python above the C interface, on NumPy arrays and torch tensors.

  bench/python/call_cost.py [--json]

Attention of B1 L16 H1 D64 in float32 on one thread: the bare ctypes call with a descriptor that was
packed before, beside tessera.attention, which reads the tensors, makes the output, packs and calls.
The two take turns of 2,000 calls; figures are the smallest and the median turn, in microseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from turns import seconds

import tessera
from tessera import _call, _native
from tessera._scalars import band

CALLS, TURNS, SHAPE = 2000, 60, (1, 16, 1, 64)


def turn(call: Callable[[], Any]) -> float:
    """Microseconds of one call, over CALLS of them."""
    return seconds(call, CALLS) * 1e6


def bare(x: Any) -> Callable[[], Any]:
    """The ctypes call with a descriptor made before."""
    call = _call.pack(x, x, x, None, False, _call.Scalars(band(False, None, None)), None)
    context, error = _native.context(1), _native.error.address
    return lambda: (_native.attention(context, call.packed, error), call)


def cases(x: Any) -> dict[str, Callable[[], Any]]:
    """The calls by name; the first is what the others are compared with."""
    out, lse = tessera.attention(x, x, x, return_lse=True, threads=1)
    mask = x[0, :, 0, :16] < 9
    return {
        "C interface": bare(x),
        "attention": lambda: tessera.attention(x, x, x, threads=1),
        "attention, causal": lambda: tessera.attention(x, x, x, causal=True, threads=1),
        "attention, lse": lambda: tessera.attention(x, x, x, return_lse=True, threads=1),
        "attention, out given": lambda: tessera.attention(x, x, x, out=out, threads=1),
        "attention, mask": lambda: tessera.attention(x, x, x, mask=mask, threads=1),
        "attention_backward": lambda: tessera.attention_backward(out, x, x, x, out, lse, threads=1),
    }


def measure(calls: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Turns of each call, one after another."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        turn(call)
    for _ in range(TURNS):
        for name, call in calls.items():
            times[name].append(turn(call))
    return times


def rows() -> list[dict[str, Any]]:
    """One row for each library and call."""
    found = []
    for library, x in (("numpy", np.zeros(SHAPE, np.float32)), ("torch", torch.zeros(SHAPE))):
        times = measure(cases(x))
        floor = min(times["C interface"])
        for name, turns in times.items():
            best, middle = min(turns), statistics.median(turns)
            row = {"tensors": library, "call": name, "best_us": best, "median_us": middle}
            found.append({**row, "above_c_us": best - floor})
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for row in rows():
        if arguments.json:
            print(
                json.dumps({k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()})
            )
        else:
            print(
                f"{row['tensors']:<6} {row['call']:<22} best {row['best_us']:6.2f} us, "
                f"median {row['median_us']:6.2f} us, above C {row['above_c_us']:6.2f} us"
            )


if __name__ == "__main__":
    main()

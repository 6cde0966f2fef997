#!/usr/bin/env python3
"""What a small call costs in Python above the C interface, on NumPy arrays and torch tensors.

  bench/python/call_cost.py [--json]

Attention of B1 L16 H1 D64 in float32 on one thread: the bare ctypes call with a descriptor that was
packed before, beside the same call through the package, which reads the tensors, makes the outputs,
packs and calls. The two take turns of 2,000 calls; figures are the smallest and the median turn, in
microseconds.
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
from tessera import _backward, _call, _native

Call = Callable[[], Any]
CALLS, TURNS, SHAPE = 2000, 60, (1, 16, 1, 64)


def turn(call: Call) -> float:
    """Microseconds of one call, over CALLS of them."""
    return seconds(call, CALLS) * 1e6


def forward(*tensors: Any, **options: Any) -> tuple[Call, Call]:
    """The bare ctypes call with a descriptor made before, and tessera.attention."""
    named = dict(options)
    out, lse = named.pop("out", None), named.pop("return_lse", False)
    call = _call.pack_options(*tensors, out, lse, named)
    context, error = _native.context(1), _native.error.address
    return (
        lambda: (_native.attention(context, call.packed, error), call),
        lambda: tessera.attention(*tensors, threads=1, **options),
    )


def backward(*tensors: Any, into: Any = None) -> tuple[Call, Call]:
    """The same of tessera.attention_backward. tensors: d_out, q, k, v, out, lse."""
    wanted = ("dq", "dk", "dv")
    call = _backward.pack((*tensors, None), wanted, into, False, {})
    context, error = _native.context(1), _native.error.address
    return (
        lambda: (_native.attention_backward(context, call.packed, error), call),
        lambda: tessera.attention_backward(*tensors, into=into, threads=1),
    )


def cases(x: Any) -> dict[str, tuple[Call, Call]]:
    """The calls by name, each with the C interface alone and through the package."""
    out, lse = tessera.attention(x, x, x, return_lse=True, threads=1)
    tensors = (out, x, x, x, out, lse)
    into = tessera.attention_backward(*tensors, threads=1)
    mask = x[0, :, 0, :16] < 9
    return {
        "attention": forward(x, x, x),
        "attention, causal": forward(x, x, x, causal=True),
        "attention, lse": forward(x, x, x, return_lse=True),
        "attention, out given": forward(x, x, x, out=out),
        "attention, mask": forward(x, x, x, mask=mask),
        "attention, all of these": forward(
            x, x, x, causal=True, return_lse=True, out=out, mask=mask
        ),
        "attention_backward": backward(*tensors),
        "attention_backward, into": backward(*tensors, into=into),
    }


def measure(calls: tuple[Call, Call]) -> tuple[list[float], list[float]]:
    """Turns of both calls, one after another."""
    times: tuple[list[float], list[float]] = ([], [])
    for call in calls:
        turn(call)
    for _ in range(TURNS):
        for call, turns in zip(calls, times):
            turns.append(turn(call))
    return times


def rows() -> list[dict[str, Any]]:
    """One row for each library and call."""
    found = []
    for library, x in (("numpy", np.zeros(SHAPE, np.float32)), ("torch", torch.zeros(SHAPE))):
        for name, calls in cases(x).items():
            c, ours = measure(calls)
            row: dict[str, Any] = {"tensors": library, "call": name}
            row |= {"c_us": min(c), "best_us": min(ours), "median_us": statistics.median(ours)}
            found.append({**row, "above_c_us": min(ours) - min(c)})
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
                f"{row['tensors']:<6} {row['call']:<24} C {row['c_us']:6.2f} us, best "
                f"{row['best_us']:6.2f} us, median {row['median_us']:6.2f} us, above C "
                f"{row['above_c_us']:6.2f} us"
            )


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What a small call costs in Python above the C interface, on NumPy arrays and torch tensors.

  bench/python/call_cost.py [--json]

Attention of B1 L16 H1 D64 in float32 on one thread: the bare ctypes call with a descriptor that was
packed before, beside the same call through the package, which reads the tensors, makes the outputs,
packs and calls. The two take turns of 2,000 calls; figures are the smallest and the median turn, in
microseconds. Three steps of the package are also measured by themselves, smallest turns again: to
find the call that was kept, for which it looks at the tensors, to make the outputs, and to write
addresses into its descriptor.
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
from tessera import _backward, _call, _native, _repeat

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


def steps(call: Call) -> dict[str, Call]:
    """Steps of a call that is kept, each by itself."""
    found: list[Any] = []
    find = _repeat.Kept.find

    def spy(*asked: Any) -> Any:
        repeat = find(*asked)

        def lend(idle: Any, tensors: Any) -> Any:
            found.extend((asked, repeat, tensors))
            return repeat.lend(idle, tensors)

        return repeat._replace(lend=lend)

    _repeat.Kept.find = spy
    try:
        call()
    finally:
        _repeat.Kept.find = find
    asked, (kind, prototypes, lend, idle), tensors = found
    made = [x for x in prototypes if x is not None]
    return {
        "find": lambda: find(*asked),
        "outputs": lambda: [kind.new(x) for x in made],
        "addresses": lambda: idle.append(lend(idle, tensors)),
    }


def rows() -> list[dict[str, Any]]:
    """One row for each library and call."""
    found = []
    for library, x in (("numpy", np.zeros(SHAPE, np.float32)), ("torch", torch.zeros(SHAPE))):
        for name, calls in cases(x).items():
            c, ours = measure(calls)
            row: dict[str, Any] = {"tensors": library, "call": name}
            row |= {"c_us": min(c), "best_us": min(ours), "median_us": statistics.median(ours)}
            row["above_c_us"] = min(ours) - min(c)
            for step, part in steps(calls[1]).items():
                row[f"{step}_us"] = min(turn(part) for _ in range(TURNS // 3))
            found.append(row)
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
            times = ", ".join(f"{k[:-3]} {v:.2f}" for k, v in row.items() if k.endswith("_us"))
            print(f"{row['tensors']:<6} {row['call']:<24} {times}")


if __name__ == "__main__":
    main()

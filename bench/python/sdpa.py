#!/usr/bin/env python3
"""tessera.torch.scaled_dot_product_attention beside torch's own, at the level of Python.

  bench/record.py python_sdpa -- chrt -f 1 python3 bench/python/sdpa.py --json

One process, calls taking turns. B1 H8, N 128 ... 8192, float32 and bfloat16, causal and full, D 64
and 128; forward without gradients, and forward and backward. ratio: torch's time by ours, of the
best samples; bar: what the project promises of it. Without --json a table alone; with it JSON lines
on the standard output, and the table on the other.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as functional
from turns import Calls, interleaved, row, tell

import tessera.torch

HEADS = 8
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
CONTESTANTS = {
    "torch": functional.scaled_dot_product_attention,
    "tessera": tessera.torch.scaled_dot_product_attention,
}


def bar(rows: int, dtype: str, causal: bool) -> float:
    """The least ratio that is promised."""
    if rows < 512:
        return 1.0
    return 1.4 if dtype == "bfloat16" else 1.2 if causal else 1.05


def forward(f: Callable[..., Any], tensors: Any, causal: bool) -> Callable[[], Any]:
    """A call without gradients."""

    def call() -> Any:
        with torch.no_grad():
            return f(*tensors, is_causal=causal)

    return call


def both(f: Callable[..., Any], tensors: Any, causal: bool) -> Callable[[], Any]:
    """A call and its gradients."""
    upstream = torch.randn_like(tensors[0])

    def call() -> Any:
        return torch.autograd.grad(f(*tensors, is_causal=causal), tensors, upstream)

    return call


PASSES = {"forward": forward, "forward+backward": both}


def cells(arguments: argparse.Namespace) -> Iterator[tuple[str, int, str, bool, int]]:
    """Pass, rows, dtype, causal, dim."""
    yield from itertools.product(
        PASSES, arguments.rows, arguments.dtypes, (False, True), arguments.dims
    )


def measure(which: str, rows: int, dtype: str, causal: bool, dim: int, samples: int) -> Any:
    """The row of one cell."""
    torch.manual_seed(0)
    tensors = [
        torch.randn(1, HEADS, rows, dim).to(DTYPES[dtype]).requires_grad_() for _ in range(3)
    ]
    calls: Calls = {n: PASSES[which](f, tensors, causal) for n, f in CONTESTANTS.items()}
    times = interleaved(calls, samples)
    case = f"{which} {dtype} d{dim} n{rows} {'causal' if causal else 'full'}"
    best = {f"{name}_ms": round(min(t) * 1e3, 4) for name, t in times.items()}
    return row(case, times, bar(rows, dtype, causal), samples, **best)


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    sizes = [128, 256, 512, 1024, 2048, 4096, 8192]
    parser.add_argument("--rows", type=int, nargs="+", default=sizes)
    parser.add_argument("--dims", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=list(DTYPES))
    parser.add_argument("--samples", type=int, default=11, help="of each contestant and cell")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    return parser.parse_args()


def main() -> None:
    """Measures and prints."""
    arguments = parsed()
    torch.set_num_threads(arguments.threads)
    missed = 0
    for cell in cells(arguments):
        found = measure(*cell, samples=arguments.samples)
        missed += not found["met"]
        line = (
            f"{found['case']:<44} torch {found['torch_ms']:10.3f} ms, tessera "
            f"{found['tessera_ms']:10.3f} ms: {found['ratio']:5.2f} "
            f"(median {found['ratio_median']:5.2f}, bar {found['bar']})"
        )
        tell(found, line, arguments.json)
    print(f"{missed} bars missed", file=sys.stderr)


if __name__ == "__main__":
    main()

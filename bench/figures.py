#!/usr/bin/env python3
"""The figures that the README quotes, beside those of peers.py: one JSON line each.

  chrt -f 1 bench/record.py cpu_figures -- python3 bench/figures.py
  chrt -f 1 bench/record.py cpu_figures -- python3 bench/figures.py build_time    # minutes

Needs `make build`. Speed and memory come from `tessera bench`, errors from `tessera verify`, the cost
of a call from bench_call_cost, the time of a build from a build without a compiler cache.
"""
from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / "build/release/bin"
THREADS = "2"


def tessera(*words: str) -> dict:
    """The one JSON object that a call of the command line prints."""
    done = subprocess.run([BIN / "tessera", *words, "--json"], capture_output=True, text=True,
                          check=True)
    return json.loads(done.stdout.splitlines()[-1])


def speed() -> Iterator[dict]:
    """[B, L, H, D] in memory, full and causal, in each type; options at one size."""
    for dtype, n, dim in itertools.product(("f32", "f16", "bf16"), ("2048", "512"), ("64", "128")):
        shape = f"1,{n},{n},8,8,{dim},{dim}"
        for band in ([], ["--causal"]):
            yield tessera("bench", "--shape", shape, "--dtype", dtype, "--threads", THREADS, *band)
    for option in (["--softcap", "30"], ["--mask", "random"], ["--bias", "random"],
                   ["--alibi", "random"], ["--window", "256,0"]):
        yield tessera("bench", "--shape", "1,2048,2048,8,8,64,64", "--threads", THREADS, *option)


def layouts() -> Iterator[dict]:
    """One sequence of 16,384 among a hundred of 64, and both apart; dropout, pages."""
    lengths = [64] * 50 + [16384] + [64] * 50
    boundaries = ",".join(map(str, itertools.accumulate(lengths, initial=0)))
    packed = ("--cu-seqlens-q", boundaries, "--cu-seqlens-k", boundaries)
    for which, band in itertools.product(("forward", "backward"), ([], ["--causal"])):
        for shape, options in ((f"101,{sum(lengths)},{sum(lengths)},1,1,64,64", packed),
                               ("1,16384,16384,1,1,64,64", ()), ("100,64,64,1,1,64,64", ())):
            yield tessera("bench", "--pass", which, "--shape", shape, "--threads", THREADS,
                          "--samples", "5", *band, *options)
    for option in (["--dropout", "0.1"], ["--page-size", "16"], ["--page-size", "96"]):
        yield tessera("bench", "--shape", "1,2048,2048,8,8,64,64", "--threads", THREADS, *option)


def memory() -> Iterator[dict]:
    """One head of 16,384 keys: what a call allocates."""
    yield tessera("bench", "--shape", "1,16384,16384,1,1,64,64", "--threads", THREADS,
                  "--samples", "3")


def errors() -> Iterator[dict]:
    for dtype, dim in itertools.product(("f32", "f16", "bf16"), ("64", "128", "256")):
        yield {"case": f"error {dtype} d{dim} n1024"} | tessera(
            "verify", "--shape", f"1,1024,1024,2,2,{dim},{dim}", "--dtype", dtype)


def call_cost() -> Iterator[dict]:
    """The best and the median of 15 repetitions, in microseconds."""
    command = [BIN / "bench_call_cost", "--benchmark_filter=^smallest_call$",
               "--benchmark_repetitions=15", "--benchmark_min_time=0.1", "--benchmark_format=json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    times = sorted(row["real_time"] / 1000 for row in json.loads(done.stdout)["benchmarks"]
                   if row["run_type"] == "iteration")
    yield {"case": "smallest call, B1 H1 N16 D64, one thread, C interface",
           "us_min": times[0], "us_p50": times[len(times) // 2]}


def library_size() -> Iterator[dict]:
    size = (ROOT / "build/release/lib/libtessera.so").stat().st_size
    yield {"case": "size of libtessera.so", "bytes": size}


def build_time() -> Iterator[dict]:
    """Library and command line from nothing, on all processors, without a compiler cache."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        subprocess.run(["cmake", "--preset", "release", "-B", folder], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", folder, "-j", str(os.cpu_count())], check=True,
                       stdout=subprocess.DEVNULL, env=os.environ | {"CCACHE_DISABLE": "1"})
        yield {"case": "build from clean", "seconds": time.monotonic() - start}


def main() -> None:
    parts = {f.__name__: f for f in (speed, layouts, memory, errors, call_cost, library_size)}
    for name in sys.argv[1:] or parts:
        part = build_time if name == "build_time" else parts[name]
        for figure in part():
            print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()

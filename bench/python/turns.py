"""Calls that take turns, so that whatever disturbs the machine disturbs all of them."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import tessera

Calls = dict[str, Callable[[], Any]]


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Of one call, over some of them."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def interleaved(calls: Calls, samples: int, least: float = 5e-3) -> dict[str, list[float]]:
    """Seconds of each call, `samples` of each in turn; a sample lasts at least `least` seconds."""
    repeats = {}
    for name, call in calls.items():
        call()
        repeats[name] = max(1, int(least / max(seconds(call, 1), 1e-9)))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(samples):
        order = list(calls) if i % 2 == 0 else list(reversed(calls))
        for name in order:
            times[name].append(seconds(calls[name], repeats[name]))
    return times


def ratio(slower: list[float], faster: list[float]) -> dict[str, float]:
    """How many times as fast the second is: by the best samples, and by the median of the turns."""
    turns = [a / b for a, b in zip(slower, faster)]
    return {
        "ratio": round(min(slower) / min(faster), 4),
        "ratio_median": round(statistics.median(turns), 4),
    }


def row(
    case: str, times: dict[str, list[float]], bar: float, samples: int, **more: Any
) -> dict[str, Any]:
    """What is recorded of torch and tessera in one case; bar: the least ratio that is promised."""
    found = ratio(times["torch"], times["tessera"])
    return {
        "case": case,
        "device": "cpu",
        "versions": f"torch {torch.__version__}, tessera {tessera.__version__}",
        "threads": torch.get_num_threads(),
        **more,
        **found,
        "bar": bar,
        "met": found["ratio"] >= bar,
        "samples": samples,
    }


def tell(found: dict[str, Any], line: str, as_json: bool) -> None:
    """Prints the line of a row; as_json: the row itself, and the line on the error output."""
    if as_json:
        print(json.dumps(found), flush=True)
    missed = "" if found["met"] else "  MISSED"
    print(line + missed, file=sys.stderr if as_json else sys.stdout, flush=True)

#!/usr/bin/env python3
"""Times attention forward on a CUDA GPU beside the backends of PyTorch, in one interleaved run.

  python3 bench/gpu/forward.py [--suite dense,options] [--quick]

Each call is checked first, on fresh N(0,1) data and a poisoned output, against attention in float64
of one head. Then every peer is captured in a CUDA graph of several calls and the graphs are replayed
in random order, so that clocks and heat meet all alike: no host time is in the figures. A line of
JSON for each case and peer: the median of milliseconds, TFLOP/s (4 B H Lq Lk D, half for causal;
masks count all pairs) and `ratio`, the time of the best other peer over this one.
"""
from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import tessera

TOKENS, WIDTH, REPLAYS, REPLAY_MS = 16384, 2048, 15, 3.0
BACKENDS = {"flash-2": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
            "cudnn": SDPBackend.CUDNN_ATTENTION}
Call = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Case:
    dim: int
    n: int
    causal: bool = False
    option: str = ""  # mask, bias or blocks: half of the blocks of 128 x 128 hidden

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[batch, sequence, heads, dim]"""
        batch = 1 if self.option else TOKENS // self.n
        return batch, self.n, WIDTH // self.dim, self.dim

    @property
    def flops(self) -> float:
        batch, n, heads, dim = self.shape
        return 4 * batch * heads * n * n * dim * (0.5 if self.causal else 1)

    def __str__(self) -> str:
        return f"forward bf16 d{self.dim} n{self.n} {self.option or ('causal' if self.causal else 'full')}"


def dense_cases(quick: bool) -> list[Case]:
    sizes = (1024, 4096) if quick else (1024, 2048, 4096, 8192, 16384)
    return [Case(dim, n, causal) for dim in (64, 128) for n in sizes for causal in (False, True)]


def option_cases(_: bool) -> list[Case]:
    return [Case(128, 4096, option=option) for option in ("mask", "bias", "blocks")]


def visible_pairs(case: Case) -> torch.Tensor | None:
    """A mask or a bias [1, 1, n, n], or None."""
    n = case.n
    if case.option == "mask":
        return torch.rand(1, 1, n, n, device="cuda") < 0.5
    if case.option == "bias":
        return torch.randn(1, 1, n, n, device="cuda", dtype=torch.bfloat16)
    if case.option == "blocks":
        blocks = torch.rand(1, 1, n // 128, n // 128, device="cuda") < 0.5
        return blocks.repeat_interleave(128, 2).repeat_interleave(128, 3)
    return None


class Inputs:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.q, self.k, self.v = (torch.randn(case.shape, device="cuda", dtype=torch.bfloat16)
                                  for _ in range(3))
        self.pairs = visible_pairs(case)
        self.out = torch.empty_like(self.q)

    def tessera(self) -> torch.Tensor:
        pairs = {}
        if self.pairs is not None:
            pairs = {"mask" if self.pairs.dtype == torch.bool else "bias": self.pairs}
        return tessera.attention(self.q, self.k, self.v, causal=self.case.causal, out=self.out,
                                 **pairs)

    def peer(self, backend: SDPBackend) -> torch.Tensor:
        q, k, v = (t.transpose(1, 2) for t in (self.q, self.k, self.v))
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=self.pairs, is_causal=self.case.causal).transpose(1, 2)

    def error(self, out: torch.Tensor) -> float:
        """Relative, of the last head of the last sequence, against float64; rows without keys: 0."""
        q, k, v = (t[-1, :, -1].double() for t in (self.q, self.k, self.v))
        scores = q @ k.T / math.sqrt(self.case.dim)
        if self.case.causal:
            scores += torch.full_like(scores, -math.inf).triu(1)
        if self.pairs is not None:
            pairs = self.pairs[0, 0]
            scores += pairs.double() if pairs.dtype != torch.bool else torch.where(
                pairs, 0.0, -math.inf)
        want = torch.softmax(scores, -1).nan_to_num(0) @ v
        return ((out[-1, :, -1].double() - want).norm() / want.norm()).item()


def peers_of(inputs: Inputs) -> dict[str, Call]:
    calls: dict[str, Call] = {"tessera": inputs.tessera}
    calls |= {name: lambda b=backend: inputs.peer(b) for name, backend in BACKENDS.items()}
    found = {}
    for name, call in calls.items():
        inputs.out.fill_(math.nan)
        try:
            error = inputs.error(call())
        except RuntimeError:  # a backend of torch that does not do the case
            continue
        if not error < 5e-3:
            raise SystemExit(f"{inputs.case}: {name} is wrong, relative error {error:.2e}")
        found[name] = call
    return found


def graph_of(call: Call, repeats: int) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(repeats):
            call()
    return graph


def milliseconds(graph: torch.cuda.CUDAGraph) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def measure(case: Case) -> None:
    inputs = Inputs(case)
    repeats = max(1, round(REPLAY_MS / (case.flops / 3e11)))
    graphs = {name: graph_of(call, repeats) for name, call in peers_of(inputs).items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for graph in graphs.values():
        milliseconds(graph)
    for _ in range(REPLAYS):
        for name in random.sample(list(graphs), len(graphs)):
            times[name].append(milliseconds(graphs[name]) / repeats)
    medians = {name: statistics.median(all_of_it) for name, all_of_it in times.items()}
    for name, median in medians.items():
        others = {other: time for other, time in medians.items() if other != name}
        best = min(others, key=others.get)
        print(json.dumps({
            "case": str(case), "peer": name, "ms": round(median, 4),
            "tflops": round(case.flops / median / 1e9, 1), "best_other": best,
            "ratio": round(others[best] / median, 3),
            "to": {other: round(time / median, 3) for other, time in others.items()},
            "processor": torch.cuda.get_device_name()}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="dense,options")
    parser.add_argument("--quick", action="store_true", help="fewer sizes")
    args = parser.parse_args()
    suites = {"dense": dense_cases, "options": option_cases}
    for suite in args.suite.split(","):
        for case in suites[suite](args.quick):
            measure(case)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()

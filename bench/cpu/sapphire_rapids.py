#!/usr/bin/env python3
"""Both passes beside PyTorch on a processor with AMX, in one run in which they take turns.

  python3 bench/cpu/sapphire_rapids.py [--threads 16] [--out FILE]

Batch 1, 16 heads, 2048 queries and keys; float32, bfloat16 and float16. Needs a Python with torch
and numpy, g++ (for peak.cpp; or a libpeak.so given by --peak), and libtessera.so (TESSERA_LIBRARY
names another than that of the release build). Each peer has a process of its own; how samples are
taken and accepted is told in ../peers/peers.py. JSON lines are appended to FILE, by default
bench/results/cpu_sapphire_rapids.jsonl: a line holds what one peer did in one cell, `of_torch` its
best rate by that of PyTorch's scaled_dot_product_attention. report.py shows them.
"""
from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = HERE.parent / "peers"
sys.path.insert(0, str(PEERS))

from case import Case  # noqa: E402  (found by the line above)
from conductor import Conductor, Peer, log  # noqa: E402
from peers import OUR_ADAPTER, PEAK_FLAGS  # noqa: E402
from provenance import REPOSITORY, provenance  # noqa: E402

RESULTS = REPOSITORY / "bench" / "results" / "cpu_sapphire_rapids.jsonl"
OURS = {"tessera": None, "tessera-avx512bf16": "avx512bf16", "tessera-avx512": "avx512"}
TORCH = "torch SDPA"


def build_peak(directory: Path) -> Path:
    library = directory / "libpeak.so"
    subprocess.run(["g++", *PEAK_FLAGS, PEERS / "peak.cpp", "-o", library], check=True)
    return library


def start(args: argparse.Namespace) -> list[Peer]:
    peak = args.peak or build_peak(args.out.parent)
    peers = [Peer("torch", Path(sys.executable), PEERS / "adapters.py", peak, args.threads)]
    for name, target in OURS.items():
        os.environ.pop("TESSERA_CPU", None)
        if target:
            os.environ["TESSERA_CPU"] = target
        peers.append(Peer(name, Path(sys.executable), OUR_ADAPTER, peak, args.threads))
    return peers


def cases(args: argparse.Namespace) -> list[Case]:
    suites, dtypes = args.suites.split(","), args.dtypes.split(",")
    cells = itertools.product(suites, dtypes, (64, 128), (False, True))
    return [Case(suite, dtype, dim, args.keys, args.keys, 16, 16, causal, args.threads)
            for suite, dtype, dim, causal in cells]


def wanted(peer: str, case: Case) -> bool:
    """The other targets differ in bfloat16 alone."""
    return "standard" not in peer and ("avx512" not in peer or case.dtype == "bf16")


def said(words: list[str]) -> list[str]:
    """The command line without --out, which is a path of one machine."""
    skip = words.index("--out") if "--out" in words else len(words)
    return ["python3", *words[:skip], *words[skip + 2:]]


def line(case: Case, record: dict, torch: dict | None, unit: str) -> dict:
    name = f"{case.suite} {case.dtype} {case.label}"
    share = record["best"] / record["peak"] if record["peak"] else 0
    return {"case": name, "peer": record["peer"], "threads": case.threads, "heads": case.heads,
            "gflops": record["best"], "gflops_median": record["median"],
            "ms_min": record["best_ms"], "ms_p50": record["median_ms"], "samples": record["turns"],
            "accepted": record["accepted"], "error": record["error"],
            "percent_of_peak": 100 * share, "peak": unit, "peak_gflops": record["peak"],
            "of_torch": record["best"] / torch["best"] if torch else None}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--keys", type=int, default=2048)
    parser.add_argument("--suites", default="forward,backward")
    parser.add_argument("--dtypes", default="fp32,bf16,fp16")
    parser.add_argument("--samples", type=int, default=15, help="accepted ones of each peer")
    parser.add_argument("--budget", type=float, default=8, help="seconds of a cell")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--peak", type=Path, help="libpeak.so, where there is no g++")
    parser.add_argument("--commit", help="what was measured, where the repository is not at hand")
    args = parser.parse_args()

    origin = provenance(said(sys.argv)) | ({"commit": args.commit} if args.commit else {})
    peers = start(args)
    conductor = Conductor(list(peers), args.samples, args.budget)
    about = {peer.name: conductor.ask(peer, "about", "torch" if peer.name == "torch" else "")
             for peer in peers}
    units, grid = conductor.units(), cases(args)
    conductor.find_peaks(sorted({kind for case in grid for kind in case.bursts}))
    with args.out.open("a") as out:
        for case in grid:
            log(f"{case.suite} {case.dtype} {case.label}")
            records = [r for r in conductor.run(case) if wanted(r["peer"], case)]
            torch = next((r for r in records if r["peer"] == TORCH), None)
            for r in records:
                told = line(case, r, torch, units[case.bursts[-1]])
                log(f"  {r['peer']}: {r['best']:.0f} ({r['median']:.0f}) GFLOP/s, "
                    f"{told['of_torch'] or 0:.2f} x torch, error {r['error']:.1e}")
                version = about.get(r["peer"].split()[0])
                print(json.dumps(origin | {"version": version} | told), file=out, flush=True)
    for peer in peers:
        peer.close()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Times public CPU attention libraries and tessera side by side, in one run.

  peers.py setup [DIR]      makes one virtual environment a peer
  peers.py run [options]    every peer on every cell: JSON lines, and tables with our ratio
  peers.py table FILE       the tables again, in markdown

`setup` needs a pip that sees PyTorch's CPU wheels; `run` needs g++ (for peak.cpp) and, unless
--peers-only, libtessera.so (TESSERA_LIBRARY names another than that of the release build). Start
`run` under `chrt -f 1` where that is allowed: without it, other jobs spoil small cells unseen.
Cells have batch 1, 8 heads and N(0,1) inputs; decode is one query of 32 heads over a cache of
16384 keys in 8 heads of dimension 128. The public peers are in adapters.py, ours is in
../competitors; conductor.py lets them take turns, worker.py is the process of one.

How it measures. Each peer has its own process, which sleeps between its turns. In every round of a
cell each peer has one turn, in random order, so that all see the same machine. A turn is a burst of
register-only multiply-adds on the peer's number of threads, an untimed call (if short), a sample of
4 ms or more, and another burst. A sample is accepted if both bursts reach 93 % of the best of the
run: those of a start of bursts alone, or later ones if better. A figure is `best (median)`: the
median is over accepted samples (`*`: fewer than two; over all if none), the best over all. Results
are first compared with float64 at 256 keys; a peer that is wrong or needs over 10 s is left out.

Figures. GFLOP/s with 4 H N^2 D flops forward, half of that if causal, 2.5 times that backward (also
for standard attention, which keeps P and so does 4 of the 5 products). Decode: GB/s, K and V read
once. Percentages are of the best burst in the same process: fp32 multiply-adds for fp32 and fp16,
the widest bf16 unit for bf16, memory reads for decode. Shared machines read memory in fast and slow
spells, so a decode median is compared with the median read around its samples.

Adapters. `--peer NAME=FILE` adds a peer: a Python file, run with numpy, that defines

  prepare(case, q, k, v, grad) -> {variant: (call, read)}

case has suite, dtype, dim, queries, keys, heads, kv_heads, causal and threads. q and grad are
[1, heads, queries, dim], k and v [1, kv_heads, keys, dim]: float32, float16, or bfloat16 as its
bits in uint16; they are contiguous and outlive the calls. call() is what is timed: one forward
pass, or one backward pass alone (its forward belongs in prepare), on case.threads threads.
read(call()) gives out, or [dq, dk, dv], in the shapes above. The variant may be "". An exception in
place of a pair says why it cannot be; {} means: not served. A string ABOUT is recorded. The
environment variable PEER_NAME is NAME, so that one file can serve several builds.
"""
from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import tables
from case import Case
from conductor import Conductor, Peer, log
from provenance import REPOSITORY, provenance

HERE = Path(__file__).resolve().parent
OURS = "tessera"
OUR_ADAPTER = HERE.parent / "competitors" / "tessera_adapter.py"
DIRECTORY = REPOSITORY / "build" / "peers"
RESULTS = REPOSITORY / "bench" / "results" / "cpu_peers.jsonl"
ENVIRONMENTS = {  # "+cpu": never the CUDA build
    "torch": ["torch==2.13.0+cpu", "onnx==1.23.2", "onnxruntime==1.32.0", "numpy==2.4.6"],
    "openvino": ["openvino==2026.4.1", "numpy==2.4.6"],
    "zentorch": ["torch==2.13.0+cpu", "zentorch==2.13.0.2", "numpy==2.4.6"],
}
PEERS = {  # name of the peer: its environment, the package whose version is recorded
    "torch": ("torch", "torch"), "ort": ("torch", "onnxruntime"),
    "openvino": ("openvino", "openvino"), "zentorch": ("zentorch", "zentorch")}
SUITES, DTYPES = ("forward", "backward", "decode"), ("fp32", "bf16", "fp16")
PEAK_FLAGS = ["-O3", "-std=c++17", "-pthread", "-shared", "-fPIC"]


def cases(args: argparse.Namespace, threads: int) -> Iterator[Case]:
    masks = {"both": (False, True), "no": (False,), "yes": (True,)}[args.causal]
    for suite, dtype in itertools.product(args.suite, args.dtypes):
        if suite == "decode":
            yield Case(suite, dtype, 128, 1, 16384, 32, 8, False, threads)
            continue
        for dim, n, causal in itertools.product(args.dims, args.seqs, masks):
            yield Case(suite, dtype, dim, n, n, 8, 8, causal, threads)


# ---- Commands ------------------------------------------------------------------------------------


def setup(args: argparse.Namespace) -> None:
    for name, packages in ENVIRONMENTS.items():
        log(f"{name}: {' '.join(packages)}")
        venv.create(args.dir / name, with_pip=True)
        python = args.dir / name / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)


def environments(directory: Path) -> dict[str, Path]:
    """The Python of each environment that setup made."""
    pythons = {name: directory / name / "bin" / "python" for name in ENVIRONMENTS}
    present = {name: python for name, python in pythons.items() if python.exists()}
    if not present:
        raise SystemExit(f"{directory} holds no peer; `peers.py setup {directory}` makes them")
    return present


def build_peak(directory: Path) -> Path:
    library = directory / "libpeak.so"
    subprocess.run(["g++", *PEAK_FLAGS, HERE / "peak.cpp", "-o", library], check=True)
    return library


def start_peers(args: argparse.Namespace, threads: int) -> list[Peer]:
    pythons, library = environments(args.dir), build_peak(args.dir)
    if absent := [name for name in args.only if PEERS[name][0] not in pythons]:
        log(f"left out, since {args.dir} lacks their environment: {', '.join(absent)}")
    peers = [(name, pythons[PEERS[name][0]], HERE / "adapters.py")
             for name in args.only if name not in absent]
    any_python = next(iter(pythons.values()))
    ours = [] if args.peers_only else [(OURS, OUR_ADAPTER)]
    peers += [(name, any_python, adapter) for name, adapter in ours + args.peer]
    return [Peer(*peer, library, threads) for peer in peers]


def describe(conductor: Conductor, peers: list[Peer]) -> list[str]:
    about = [conductor.ask(peer, "about", PEERS.get(peer.name, ("", ""))[1]) for peer in peers]
    return [text for text in about if text]


def run_threads(args: argparse.Namespace, threads: int, keep: Callable[[dict], None]) -> None:
    """All cells on one number of threads."""
    peers = start_peers(args, threads)
    conductor = Conductor(list(peers), args.samples, args.budget)
    about = describe(conductor, peers)
    if not args.peers_only and OURS not in (peer.name for peer in conductor.peers):
        raise SystemExit("tessera could not be started; build it, or give --peers-only")
    keep({"threads": threads, "about": about, "units": conductor.units(), "ours": OURS})
    grid = list(cases(args, threads))
    conductor.find_peaks(sorted({kind for case in grid for kind in case.bursts}))
    for case in grid:
        log(f"{case.suite} {case.dtype} {case.label}, threads: {threads}")
        for r in conductor.run(case):
            log(f"  {r['peer']}: {tables.figure(r)} {r['unit']}, {r['accepted']}/{r['turns']} turns")
            keep(r)
    for peer in peers:
        peer.close()


def run(args: argparse.Namespace) -> None:
    origin, records = provenance(), []
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("a") as out:
        def keep(record: dict) -> None:
            header = "peer" not in record
            records.append({"run": origin["date"]} | (origin if header else {}) | record)
            print(json.dumps(records[-1]), file=out, flush=True)

        for threads in args.threads:
            run_threads(args, threads, keep)
    print(tables.tables(records))


def retell(args: argparse.Namespace) -> None:
    print(tables.tables([json.loads(line) for line in args.file]))


# ---- Options -------------------------------------------------------------------------------------


def several(*allowed: str) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        if wrong := [word for word in text.split(",") if word not in allowed]:
            raise argparse.ArgumentTypeError(f"{wrong[0]!r} is none of {', '.join(allowed)}")
        return text.split(",")

    return parse


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def named_adapter(text: str) -> tuple[str, Path]:
    name, _, file = text.partition("=")
    if name in (*PEERS, OURS) or not Path(file).is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is not NEWNAME=FILE with a file that exists")
    return name, Path(file)


def add_run_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--dir", type=Path, default=DIRECTORY, help="the folder that setup made")
    add("--out", type=Path, default=RESULTS, help="JSON lines are appended")
    add("--threads", type=numbers, default=[1, 2])
    add("--suite", type=several(*SUITES), default=["forward"])
    add("--dims", type=numbers, default=[64, 128])
    add("--seqs", type=numbers, default=[512, 2048, 8192])
    add("--dtypes", type=several(*DTYPES), default=["fp32"])
    add("--causal", choices=["both", "no", "yes"], default="both")
    add("--only", type=several(*PEERS), default=list(PEERS), help="some of the public peers")
    add("--peers-only", action="store_true", help="without tessera")
    add("--peer", type=named_adapter, action="append", default=[], metavar="NAME=FILE")
    add("--samples", type=int, default=15, help="accepted ones wanted of each peer in a cell")
    add("--budget", type=float, default=60, help="seconds after which a cell ends all the same")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("setup")
    command.add_argument("dir", type=Path, nargs="?", default=DIRECTORY)
    command.set_defaults(command=setup)
    command = commands.add_parser("run")
    add_run_options(command)
    command.set_defaults(command=run)
    command = commands.add_parser("table")
    command.add_argument("file", type=argparse.FileType())
    command.set_defaults(command=retell)
    args = parser.parse_args()
    args.command(args)


if __name__ == "__main__":
    main()

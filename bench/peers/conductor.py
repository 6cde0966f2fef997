"""Lets the processes of the peers take turns, and keeps what each turn measured."""
from __future__ import annotations

import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from case import Case

WORKER = Path(__file__).resolve().parent / "worker.py"
ACCEPT = 0.93  # of the best bursts of the run
MIN_ROUNDS = 3  # of samples that are taken whatever the first burst says
PAUSE_SECONDS = 0.05  # after a low burst: a bad spell may pass
OPENING_ROUNDS = 20  # of bursts alone, which find the peaks


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class PeerError(Exception):
    """A peer could not do what it was asked."""


class Peer:
    """The process of one peer, asleep until it is asked something."""

    def __init__(self, name: str, python: Path, adapter: Path, library: Path, threads: int):
        self.name = name
        self.best: dict[str, float] = {}  # of its own bursts, by kind
        pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        environment = os.environ | dict.fromkeys(pools, str(threads)) | {
            "PEER_NAME": name,
            # Threads may stay awake between the parallel parts of one call, not between turns.
            "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "1"}
        self.process = subprocess.Popen(
            [python, WORKER, adapter, library, str(threads)], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, method: str, *arguments):
        """The answer of that method of its Worker."""
        try:
            print(json.dumps([method, *arguments]), file=self.process.stdin, flush=True)
            answer = json.loads(self.process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            raise PeerError(f"its process ended with status {self.process.wait()}") from None
        if "failed" in answer:
            raise PeerError(answer["failed"])
        return answer["answer"]

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def close(self) -> None:
        if not self.ended:
            self.process.communicate()  # the end of its input ends it


@dataclass(eq=False)
class Turns:
    """What one variant of a peer did in one cell."""

    peer: Peer
    variant: str
    error: float  # the largest, against float64
    seconds: list[float | None] = field(default_factory=list)  # None: the first burst was low
    bursts: list[list[dict[str, float]]] = field(default_factory=list)  # around each sample

    @property
    def name(self) -> str:
        return f"{self.peer.name} {self.variant}".rstrip()

    def accepted(self, kind: str, floor: float) -> list[float]:
        return [s for s, bursts in zip(self.seconds, self.bursts)
                if s and all(burst[kind] >= floor for burst in bursts)]


class Conductor:
    """Peers that all work on the same number of threads."""

    def __init__(self, peers: list[Peer], samples: int, budget: float):
        self.peers, self.samples, self.budget = peers, samples, budget
        self.best: dict[str, list[float]] = {}  # three of the run, by kind; the third is the peak
        self.random = random.Random(0)
        self.complaints: set[str] = set()

    def ask(self, peer: Peer, *question):
        """The peer's answer, or None if it cannot; a peer whose process ended is dropped."""
        try:
            return peer.ask(*question)
        except PeerError as error:
            self.complain(peer.name, str(error))
            if peer.ended and peer in self.peers:
                self.peers.remove(peer)
            return None

    def complain(self, name: str, why: str) -> None:
        """Says it once."""
        if (complaint := f"  {name}: {why}") not in self.complaints:
            self.complaints.add(complaint)
            log(complaint)

    def units(self) -> dict[str, str]:
        """The arithmetic unit behind each kind of burst."""
        if not self.peers:
            raise SystemExit("no peer is left")
        return self.peers[0].ask("units")

    def find_peaks(self, kinds: list[str]) -> None:
        for _ in range(OPENING_ROUNDS):
            for peer in list(self.peers):
                self.note(peer, self.ask(peer, "bursts", kinds) or {})

    def note(self, peer: Peer, bursts: dict[str, float]) -> None:
        for kind, rate in bursts.items():
            self.best[kind] = sorted([*self.best.get(kind, []), rate])[-3:]
            peer.best[kind] = max(rate, peer.best.get(kind, 0))

    def floor(self, case: Case) -> float:
        return ACCEPT * self.best[case.bursts[0]][0]

    def prepare(self, case: Case) -> list[Turns]:
        """The variants that can run the case, with no turns yet."""
        ready = []
        for peer in list(self.peers):
            for variant, verdict in (self.ask(peer, "begin", asdict(case)) or {}).items():
                turns = Turns(peer, variant, verdict)
                if isinstance(verdict, str):
                    self.complain(turns.name, verdict)
                else:
                    ready.append(turns)
        return ready

    def run(self, case: Case) -> list[dict]:
        """Gives turns until every variant has its samples or time is up; a record of each."""
        ready, start = self.prepare(case), time.monotonic()
        for round_number in itertools.count():
            floor, opening = self.floor(case), round_number < MIN_ROUNDS
            due = [t for t in ready if len(t.accepted(case.bursts[0], floor)) < self.samples]
            late = not opening and time.monotonic() - start > self.budget
            if late or not due:
                return [self.record(case, turns, floor) for turns in ready]
            self.random.shuffle(due)
            for turns in due:
                if not self.turn(case, turns, 0 if opening else floor):
                    ready.remove(turns)

    def turn(self, case: Case, turns: Turns, floor: float) -> bool:
        """Adds one sample; False if the peer failed."""
        result = self.ask(turns.peer, "sample", turns.variant, case.bursts, floor)
        if result is None:
            return False
        for burst in result["bursts"]:
            self.note(turns.peer, burst)
        turns.seconds.append(result.get("seconds"))
        turns.bursts.append(result["bursts"])
        if not result.get("asleep", True):
            self.complain(turns.name, "its threads spin on after a call and can slow the others")
        if "seconds" not in result:
            time.sleep(PAUSE_SECONDS)
        return True

    def record(self, case: Case, turns: Turns, floor: float) -> dict:
        accepted = turns.accepted(case.bursts[0], floor)
        timed = [s for s in turns.seconds if s]
        best, median = min(timed), statistics.median(accepted or timed)
        limit = case.bursts[-1]
        return asdict(case) | {
            "peer": turns.name, "unit": case.unit,
            "best": case.work / best, "median": case.work / median,
            "best_ms": 1e3 * best, "median_ms": 1e3 * median,
            "peak": turns.peer.best[limit],
            "peak_median": statistics.median(b[limit] for pair in turns.bursts for b in pair),
            "accepted": len(accepted), "turns": len(turns.seconds), "error": turns.error}

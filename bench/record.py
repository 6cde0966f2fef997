#!/usr/bin/env python3
"""Runs a command that prints JSON lines, and keeps them with where they come from.

  bench/record.py cpu_forward -- build/release/bin/tessera bench --shape 1,2048,2048,8,8,64,64 --json

appends each line to bench/results/cpu_forward.jsonl, with the commit, date, processor and command.
A line that names its own command keeps it. Other output is passed on. report.py shows the figures.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))

from provenance import provenance  # noqa: E402  (found by the line above)


def parsed(line: str) -> dict | None:
    """The object on this line, or None for other text."""
    try:
        found = json.loads(line)
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def record(name: str, command: list[str]) -> int:
    """How many lines were kept."""
    origin, kept = provenance(command), 0
    results = HERE / "results" / f"{name}.jsonl"
    results.parent.mkdir(exist_ok=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        with results.open("a") as out:
            for line in process.stdout:
                print(line, end="", flush=True)
                if figures := parsed(line):
                    print(json.dumps(origin | figures), file=out, flush=True)
                    kept += 1
    if process.returncode:
        raise SystemExit(process.returncode)
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the file in bench/results, without .jsonl")
    parser.add_argument("command", nargs="+", help="after --")
    args = parser.parse_args()
    if not record(args.name, args.command):
        raise SystemExit("the command printed no JSON line; is --json missing?")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs nvcc for one kernel; writes what it said, its seconds and its memory beside the result.

    compile_kernel.py --report FILE -- nvcc ...
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    begin = time.monotonic()
    done = subprocess.run(arguments.command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.stderr.write(done.stdout + done.stderr)
        return done.returncode
    # Of the largest process: the front end, the optimiser and ptxas run one after another.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    report = {"seconds": round(time.monotonic() - begin, 2), "peak_bytes": peak,
              "said": done.stdout + done.stderr}
    arguments.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

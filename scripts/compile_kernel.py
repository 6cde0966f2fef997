#!/usr/bin/env python3
"""Runs nvcc for one kernel; writes what it said, the time and the memory of it beside the result.

    compile_kernel.py --report FILE -- nvcc ...
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    done = subprocess.run(arguments.command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.stderr.write(done.stdout + done.stderr)
        return done.returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The peak is that of the largest process: front end, optimiser and ptxas follow one another.
    report = {"cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
              "peak_bytes": used.ru_maxrss * 1024,
              "said": done.stdout + done.stderr}
    arguments.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Where a figure comes from: the commit, the moment, the machine and the command."""
from __future__ import annotations

import datetime
import os
import shlex
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
GENERATED = (":!bench/results", ":!docs/performance.md")  # written by the benchmarks themselves


def git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", REPOSITORY, *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def commit() -> str:
    """The commit that was measured, marked where the working tree differs from it."""
    head = git("rev-parse", "--short=12", "HEAD")
    if not head:
        return "none (no commit)"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", *GENERATED)
    return head + ("-dirty" if changed else "")


def moment() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def processor() -> str:
    """Model, family and number: the name alone does not tell Zen 3 from Zen 4."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "unknown"
    about = dict((part.strip() for part in line.split(":", 1))
                 for line in text.splitlines() if ":" in line)
    numbers = "family {cpu family}, model {model}".format_map(about) if "model" in about else ""
    wide = "AVX-512" if "avx512f" in about.get("flags", "") else "no AVX-512"
    parts = (about.get("model name", "unknown"), numbers, wide, f"{os.cpu_count()} processors")
    return ", ".join(part for part in parts if part)


def scheduler() -> str:
    """The command in front of ours that gave this process real-time priority, or nothing."""
    real_time = {os.SCHED_FIFO: "-f", os.SCHED_RR: "-r"}.get(os.sched_getscheduler(0))
    return f"chrt {real_time} {os.sched_getparam(0).sched_priority} " if real_time else ""


def command(arguments: list[str] | None = None) -> str:
    """The command line, from the root of the repository; by default that of this process."""
    words = ["python3", *sys.argv] if arguments is None else arguments
    prefix = f"{REPOSITORY}/"
    short = [str(Path(w).resolve()) if w.endswith(".py") and Path(w).exists() else w for w in words]
    return scheduler() + shlex.join(word.removeprefix(prefix) for word in short)


def provenance(arguments: list[str] | None = None) -> dict[str, str]:
    return {"commit": commit(), "date": moment(), "processor": processor(),
            "command": command(arguments)}

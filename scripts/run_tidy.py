#!/usr/bin/env python3
"""clang-tidy over the product: the sources of src/ and tools/ that the build compiles, in parallel.

The checks are those of .clang-tidy; each finding is an error.  Sources that were clean and have not
changed since, headers included, are not read again (a stamp lies beside the build).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What g++ alone understands, or what clang-tidy must not do.
DROP = re.compile(r"^(-Werror|-Winvalid-pch|-fprofile-.*|--coverage)$")
TAKES = ("-o", "-c", "-include")  # each takes the next word with it


def arguments(entry: dict[str, str]) -> list[str]:
    """The compiler's own arguments: no launcher, output, input or precompiled header, which would
    have every source read what only some include."""
    words = shlex.split(entry["command"])
    start = next(i for i, w in enumerate(words) if w.startswith("-"))
    kept = []
    skip = False
    for word in words[start:]:
        if not skip and word not in TAKES and not DROP.match(word):
            kept.append(word)
        skip = word in TAKES
    return kept


def fingerprint(entry: dict[str, str], flags: list[str], config: bytes) -> str:
    """Changes with the preprocessed source, the flags and the checks."""
    text = subprocess.run(["clang++-19", *flags, "-E", entry["file"]], cwd=entry["directory"],
                          capture_output=True, check=True).stdout
    return hashlib.sha256(config + " ".join(flags).encode() + text).hexdigest()


def run(entry: dict[str, str], config: Path, stamps: Path) -> tuple[str, str]:
    """The source and what clang-tidy found in it; nothing if it is clean."""
    flags = arguments(entry)
    stamp = stamps / fingerprint(entry, flags, config.read_bytes())
    if stamp.exists():
        return entry["file"], ""
    done = subprocess.run(["clang-tidy-19", "--quiet", f"--config-file={config}", entry["file"],
                           "--", *flags], cwd=entry["directory"], capture_output=True, text=True,
                          check=False)
    if done.returncode == 0:
        stamp.touch()
        return entry["file"], ""
    return entry["file"], done.stdout + done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path, help="a build folder with compile_commands.json")
    parser.add_argument("--only", default="/(src|tools)/", help="pattern of sources to read")
    parser.add_argument("--config", type=Path, default=ROOT / ".clang-tidy")
    args = parser.parse_args()
    entries = json.loads((args.build / "compile_commands.json").read_text(encoding="utf-8"))
    unique = {e["file"]: e for e in entries
              if re.search(args.only, e["file"]) and not e["file"].endswith(".S")}
    stamps = args.build / "tidy"
    stamps.mkdir(exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda e: run(e, args.config, stamps), unique.values()))
    bad = [(file, text) for file, text in results if text]
    for _, text in bad:
        print(text)
    print(f"tidy: {len(results)} files, {len(bad)} with findings")
    return 1 if bad or not results else 0


if __name__ == "__main__":
    sys.exit(main())

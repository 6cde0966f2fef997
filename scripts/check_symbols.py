#!/usr/bin/env python3
"""The exported symbols of the shared library are exactly the lines of tests/abi/symbols.txt."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path


def exported(library: Path, nm: str = "nm") -> set[str]:
    """Names that the dynamic symbol table defines."""
    lines = subprocess.run([nm, "-D", "--defined-only", str(library)], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if line.strip()}


def listed(path: Path) -> set[str]:
    """Names of the list; a line that begins with # is a remark."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return {line for line in lines if line and not line.startswith("#")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("list", type=Path)
    args = parser.parse_args()
    is_, ought = exported(args.library), listed(args.list)
    for name in sorted(is_ - ought):
        print(f"{name} is exported but not listed in {args.list.name}")
    for name in sorted(ought - is_):
        print(f"{name} is listed in {args.list.name} but not exported")
    print(f"symbols: {len(is_)} exported, {len(ought)} listed")
    return 0 if is_ == ought and is_ else 1


if __name__ == "__main__":
    sys.exit(main())

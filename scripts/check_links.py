#!/usr/bin/env python3
"""Every relative link of every Markdown file leads to a file, and its #anchor to a heading."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|(?:src|href)=\"([^\"]+)\"")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)
UNTRACKED = {"demo.svg"}  # made by `make demo`


def anchors(text: str) -> set[str]:
    """The anchors that a forge makes of headings."""
    titles = re.findall(r"^#+\s+(.*?)\s*$", CODE.sub(lambda m: m.group().strip("`"), text), re.M)
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


def broken(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8")
    found = []
    for match in LINK.finditer(CODE.sub("", text)):
        link = match[1] or match[2]
        path, _, anchor = link.partition("#")
        target = file.parent / path if path else file
        if re.match(r"\w+:", link) or path in UNTRACKED:
            continue
        if not target.exists():
            found.append(f"{link}: no such file")
        elif anchor and target.suffix == ".md" and anchor not in anchors(
                target.read_text(encoding="utf-8")):
            found.append(f"{link}: no such heading")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT)
    root = parser.parse_args().root
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=root,
                            capture_output=True, text=True, check=True).stdout.split()
    files = [root / name for name in sorted(set(listed)) if (root / name).exists()]
    found = [f"{f.relative_to(root)}: {b}" for f in files for b in broken(f)]
    print("\n".join([*found, f"links: {len(files)} files, {len(found)} broken"]))
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())

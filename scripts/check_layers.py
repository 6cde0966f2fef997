#!/usr/bin/env python3
"""Who may include whom: reads scripts/layers.json and checks every include of every room.

A room is a folder of C or C++ files.  `sees` lists the rooms (or single files of rooms) that it may
include, `system` what it may include in angle brackets beside the C++ standard library ("any", "std"
or prefixes), `standard` is false where that library does not exist, `forbid` words it may not use and why; the files in `free` are excused from `forbid`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".h", ".hpp", ".cuh", ".c", ".cpp", ".in"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>|(\w+))', re.M)
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)

STANDARD = set("""
algorithm any array atomic barrier bit bitset charconv chrono compare complex concepts
condition_variable coroutine deque exception execution filesystem format forward_list fstream
functional future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list
locale map memory memory_resource mutex new numbers numeric optional ostream queue random ranges
ratio regex scoped_allocator semaphore set shared_mutex source_location span sstream stack stdexcept
stop_token streambuf string string_view syncstream system_error thread tuple type_traits typeindex
typeinfo unordered_map unordered_set utility valarray variant vector version
cassert cctype cerrno cfenv cfloat cinttypes climits clocale cmath csetjmp csignal cstdarg cstddef
cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype
assert.h ctype.h errno.h float.h inttypes.h limits.h math.h stdbool.h stddef.h stdint.h stdio.h
stdlib.h string.h time.h
""".split())


def without_comments_and_strings(text: str) -> str:
    """The code alone; lines keep their numbers."""
    return COMMENT_OR_STRING.sub(lambda m: "\n" * m.group().count("\n"), text)


def room_of(file: Path, table: dict[str, Any]) -> str | None:
    """The room whose folder holds the file; the deepest one where folders nest."""
    rooms = [r for r in table if file.is_relative_to(table[r]["path"])]
    return max(rooms, key=lambda r: len(table[r]["path"]), default=None)


def quoted(name: str, room: str, table: dict[str, Any]) -> str | None:
    """What is wrong with #include "name" in a room."""
    if ".." in Path(name).parts:
        return "goes up with ../; write the path from the room on"
    first = name.split("/")[0]
    if first not in table or "/" not in name:
        return "is no file of a room: ours is \"room/file.hpp\", everybody else's <file.h>"
    sees = table[room]["sees"]
    if first not in sees and name not in sees:
        return f"{room} may include {', '.join(sees)}"
    return None


def angled(name: str, room: str, table: dict[str, Any]) -> str | None:
    """What is wrong with #include <name> in a room."""
    allowed = table[room]["system"]
    if name.split("/")[0] in table:
        users = table[room]["sees"] == ["tessera"] and name.startswith("tessera/")
        return None if users else "is ours: write it in quotes"
    standard = table[room].get("standard", True)
    if allowed == "any" or (standard and name in STANDARD):
        return None
    if allowed != "std" and name.startswith(tuple(allowed)):
        return None
    parts = (["the standard library"] if standard else []) + ([] if allowed == "std" else allowed)
    return f"{room} may include {' and '.join(parts)}"


def complaints(root: Path, file: Path, table: dict[str, Any]) -> list[str]:
    room = room_of(file, table)
    if room is None:
        return []
    text = (root / file).read_text(encoding="utf-8")
    found: list[tuple[int, str]] = []
    for m in INCLUDE.finditer(text):
        wrong = None
        if m[1]:
            wrong = quoted(m[1], room, table)
        elif m[2]:
            wrong = angled(m[2], room, table)
        if wrong:
            found.append((m.start(), f"#include {m[1] or m[2]}: {wrong}"))
    code = without_comments_and_strings(text)
    rules = {} if str(file) in table[room].get("free", []) else table[room].get("forbid", {})
    messages = [f"{file}:{text.count(chr(10), 0, at) + 1}: {what}" for at, what in found]
    for pattern, why in rules.items():
        messages += [f"{file}:{code.count(chr(10), 0, m.start()) + 1}: {m.group()}: {why}"
                     for m in re.finditer(pattern, code)]
    return messages


def check(root: Path, table: dict[str, Any]) -> tuple[list[str], int]:
    files = sorted({f.relative_to(root) for room in table.values()
                    for f in (root / room["path"]).rglob("*") if f.suffix in SUFFIXES})
    return [c for f in files for c in complaints(root, f, table)], len(files)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--table", type=Path, default=ROOT / "scripts" / "layers.json")
    args = parser.parse_args()
    found, count = check(args.root, json.loads(args.table.read_text(encoding="utf-8")))
    print("\n".join([*found, f"layers: {count} files, {len(found)} complaints"]))
    return 1 if found or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

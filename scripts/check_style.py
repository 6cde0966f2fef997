#!/usr/bin/env python3
"""The house numbers of scripts/style.json: functions, files, columns, macros, leftovers, text.

Caps hold for every C and C++ file; medians, 90th percentiles and rates per thousand lines are taken
over the product (src, include, tools).  A line counts if it holds code.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cpp_scan import Function, code_lines, comments, functions

ROOT = Path(__file__).resolve().parent.parent
CODE = {".h", ".hpp", ".cuh", ".c", ".cpp"}
# Split, so that this file does not name what it forbids.
MACHINE = re.compile(r"(?<![\w.<>-])/(?:wo" r"rk|fa" r"rm|ro" r"ot|ho" r"me)/\w|\.py" r"env\b")
HOSTS = re.compile(r"deb\.deb" r"ian\.org|py" r"pi\.org/simple|python" r"hosted|registry\.np" r"mjs"
                   r"|proxy\.gol" r"ang\.org|index\.crat" r"es\.io", re.I)
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
DEAD_CODE = re.compile(r"^(?:.*(?:\w\(.*\)|[^=]=[^=]|\breturn\b|\+\+|--).*;"
                       r"|(?:if|for|while|switch)\s*\(.*[){]|(?:\}\s*)?else\b.*[{;]|\}"
                       r"|#\s*(?:if|include|define)\b.*)$")


@dataclass
class Report:
    found: list[str] = field(default_factory=list)
    functions: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    lines: int = 0
    directives: dict[str, int] = field(default_factory=dict)


def matches(path: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatch(path, p) for p in patterns)


def share(values: list[int], percent: int) -> int:
    """The value that `percent` of all values do not exceed."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)] if values else 0


def check_functions(path: str, found: list[Function], table: dict[str, Any]) -> list[str]:
    cap, door = table["function_lines"]["cap"], table["door"]
    most = door["parameters"] if matches(path, door["files"]) else table["parameters"]
    long = [f"{path}:{f.line}: {f.name} has {f.lines} lines of code; the cap is {cap}"
            for f in found if f.lines > cap]
    wide = [f"{path}:{f.line}: {f.name} has {f.parameters} parameters; the cap is {most} "
            "(take a struct with designated initialisers)" for f in found if f.parameters > most]
    return long + wide


def check_code(path: str, text: str, table: dict[str, Any], report: Report) -> None:
    """Functions, directives and comments of one C or C++ file."""
    found = functions(text)
    report.found += check_functions(path, found, table)
    if path.endswith((".hpp", ".h", ".cuh")) and not matches(path, table["pragma_free"]):
        if not re.search(r"^#pragma once$", text, re.M):
            report.found.append(f"{path}:1: no #pragma once")
    for line, comment in comments(text):
        if DEAD_CODE.match(comment):
            report.found.append(f"{path}:{line}: a comment that reads as code: {comment}")
    if not path.startswith(tuple(f"{room}/" for room in table["product"])):
        return
    lines = code_lines(text)
    report.functions += [f.lines for f in found]
    report.files.append(lines)
    if matches(path, table["preprocessor_free"]):
        return
    report.lines += lines
    for name in table["per_kloc"]:
        count = len(re.findall(rf"^[ \t]*#[ \t]*{name[1:]}", text, re.M))
        report.directives[name] = report.directives.get(name, 0) + count


def check_text(path: str, text: str, table: dict[str, Any], report: Report) -> None:
    """What holds for every line of text, whatever the language."""
    is_code = Path(path).suffix in CODE
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}:{number}"
        if m := MACHINE.search(line):
            report.found.append(f"{where}: names a path of one machine: {m.group()}")
        if m := HOSTS.search(line):
            report.found.append(f"{where}: names a package registry: {m.group()}")
        if m := UNFINISHED.search(line):
            report.found.append(f"{where}: unfinished work: {m.group()}")
        if is_code and len(line) > table["columns"]:
            report.found.append(f"{where}: {len(line)} columns; the cap is {table['columns']}")


def check_length(path: str, text: str, table: dict[str, Any], report: Report) -> None:
    lines = text.count("\n")
    own = [cap for pattern, cap in table["long_files"].items() if fnmatch.fnmatch(path, pattern)]
    cap = own[0] if own else table["file_lines"]["cap"]
    if lines > cap and (own or Path(path).suffix in CODE | {".py", ".sh", ".cmake"}):
        report.found.append(f"{path}: {lines} lines; the cap is {cap}")


def check_measures(table: dict[str, Any], report: Report) -> None:
    """Medians, percentiles and rates over the whole product."""
    for key, values in (("function_lines", report.functions), ("file_lines", report.files)):
        for measure, percent in (("median", 50), ("p90", 90)):
            value, cap = share(values, percent), table[key][measure]
            print(f"style: {measure} of {key} {value} (at most {cap})")
            if value > cap:
                report.found.append(f"{measure} of {key} is {value}; the cap is {cap}")
    for name, cap in table["per_kloc"].items():
        count, kloc = report.directives.get(name, 0), max(report.lines, 1000) / 1000
        print(f"style: {name} per thousand lines {count / kloc:.1f} (at most {cap})")
        if count > cap * kloc:
            report.found.append(f"{count} {name} in {report.lines} lines; the cap is {cap} per 1000")


def texts(root: Path, skip: list[str]) -> dict[str, str]:
    """Every file that is or may be committed, except data."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root,
                            capture_output=True, text=True, check=False)
    names = listed.stdout.splitlines() if listed.returncode == 0 else [
        str(p.relative_to(root)) for p in root.rglob("*") if "build" not in p.parts]
    result = {}
    for name in sorted(set(names)):
        path = root / name
        if path.is_file() and not path.is_symlink() and not matches(name, skip):
            raw = path.read_bytes()
            if b"\0" not in raw:
                result[name] = raw.decode("utf-8")
    return result


def check(root: Path, table: dict[str, Any]) -> Report:
    report = Report()
    for path, text in texts(root, table["data"]).items():
        check_text(path, text, table, report)
        check_length(path, text, table, report)
        if Path(path).suffix in CODE and path.split("/")[0] in table["code"]:
            check_code(path, text, table, report)
    check_measures(table, report)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--table", type=Path, default=ROOT / "scripts" / "style.json")
    args = parser.parse_args()
    report = check(args.root, json.loads(args.table.read_text(encoding="utf-8")))
    print("\n".join([*report.found, f"style: {len(report.files)} files and "
                     f"{len(report.functions)} functions measured, "
                     f"{len(report.found)} complaints"]))
    return 1 if report.found or not report.functions else 0


if __name__ == "__main__":
    sys.exit(main())

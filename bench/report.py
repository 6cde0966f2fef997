#!/usr/bin/env python3
"""Writes docs/performance.md from the JSON lines of bench/results.

  bench/report.py [--results DIR] [--out FILE] [--check]

Two kinds of lines are known. Those of peers/peers.py carry a `run` and become tables of tessera
beside its peers. All others are figures of one command, as record.py keeps them: whatever keys they
have become columns, and `command`, `commit`, `processor` and `date` say where they come from.
--check writes nothing and fails if the page is not what the results say.
"""
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
sys.path.insert(0, str(HERE / "peers"))

import tables  # noqa: E402  (found by the line above)

OURS = "tessera"
ORIGIN = {"command": "Command", "commit": "Commit", "processor": "Device", "date": "Date"}
PLACES = 4  # significant digits of a figure

HEAD = """# Performance

*Written by `bench/report.py` from the files of `bench/results`; do not edit.*

Every figure stands with the command, the commit, the device and the date of its measurement. Peers
are measured in the same run, their turns interleaved with ours, and a percentage is of the hardware
limit that was measured around the samples in the same process: multiply-adds from registers for a
forward or backward pass, memory reads for decode. Cells read `best (median)`; `*` marks a cell with
fewer than two samples that passed the check of a quiet machine. `bench/peers/peers.py --help` tells
the method in full.
"""

AGAIN = """## How to measure again

```
cmake --preset release && cmake --build --preset release
python3 bench/peers/peers.py setup                  # the peers, each in its own environment
chrt -f 1 python3 bench/peers/peers.py run          # where real-time priority is allowed
python3 bench/record.py NAME -- COMMAND ...         # any command that prints JSON lines
python3 bench/report.py                             # this page
```
"""


@dataclass(frozen=True)
class Bar:
    """A share of the limit that tessera means to reach in a cell of the peer benchmark."""

    peer: str
    dim: int
    keys: int
    causal: bool
    percent: float

    def fits(self, r: dict) -> bool:
        cell = (r["suite"], r["dtype"], r["threads"], r["dim"], r["keys"], r["causal"], r["peer"])
        return cell == ("forward", "fp32", 2, self.dim, self.keys, self.causal, self.peer)

    @property
    def label(self) -> str:
        order = ", [B, L, H, D] strides" if self.peer != OURS else ""
        return f"N {self.keys} {'causal' if self.causal else 'full'}, D {self.dim}{order}"


BARS = (Bar(OURS, 64, 2048, False, 85), Bar(OURS, 128, 2048, False, 88),
        Bar(OURS, 64, 2048, True, 80), Bar(OURS, 128, 2048, True, 83),
        Bar(OURS, 64, 512, True, 68), Bar(OURS, 128, 512, True, 70),
        Bar(f"{OURS} BLHD", 64, 2048, False, 80), Bar(f"{OURS} BLHD", 128, 2048, False, 84))


def ratio_bar(causal: bool, keys: int) -> float:
    """Of our rate to that of the best peer: every cell, causal ones more."""
    if not causal:
        return 0.98
    return 1.25 if keys <= 2048 else 1.1


# ---- The bars ------------------------------------------------------------------------------------


def percent(r: dict) -> float:
    return 100 * r["best"] / r["peak"]


def bar_row(bar: Bar, records: list[dict]) -> list[str]:
    best = max(filter(bar.fits, records), key=percent, default=None)
    if best is None:
        return [bar.label, f">= {bar.percent:.0f} %", "not measured", "", ""]
    reached = "reached" if percent(best) >= bar.percent else "missed"
    return [bar.label, f">= {bar.percent:.0f} %", f"{percent(best):.1f} %", reached, best["run"]]


def ratio_rows(records: list[dict]) -> list[list[str]]:
    """The ratio of each float32 forward cell of the last run that has it with peers."""
    cells: dict[tuple, dict[str, dict[str, dict]]] = {}
    for r in records:
        if (r["suite"], r["dtype"]) == ("forward", "fp32"):
            cell = (r["threads"], r["dim"], r["keys"], r["causal"])
            cells.setdefault(cell, {}).setdefault(r["run"], {})[r["peer"]] = r
    rows = [ratio_row(cell, runs) for cell, runs in sorted(cells.items())]
    return [row for row in rows if row]


def ratio_row(cell: tuple, runs: dict[str, dict[str, dict]]) -> list[str]:
    compared = {run: text for run, row in runs.items() if (text := tables.ratio(row, OURS))}
    if not compared:
        return []
    threads, dim, keys, causal = cell
    run, bar = max(compared), ratio_bar(causal, keys)
    reached = "reached" if float(compared[run].split()[0]) >= bar else "missed"
    cell_name = f"N {keys} {'causal' if causal else 'full'}, D {dim}"
    return [f"{cell_name}, {threads} thread{'s' * (threads > 1)}", f">= {bar}", compared[run], reached, run]


def bars_section(records: list[dict]) -> list[str]:
    lines = ["## The bars", "", "float32 forward, batch 1, 8 heads, 2 threads: share of the "
             "multiply-add limit, best of all runs.", ""]
    head = ["cell", "bar", "tessera", "", "run"]
    lines += [*tables.grid(head, [bar_row(bar, records) for bar in BARS]), ""]
    rows = ratio_rows(records)
    if not rows:
        return [*lines, "The ratio to the best peer has not been measured.", ""]
    lines += ["Rate of tessera over that of the best peer of the same run, by best (by median); "
              "the last run of each cell.", ""]
    return [*lines, *tables.grid(["cell", "bar", "ratio", "", "run"], rows), ""]


# ---- Figures of single commands ------------------------------------------------------------------


def shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    if isinstance(value, float):
        return f"{value:.{PLACES}g}"
    text = value if isinstance(value, str) else json.dumps(value)
    return text.replace("|", "\\|")


def quoted(key: str, value: object) -> str:
    return f"`{shown(value)}`" if key == "command" else shown(value)


def common(records: list[dict], key: str) -> bool:
    """All records say the same of this, and say it."""
    return key in records[0] and all(r.get(key) == records[0][key] for r in records)


def figure_table(records: list[dict]) -> list[str]:
    """What all records share stands above the table once; the rest are its columns."""
    above = [key for key in ORIGIN if common(records, key)]
    keys = [key for key in dict.fromkeys(k for r in records for k in r) if key not in above]
    keys.sort(key=lambda key: key in ORIGIN)  # the origin last
    facts = [f"- {ORIGIN[key]}: {quoted(key, records[0][key])}" for key in above]
    missing = [ORIGIN[key].lower() for key in ORIGIN if not any(key in r for r in records)]
    facts += [f"- Not recorded: {', '.join(missing)}"] if missing else []
    body = [[quoted(key, r[key]) if key in r else "" for key in keys] for r in records]
    return [*facts, "", *tables.grid(keys, body), ""]


def figures_section(name: str, records: list[dict]) -> list[str]:
    """One table for each run: a commit, device and date."""
    runs: dict[tuple, list[dict]] = {}
    for r in records:
        origin = tuple(str(r.get(key)) for key in ("commit", "processor", "date"))
        runs.setdefault((*origin, tuple(r)), []).append(r)
    lines = [line for run in runs.values() for line in figure_table(run)]
    return [f"## {name}", "", *lines]


# ---- The page ------------------------------------------------------------------------------------


def read_lines(path: Path) -> list[dict]:
    records = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError("not an object")
        except ValueError as error:
            raise SystemExit(f"{path.name}:{number}: this is no line of results: {error}") from None
        records.append(record)
    return records


def peer_sections(records: list[dict]) -> list[str]:
    lines = bars_section([r for r in records if "peer" in r])
    for moment, run in sorted(tables.by_run(records).items(), reverse=True):
        lines += [f"## Beside the peers: {moment}", "", *tables.run_tables(run)]
    return lines


def page(files: dict[str, list[dict]]) -> str:
    peers = [r for records in files.values() for r in records if "run" in r]
    lines = [HEAD]
    if not any(files.values()):
        lines += ["Nothing has been measured yet: `bench/results` holds no figures.", ""]
    lines += peer_sections(peers)
    for name, records in files.items():
        if single := [r for r in records if "run" not in r]:
            lines += figures_section(name, single)
    return "\n".join([*lines, AGAIN])


def read_results(paths: Iterable[Path]) -> dict[str, list[dict]]:
    return {path.stem: read_lines(path) for path in sorted(paths)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs" / "performance.md")
    parser.add_argument("--check", action="store_true", help="fail if the page is out of date")
    args = parser.parse_args()
    text = page(read_results(args.results.glob("*.jsonl")))
    if not args.check:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text)
    elif not args.out.exists() or args.out.read_text() != text:
        raise SystemExit(f"{args.out.name} is out of date; `bench/report.py` writes it")


if __name__ == "__main__":
    main()

"""Kernels compiled ahead: all of instances.json, none spills, and what compiling them took."""

from __future__ import annotations

import json
import os
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
EMBEDDED = Path(os.environ["TESSERA_EMBEDDED"])
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
MOST_SECONDS, MOST_BYTES = 180, 1.5 * 2**30


def units() -> list[str]:
    """The files that instances.json asks for."""
    wanted = json.loads((ROOT / "src/cuda/instances.json").read_text(encoding="utf-8"))
    return [f"{k['direction']}_sm{k['family']}_{dtype}_d{dim}_{weighing}.{code}"
            for k in wanted["kernels"] for weighing in k["weighings"] for dtype in k["dtypes"]
            for dim in k["dims"]
            for code in [f"sm_{arch}.cubin" for arch in k["cubins"]]
            + [f"compute_{arch}.ptx" for arch in k["ptx"]]]


class Ahead(unittest.TestCase):
    def setUp(self) -> None:
        self.reports = {name: json.loads((EMBEDDED / f"{name}.json").read_text(encoding="utf-8"))
                        for name in units()}

    def test_no_kernel_spills(self) -> None:
        cubins = {n: r for n, r in self.reports.items() if n.endswith(".cubin")}
        self.assertGreater(len(cubins), 0)
        for name, report in cubins.items():
            with self.subTest(kernel=name):
                # A line for the kernel and one for each function that is out of line.
                found = SPILLS.findall(report["said"])
                self.assertGreater(len(found), 0)
                self.assertEqual({("0", "0", "0")}, set(found), report["said"])
                print(f"{name}: {REGISTERS.findall(report['said'])[0]} registers, "
                      f"{(EMBEDDED / name).stat().st_size} bytes, {report['cpu_seconds']} s")

    def test_compiling_them_is_affordable(self) -> None:
        seconds = sum(report["cpu_seconds"] for report in self.reports.values())
        peak = max(report["peak_bytes"] for report in self.reports.values())
        print(f"{len(self.reports)} units: {seconds:.0f} s of processor time in all, "
              f"{peak / 2**20:.0f} MiB for the largest process")
        self.assertLess(2 * peak, MOST_BYTES, "two at a time")
        self.assertLess(seconds / 2, MOST_SECONDS, "on two cores")


if __name__ == "__main__":
    unittest.main()

"""Plants bugs in the text of the kernel, one at a time: the emulator names each in five schedules.

A few bugs break no rule and give wrong numbers; of those the report is WRONG.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ["TESSERA_BUILD"])
CXX = os.environ["TESSERA_CXX"].split()
OBJECTS = os.environ["TESSERA_OBJECTS"].split(";")
SCHEDULES = range(1, 6)

KERNEL = "kernel/forward_sm80.cuh"
SHARED = "tile/shared.cuh"
MULTIPLY = "tile/multiply.cuh"
STATE = "attention/state.cuh"
BLOCK = "kernel/block.cuh"
FLOAT32 = "kernel/forward_f32_sm80.cuh"
DROPOUT = "attention/dropout.cuh"
CARRY = "attention/carry.cuh"
PARTS = "tile/parts.cuh"
WORDS = "tile/words.cuh"
RACE = r"race with the|may be writing it|nobody has written"


class Mutant(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    report: str
    scenario: str = "plain"  # of mutant.cpp


MUTANTS = [
    Mutant("keys not waited for", KERNEL, "isa::copy_wait<1>();\n      isa::sync_block();",
           "isa::sync_block();", r"ldmatrix.*cp.async of .*may be writing it"),
    Mutant("wait for keys a group too weak", KERNEL, "isa::copy_wait<1>();", "isa::copy_wait<2>();",
           r"ldmatrix.*cp.async of .*may be writing it"),
    Mutant("values not waited for", KERNEL, "isa::copy_wait<2>();\n      isa::sync_block();",
           "isa::sync_block();", r"ldmatrix.trans.*cp.async of .*may be writing it"),
    Mutant("wait for values a group too weak", KERNEL, "isa::copy_wait<2>();",
           "isa::copy_wait<3>();", r"ldmatrix.trans.*cp.async of .*may be writing it"),
    Mutant("no barrier after the keys", KERNEL, "isa::copy_wait<1>();\n      isa::sync_block();",
           "isa::copy_wait<1>();", RACE),
    Mutant("no barrier after the values", KERNEL, "isa::copy_wait<2>();\n      isa::sync_block();",
           "isa::copy_wait<2>();", RACE),
    Mutant("one stage in place of two", KERNEL, "return stage(step % C::kStages); }\n  TS_DEVICE Keys v",
           "return stage(0 * step); }\n  TS_DEVICE Keys v", RACE),
    Mutant("values over keys", KERNEL, "stage(C::kStages + step % C::kStages)",
           "stage(step % C::kStages)", RACE),
    Mutant("a stage past the end", KERNEL, "u32(C::kQueryBytes + i", "u32(2 * C::kQueryBytes + i",
           r"cp.async.*out of bounds|st.shared.*out of bounds"),
    Mutant("group of keys not committed", KERNEL,
           "work.key(step));\n    isa::copy_commit();\n    if (step < work.steps)\n      fill<C::kThreads>(memory.values",
           "work.key(step));\n    if (step < work.steps)\n      fill<C::kThreads>(memory.values",
           r"may be writing it"),
    Mutant("a barrier in a branch", KERNEL, "isa::copy_wait<2>();\n      isa::sync_block();",
           "isa::copy_wait<2>();\n      if (isa::warp() != 3) isa::sync_block();",
           r"deadlock(.|\n)*bar.sync|race|may be writing"),
    Mutant("a vote in a branch", STATE, "if (isa::any(outgrown)) raise",
           "if (outgrown && isa::any(outgrown)) raise", r"diverged|deadlock(.|\n)*vote"),
    Mutant("sums not cleared", MULTIPLY, "  s.clear();\n", "", r"mma.sync.*nobody has assigned|WRONG"),
    Mutant("sums of O not cleared", STATE, "    o.clear();\n", "", r"nobody has assigned"),
    Mutant("rows past the end of the tensor", SHARED, "source.exists(first + r) && left > 0",
           "left > 0", r"cp.async.*out of bounds"),
    Mutant("rescale forgotten", STATE, "o[e] *= shrink[Sums<columns>::half(e)]", "o[e] *= 1", r"WRONG"),
    Mutant("the wrong half of P", MULTIPLY, "p.value + 4 * k, y + 2", "p.value + 4 * k, y", r"WRONG"),
    Mutant("swizzle off for reading", MULTIPLY, "b.at(row, 2 * d + lane / 8 % 2)",
           "b.at(row, (2 * d + lane / 8 % 2) ^ 1)", r"WRONG"),
    Mutant("dropout of the keys beside these", DROPOUT, "2 * n + lane % 4 / 2)",
           "2 * n + lane % 2)", r"WRONG", "dropout"),
    Mutant("both lanes draw for one row", DROPOUT, "query + lane / 4 + lane % 2 * 8",
           "query + lane / 4", r"WRONG", "dropout"),
    Mutant("dropped weights missing in the sum", KERNEL,
           "state.template count<T>(weights);\n      if (p.dropout.threshold != 0) drop_some(step);",
           "if (p.dropout.threshold != 0) drop_some(step);\n      state.template count<T>(weights);",
           r"WRONG", "dropout"),
    Mutant("kept weights not scaled", BLOCK, "state.o.scale(p.dropout.factor)",
           "state.o.scale(1)", r"WRONG", "dropout"),
    Mutant("a state measured from the row's maximum", CARRY, "(theirs - top)", "(theirs - mine)",
           r"WRONG", "exact"),
    Mutant("the row's share not divided", CARRY, "keys = a / (a + b);", "keys = a;", r"WRONG",
           "exact"),
    Mutant("the state of another row", CARRY, "query + S::row(2 * h)", "query + S::row(0)", r"WRONG",
           "float32"),
    Mutant("the first part of weights alone", PARTS, "int x = p.kCount; x-- > 0;",
           "int x = 1; x-- > 0;", r"WRONG", "exact"),
    Mutant("the rest of the wrong half", PARTS, "T{u16(to.part[n][i] >> 16)}",
           "T{u16(to.part[n][i])}", r"WRONG", "exact"),
    Mutant("sums of a tile not cleared", PARTS, "    sum.clear();\n", "",
           r"mma.sync.*nobody has assigned", "exact"),
    Mutant("float32: keys overwritten while they are read", FLOAT32,
           "isa::sync_block();\n      start_keys(step + 1);", "start_keys(step + 1);", RACE,
           "float32"),
    Mutant("float32: values overwritten while they are read", FLOAT32,
           "isa::sync_block();\n      start_values(step);", "start_values(step);", RACE, "float32"),
    Mutant("float32: values not waited for", FLOAT32,
           "isa::copy_wait<0>();\n      isa::sync_block();\n      start_keys(step + 1);",
           "isa::sync_block();\n      start_keys(step + 1);",
           r"ld.shared.*cp.async of .*may be writing it", "float32"),
    Mutant("float32: weights of the wrong lane", WORDS, "first + j % 8 / 2)", "first + j % 4)",
           r"WRONG", "float32"),
]
SCENARIOS = sorted({mutant.scenario for mutant in MUTANTS})


class Mutants(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def program(self, mutant: Mutant | None) -> Path:
        """The test program over a copy of the device room with one change."""
        room = self.folder / (re.sub(r"\W", "_", mutant.name) if mutant else "clean")
        shutil.copytree(ROOT / "src" / "device", room / "device")
        if mutant:
            path = room / "device" / mutant.file
            text = path.read_text(encoding="utf-8")
            self.assertEqual(1, text.count(mutant.old), f"{mutant.name}: the text to replace")
            path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        subprocess.run([*CXX, "-std=c++20", "-O1", "-w", f"-I{room}", f"-I{BUILD}/world/emulator",
                        f"-I{BUILD}/view/tests", str(ROOT / "tests/emulator/mutant.cpp"), *OBJECTS,
                        "-o", str(room / "run")], check=True)
        return room / "run"

    def said(self, program: Path, scenario: str) -> list[str]:
        return [subprocess.run([program, scenario, str(seed)], capture_output=True, text=True,
                               check=False, timeout=300).stdout for seed in SCHEDULES]

    def said_with(self, mutant: Mutant) -> list[str]:
        return self.said(self.program(mutant), mutant.scenario)

    def test_the_kernels_as_they_are(self) -> None:
        program = self.program(None)
        for scenario in SCENARIOS:
            for text in self.said(program, scenario):
                self.assertTrue(text.startswith("RIGHT"), f"{scenario}: {text}")

    def test_each_bug_is_named_in_each_schedule(self) -> None:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            answers = list(pool.map(self.said_with, MUTANTS))
        for mutant, texts in zip(MUTANTS, answers):
            for seed, text in zip(SCHEDULES, texts):
                with self.subTest(bug=mutant.name, schedule=seed):
                    self.assertRegex(text, mutant.report)


if __name__ == "__main__":
    unittest.main()

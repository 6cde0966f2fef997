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
RACE = r"race with the|may be writing it|nobody has written"


class Mutant(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    report: str


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
]

HOPPER = "kernel/forward_sm90.cuh"
RING = "tile/ring.cuh"
WAITED = r"has not been waited for|nobody has written"
RELEASED = r"may still read it|has not been waited for"
DRAIN = "      isa::wgmma_wait<0>(state.o);\n      memory.values.release(i - 1);\n"
HOPPER_MUTANTS = [
    Mutant("no fence before the tensor store", HOPPER, "    isa::fence_async();\n    isa::sync_warp();",
           "    isa::sync_warp();", r"fence.proxy.async is missing"),
    Mutant("no sync before the tensor store", HOPPER, "    isa::fence_async();\n    isa::sync_warp();",
           "    isa::fence_async();", r"race with the store|nobody has written|may still read"),
    Mutant("tensor store not drained", HOPPER, "    isa::store_wait_read<0>();\n", "",
           r"its tensor store may still read"),
    Mutant("tensor store not committed", HOPPER, "    isa::store_commit();\n", "",
           r"its tensor store may still read"),
    Mutant("wrong parity of a consumer", RING, "isa::mbarrier_wait(full(n), parity(n)); }",
           "isa::mbarrier_wait(full(n), parity(n) ^ 1); }", WAITED + r"|deadlock"),
    Mutant("wrong parity of the producer", RING, "isa::mbarrier_wait(empty(n), parity(n) ^ 1);",
           "isa::mbarrier_wait(empty(n), parity(n));", r"deadlock(.|\n)*producer waits in mbarrier"),
    Mutant("stage filled without waiting", RING,
           "    isa::mbarrier_wait(empty(n), parity(n) ^ 1);\n", "",
           WAITED + r"|may still read it|come already"),
    Mutant("keys released too early", HOPPER,
           "      isa::wgmma_wait<1>(s);\n      memory.keys.release(i);",
           "      memory.keys.release(i);\n      isa::wgmma_wait<1>(s);", RELEASED),
    Mutant("values released too early", HOPPER, DRAIN,
           "      memory.values.release(i - 1);\n      isa::wgmma_wait<0>(state.o);\n", RELEASED),
    Mutant("scores read before they are there", HOPPER, "      isa::wgmma_wait<1>(s);\n", "",
           r"touches sums(.|\n)*wait_group is missing|may still read"),
    Mutant("wait for O a group too weak", HOPPER, DRAIN,
           DRAIN.replace("wait<0>", "wait<1>"), r"still in flight"),
    Mutant("group not committed", HOPPER, "    isa::wgmma_commit(s);\n", "", r"was not committed"),
    Mutant("no wgmma.fence", HOPPER, "    isa::wgmma_fence(s);\n", "",
           r"touched since the last wgmma.fence"),
    Mutant("P changed under wgmma", HOPPER, DRAIN, "      weights.round(s);\n" + DRAIN,
           r"changes operand A"),
    Mutant("one arrival in place of two", RING, "C::kConsumers, empty_label", "1, empty_label",
           RELEASED + r"|have come already|deadlock"),
    Mutant("three arrivals in place of two", RING, "C::kConsumers, empty_label", "3, empty_label",
           r"deadlock(.|\n)*keys empty.*lacks 1 of 3 arrivals"),
    Mutant("half of the bytes expected", RING, "full(n), C::kKeyBytes);", "full(n), C::kKeyBytes / 2);",
           WAITED + r"|deadlock"),
    Mutant("no fence of the inits", HOPPER, "    isa::mbarrier_init_fence();\n", "",
           r"fence.mbarrier_init is missing"),
    Mutant("no barrier after the inits", HOPPER, "  isa::sync_block();\n", "",
           r"orders its init|no mbarrier"),
    Mutant("named barrier of one warpgroup", HOPPER, "isa::barrier_sync(mine, 256)",
           "isa::barrier_sync(mine, 128)", r"others expect"),
    Mutant("lock never opened", HOPPER, "    if (index == 1) turn.pass();\n", "",
           r"deadlock(.|\n)*in bar.sync"),
    Mutant("swizzle off", HOPPER, "isa::matrix(memory.keys.tile(n), 16, 1024, Swizzle::k128B)",
           "isa::matrix(memory.keys.tile(n), 16, 1024, Swizzle::kNone)", r"with swizzle mode 0"),
    Mutant("the wrong step of K", HOPPER, "C::kPanelOfKeys + d % 4 * 32)",
           "C::kPanelOfKeys + d % 4 * 64)", r"WRONG|VIOLATION"),
    Mutant("a copy from an odd column", RING, "Coordinates{64 * c, at.row",
           "Coordinates{64 * c + 4, at.row", r"innermost coordinate is not a multiple"),
    Mutant("more registers than there are", "policy_sm90.cuh",
           "{Direction::kForward, 64, 128, 128, 2, 24, 240}",
           "{Direction::kForward, 64, 128, 128, 2, 24, 248}", r"deadlock(.|\n)*setmaxnreg.inc"),
    Mutant("a vote in a branch", "attention/overlapped_state.cuh", "grown = isa::any(outgrown);",
           "if (outgrown) grown = isa::any(outgrown);", r"diverged|deadlock(.|\n)*vote"),
    Mutant("rescale forgotten", HOPPER, "      state.rescale();\n      round_weights();\n    }",
           "      round_weights();\n    }", r"WRONG"),
    Mutant("the output's swizzle forgotten", HOPPER, "(chunk ^ line % 8) * 16", "chunk * 16", r"WRONG"),
]


class Mutants(unittest.TestCase):
    source = "mutant.cpp"
    mutants = MUTANTS

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
                        f"-I{BUILD}/view/tests", str(ROOT / "tests/emulator" / self.source), *OBJECTS,
                        "-o", str(room / "run")], check=True)
        return room / "run"

    def said(self, mutant: Mutant | None) -> list[str]:
        program = self.program(mutant)
        return [subprocess.run([program, str(seed)], capture_output=True, text=True, check=False,
                               timeout=300).stdout for seed in SCHEDULES]

    def test_the_kernel_as_it_is(self) -> None:
        for text in self.said(None):
            self.assertTrue(text.startswith("RIGHT"), text)

    def test_each_bug_is_named_in_each_schedule(self) -> None:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            answers = list(pool.map(self.said, self.mutants))
        for mutant, texts in zip(self.mutants, answers):
            for seed, text in zip(SCHEDULES, texts):
                with self.subTest(bug=mutant.name, schedule=seed):
                    self.assertRegex(text, mutant.report)


class HopperMutants(Mutants):
    source = "mutant_sm90.cpp"
    mutants = HOPPER_MUTANTS


if __name__ == "__main__":
    unittest.main()

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
MEMORY = "kernel/memory.cuh"
BAND = "kernel/forward_band_sm80.cuh"
COPIES = "attention/copies.cuh"
VISIBLE = "attention/visible.cuh"
PAIRS = "attention/pair_stream.cuh"
BLOCK = "kernel/block.cuh"
FLOAT32 = "kernel/forward_f32_sm80.cuh"
DROPOUT = "attention/dropout.cuh"
CARRY = "attention/carry.cuh"
PARTS = "tile/parts.cuh"
WORDS = "tile/words.cuh"
FINISHED = "kernel/finished.cuh"
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
    Mutant("one stage in place of two", MEMORY, "return stage(step % C::kStages); }\n  TS_DEVICE Keys v",
           "return stage(0 * step); }\n  TS_DEVICE Keys v", RACE),
    Mutant("values over keys", MEMORY, "stage(C::kStages + step % C::kStages)",
           "stage(step % C::kStages)", RACE),
    Mutant("a stage past the end", MEMORY, "u32(C::kQueryBytes + i", "u32(2 * C::kQueryBytes + i",
           r"cp.async.*out of bounds|st.shared.*out of bounds"),
    Mutant("group of keys not committed", KERNEL,
           "work.key(step));\n    isa::copy_commit();\n    if (step < work.steps)\n      fill<C::kThreads>(memory.values",
           "work.key(step));\n    if (step < work.steps)\n      fill<C::kThreads>(memory.values",
           r"may be writing it"),
    Mutant("a barrier in a branch", KERNEL, "isa::copy_wait<2>();\n      isa::sync_block();",
           "isa::copy_wait<2>();\n      if (isa::warp() != 3) isa::sync_block();",
           r"deadlock(.|\n)*bar.sync|race|may be writing"),
    Mutant("a vote in a branch", STATE, "if (isa::any(most > kSlack + room)) raise",
           "if (most > kSlack + room && isa::any(most > kSlack + room)) raise",
           r"diverged|deadlock(.|\n)*vote"),
    Mutant("a row raised to what one lane has seen", STATE, "seen = largest_of_row(top[h]);",
           "seen = top[h];", r"WRONG"),
    Mutant("sums not cleared", MULTIPLY, "  s.clear();\n", "", r"mma.sync.*nobody has assigned|WRONG"),
    Mutant("sums of O not cleared", STATE, "    o.clear();\n", "", r"nobody has assigned"),
    Mutant("rows past the end of the tensor", SHARED, "source.exists(first + r) && left > 0",
           "left > 0", r"cp.async.*out of bounds"),
    Mutant("rescale forgotten", STATE, "o[e] *= shrink[o.half(e)]", "o[e] *= 1", r"WRONG"),
    Mutant("the wrong half of P", MULTIPLY, "p.tile(m, k), y + 2", "p.tile(m, k), y", r"WRONG"),
    Mutant("swizzle off for reading", MULTIPLY, "lane % 8, lane / 8 % 2)",
           "lane % 8, (lane / 8 % 2) ^ 1)", r"WRONG"),
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
    Mutant("the state of another row", FINISHED, "carried.lse(i)", "carried.lse(i ^ 1)",
           r"WRONG|out of bounds", "float32"),
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
    Mutant("band: copies not waited for", BAND, "isa::copy_wait<0>();\n      isa::sync_block();",
           "isa::sync_block();", r"cp.async of .*may be writing it", "band"),
    Mutant("band: no barrier after the wait", BAND, "isa::copy_wait<0>();\n      isa::sync_block();",
           "isa::copy_wait<0>();", RACE, "band"),
    Mutant("band: rows stored before all lanes have put theirs", BAND,
           "    isa::sync_warp();\n    out.template", "    out.template", RACE, "band"),
    Mutant("band: a key too many is seen", VISIBLE, "(e) >= to - first", "(e) > to - first",
           r"WRONG", "band"),
    Mutant("band: the next tile begins a row on", COPIES, "from += rows * distance;",
           "from += distance;", r"WRONG", "band"),
    Mutant("band: copies of rows that are not there", COPIES,
           "r + thread_row() < end && left > 0;", "left > 0;", r"out of bounds|beyond|WRONG", "band"),
    Mutant("pairs: the mask of another row", PAIRS, "8 * s.half(e));", "0);", r"WRONG", "mask"),
    Mutant("pairs: the mask of the neighbour", PAIRS, "lane % 2 ? 0xff0000 : 0xff,", "0xff,",
           r"WRONG", "mask"),
    Mutant("pairs: a tile left out that some warp sees", PAIRS,
           "some.x | some.y | some.z | some.w", "some.x", r"WRONG", "mask"),
    Mutant("pairs: no barrier after the look ahead", PAIRS,
           "some);\n    isa::sync_block();\n", "some);\n", RACE, "mask"),
    Mutant("pairs: the look ahead past the last row", PAIRS, "first + r + i < rows", "i < rows",
           r"out of bounds|beyond", "mask"),
    Mutant("pairs: a bias that is not there", PAIRS, "r + thread_row<size>() < rows && left > 0;",
           "left > 0;", r"out of bounds|beyond", "bias"),
    Mutant("pairs: one bias for two pairs", PAIRS, "T{u16(pair[h] >> 16)}", "T{u16(pair[h])}",
           r"WRONG", "bias"),
    Mutant("pairs: a stage of keys over one of pairs", MEMORY, "stage(2 * C::kStages)",
           "stage(2 * C::kStages - 1)", RACE, "bias"),
    Mutant("rows leave before the warp has put them", FINISHED, "    isa::sync_warp();\n", "", RACE),
    Mutant("rows leave before all warps are done with the tiles", BLOCK,
           "isa::any_in_block(still_odd != 0)", "isa::any(still_odd != 0)", RACE, "wide"),
    Mutant("rows of two warps in one place", FINISHED, "16 * kRow * isa::warp()",
           "8 * kRow * isa::warp()", RACE),
]
SCENARIOS = sorted({mutant.scenario for mutant in MUTANTS})

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
    scenarios = tuple(SCENARIOS)

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

    def said(self, program: Path, scenario: str) -> list[str]:
        return [subprocess.run([program, scenario, str(seed)], capture_output=True, text=True,
                               check=False, timeout=300).stdout for seed in SCHEDULES]

    def said_with(self, mutant: Mutant) -> list[str]:
        return self.said(self.program(mutant), mutant.scenario)

    def test_the_kernels_as_they_are(self) -> None:
        program = self.program(None)
        for scenario in self.scenarios:
            for text in self.said(program, scenario):
                self.assertTrue(text.startswith("RIGHT"), f"{scenario}: {text}")

    def test_each_bug_is_named_in_each_schedule(self) -> None:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            answers = list(pool.map(self.said_with, self.mutants))
        for mutant, texts in zip(self.mutants, answers):
            for seed, text in zip(SCHEDULES, texts):
                with self.subTest(bug=mutant.name, schedule=seed):
                    self.assertRegex(text, mutant.report)


class HopperMutants(Mutants):
    source = "mutant_sm90.cpp"
    mutants = HOPPER_MUTANTS
    scenarios = ("plain",)


if __name__ == "__main__":
    unittest.main()

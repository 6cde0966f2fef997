"""Every header of src/device compiles alone, by the host's compiler and by nvcc where it is here.

The world of NVRTC is tested in tests/unit/cuda/jit_test.cpp."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ["TESSERA_BUILD"])
CXX = os.environ["TESSERA_CXX"].split()
NVCC = os.environ.get("TESSERA_NVCC", "")
HEADERS = sorted((ROOT / "src" / "device").rglob("*.cuh"))
# Words of Hopper and what is built on them.
HOPPER = {"cluster", "mbarrier", "tensor_copy", "warpgroup", "wgmma", "wgmma_forms", "forward_sm90"}
PTX_ALONE = {"wgmma_forms"}  # lists of registers, for <isa/wgmma.cuh>

HOPPER_KERNELS = """#include "device/kernel/forward_sm90.cuh"
using namespace tessera::device;
#define KERNEL(T, dim)                                                                     \\
  extern "C" __global__ void __launch_bounds__(WarpgroupConfig<T, dim>::kThreads, 1)       \\
      forward_##T##_##dim(const __grid_constant__ sm90::Params p) {                        \\
    sm90::forward<WarpgroupConfig<T, dim>>(p);                                             \\
  }
KERNEL(Float16, 64) KERNEL(Float16, 128) KERNEL(Bfloat16, 64) KERNEL(Bfloat16, 128)
"""


def include_of(header: Path) -> str:
    """How a kernel names it: words of <isa/...> by the world, the rest by the room."""
    path = header.relative_to(ROOT / "src")
    isa = path.parts[:2] == ("device", "isa")
    return f"#include <isa/{path.name}>\n" if isa else f'#include "{path}"\n'


def includes(world: str) -> list[str]:
    return [f"-I{BUILD}/world/{world}", f"-I{BUILD}/view/tests"]


class Compile(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compile(self, command: list[str], name: str, text: str) -> str:
        source = self.folder / name
        source.write_text(text, encoding="utf-8")
        done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertNotRegex(done.stderr, r"\bwarning\b")
        return done.stdout + done.stderr

    def test_there_are_headers(self) -> None:
        self.assertGreater(len(HEADERS), 15)

    def compile_each(self, command: list[str], suffix: str, headers: list[Path]) -> None:
        """Each header alone, as many at a time as there are processors."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for done in [pool.submit(self.compile, command, "_".join(header.parts[-2:]) + suffix,
                                     include_of(header))
                         for header in headers]:
                done.result()

    def test_each_header_alone_in_software(self) -> None:
        self.compile_each([*CXX, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion",
                           "-Wshadow", *includes("emulator")], ".cpp",
                          [h for h in HEADERS if h.stem not in PTX_ALONE])

    @unittest.skipUnless(NVCC, "there is no nvcc")
    def test_each_header_alone_in_ptx(self) -> None:
        for architecture, headers in (("sm_80", [h for h in HEADERS if h.stem not in HOPPER]),
                                      ("sm_90a", [h for h in HEADERS if h.stem in HOPPER])):
            self.compile_each([NVCC, "-std=c++20", f"-arch={architecture}", "-ptx", "-o",
                               os.devnull, *includes("device")], ".cu", headers)

    @unittest.skipUnless(NVCC, "there is no nvcc")
    def test_the_probes_for_silicon(self) -> None:
        self.compile([NVCC, "-std=c++20", "-gencode=arch=compute_90a,code=sm_90a", "-c", "-o",
                      str(self.folder / "silicon.o"), *includes("device"), f"-I{BUILD}/view/gpu"],
                     "probes.cu", '#include "gpu/silicon.cu"\n')

    @unittest.skipUnless(NVCC, "there is no nvcc")
    def test_no_kernel_of_hopper_spills(self) -> None:
        said = self.compile([NVCC, "-std=c++20", "-gencode=arch=compute_90a,code=sm_90a", "-cubin",
                             "-Xptxas", "-v", "-o", str(self.folder / "kernels.cubin"),
                             *includes("device")], "kernels.cu", HOPPER_KERNELS)
        spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, "
                            r"(\d+) bytes spill loads", said)
        # A line for each kernel and for each function that is out of line.
        self.assertGreaterEqual(len(spills), 4)
        self.assertEqual({("0", "0", "0")}, set(spills), said)
        # C75xx: ptxas repairs what it cannot prove by waiting, and says so.
        self.assertNotRegex(said, r"\(C75\d\d\)")


if __name__ == "__main__":
    unittest.main()

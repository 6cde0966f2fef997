"""Every header of src/device compiles alone, in each world that is here; no shipped kernel spills."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ["TESSERA_BUILD"])
CXX = os.environ["TESSERA_CXX"].split()
NVCC = os.environ.get("TESSERA_NVCC", "")
HEADERS = sorted((ROOT / "src" / "device").rglob("*.cuh"))
ARCHITECTURES = ("sm_80", "sm_90")
# Words of Hopper and what is built on them.
HOPPER = {"cluster", "mbarrier", "tensor_copy", "warpgroup", "wgmma", "wgmma_forms", "forward_sm90"}
PTX_ALONE = {"wgmma_forms"}  # lists of registers, for <isa/wgmma.cuh>

KERNELS = """#include "device/kernel/forward_sm80.cuh"
using namespace tessera::device;
#define KERNEL(T, dim)                                                                     \\
  extern "C" __global__ void                                                               \\
      __launch_bounds__(Config<T, dim>::kThreads, Config<T, dim>::kLeastBlocks)            \\
      forward_##T##_##dim(const __grid_constant__ ForwardParams p) {                       \\
    forward<Config<T, dim>>(p);                                                            \\
  }
KERNEL(Float16, 64) KERNEL(Float16, 128) KERNEL(Float16, 256)
KERNEL(Bfloat16, 64) KERNEL(Bfloat16, 128) KERNEL(Bfloat16, 256)
"""

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

    def test_each_header_alone_in_software(self) -> None:
        flags = [*CXX, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Wshadow"]
        for header in HEADERS:
            if header.stem in PTX_ALONE:
                continue
            with self.subTest(header=header.name):
                self.compile([*flags, *includes("emulator")], "alone.cpp", include_of(header))

    @unittest.skipUnless(NVCC, "there is no nvcc")
    def test_each_header_alone_in_ptx(self) -> None:
        flags = [NVCC, "-std=c++20", "-cubin", "-o", str(self.folder / "alone.cubin")]
        for header in HEADERS:
            architecture = "-arch=sm_90a" if header.stem in HOPPER else "-arch=sm_80"
            with self.subTest(header=header.name):
                self.compile([*flags, architecture, *includes("device")], "alone.cu",
                             include_of(header))

    @unittest.skipUnless(NVCC, "there is no nvcc")
    def test_the_probes_for_silicon(self) -> None:
        self.compile([NVCC, "-std=c++20", "-gencode=arch=compute_90a,code=sm_90a", "-c", "-o",
                      str(self.folder / "silicon.o"), *includes("device"), f"-I{BUILD}/view/gpu"],
                     "probes.cu", '#include "gpu/silicon.cu"\n')

    def no_spills(self, architecture: list[str], kernels: str, count: int) -> None:
        said = self.compile([NVCC, "-std=c++20", *architecture, "-cubin", "-Xptxas", "-v", "-o",
                             str(self.folder / "kernels.cubin"), *includes("device")],
                            "kernels.cu", kernels)
        spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, "
                            r"(\d+) bytes spill loads", said)
        self.assertEqual([("0", "0", "0")] * count, spills, said)
        # C75xx: ptxas repairs what it cannot prove by waiting, and says so.
        self.assertNotRegex(said, r"\(C75\d\d\)")

    @unittest.skipUnless(NVCC, "there is no nvcc")
    def test_no_kernel_spills(self) -> None:
        for architecture in ARCHITECTURES:
            with self.subTest(architecture=architecture):
                self.no_spills([f"-arch={architecture}"], KERNELS, 6)

    @unittest.skipUnless(NVCC, "there is no nvcc")
    def test_no_kernel_of_hopper_spills(self) -> None:
        self.no_spills(["-gencode=arch=compute_90a,code=sm_90a"], HOPPER_KERNELS, 4)


if __name__ == "__main__":
    unittest.main()

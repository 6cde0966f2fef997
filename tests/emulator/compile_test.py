"""Every header of src/device compiles alone, in each world that is here."""

from __future__ import annotations

import os
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

    def compile_each(self, command: list[str], suffix: str) -> None:
        """Each header alone, as many at a time as there are processors."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for done in [pool.submit(self.compile, command, "_".join(header.parts[-2:]) + suffix,
                                     include_of(header))
                         for header in HEADERS]:
                done.result()

    def test_each_header_alone_in_software(self) -> None:
        self.compile_each([*CXX, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion",
                           "-Wshadow", *includes("emulator")], ".cpp")

    @unittest.skipUnless(NVCC, "there is no nvcc")
    def test_each_header_alone_in_ptx(self) -> None:
        self.compile_each([NVCC, "-std=c++20", "-arch=sm_80", "-ptx", "-o", os.devnull,
                           *includes("device")], ".cu")


if __name__ == "__main__":
    unittest.main()

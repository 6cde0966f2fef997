"""Every header of src/device compiles alone, in each world that is here."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
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

    def test_each_header_alone_in_software(self) -> None:
        flags = [*CXX, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Wshadow"]
        for header in HEADERS:
            with self.subTest(header=header.name):
                self.compile([*flags, *includes("emulator")], "alone.cpp", include_of(header))

    @unittest.skipUnless(NVCC, "there is no nvcc")
    def test_each_header_alone_in_ptx(self) -> None:
        flags = [NVCC, "-std=c++20", "-arch=sm_80", "-cubin", "-o", str(self.folder / "alone.cubin")]
        for header in HEADERS:
            with self.subTest(header=header.name):
                self.compile([*flags, *includes("device")], "alone.cu", include_of(header))


if __name__ == "__main__":
    unittest.main()

"""What the tests of the command line share: running it, and small files made by hand."""
from __future__ import annotations

import json
import os
import pty
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).resolve().parent / "golden"
FORMATS = {"f2": "e", "f4": "f", "f8": "d", "i4": "i", "i8": "q", "b1": "?"}
SAFE_FORMATS = {"F16": "e", "F32": "f", "F64": "d", "I32": "i", "I64": "q", "BOOL": "?", "U8": "B"}


@dataclass
class Result:
    code: int
    out: str
    err: str

    def json(self) -> dict:
        return json.loads(self.out)


def program() -> str:
    path = os.environ.get("TESSERA_CLI")
    if not path:
        raise unittest.SkipTest("TESSERA_CLI does not name the program")
    return path


def environment(**more: str) -> dict[str, str]:
    """The caller's, without what changes outputs."""
    kept = {k: v for k, v in os.environ.items()
            if k not in ("NO_COLOR", "TESSERA_CPU", "TESSERA_THREADS")}
    # Under AddressSanitizer an allocation that is too large fails as it does without.
    may_fail = f"{kept.get('ASAN_OPTIONS', '')}:allocator_may_return_null=1"
    return kept | {"ASAN_OPTIONS": may_fail} | more


def numbers(count: int, seed: int = 1) -> list[float]:
    """Multiples of 1/64 in [-1, 1), the same everywhere and exact in every floating type."""
    state, result = seed, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        result.append((state >> 57) / 64 - 1)
    return result


def size(shape: tuple[int, ...]) -> int:
    n = 1
    for d in shape:
        n *= d
    return n


def npy(shape: tuple[int, ...], values: list, kind: str = "f4", order: str = "False",
        prefix: str = "<") -> bytes:
    header = f"{{'descr': '{prefix}{kind}', 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    header += b" " * (-(11 + len(header)) % 64) + b"\n"
    data = struct.pack(f"<{len(values)}{FORMATS.get(kind, 'f')}", *values)
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


def read_npy(path: Path) -> tuple[str, tuple[int, ...], list[float]]:
    blob = path.read_bytes()
    (length,) = struct.unpack_from("<H", blob, 8)
    header = blob[10:10 + length].decode()
    kind = re.search(r"'[<|](\w\d)'", header)[1]
    shape = tuple(int(n) for n in re.findall(r"\d+", header.split("'shape':")[1]))
    return kind, shape, list(struct.unpack_from(f"<{size(shape)}{FORMATS[kind]}", blob, 10 + length))


def safetensors(tensors: dict[str, tuple[str, tuple[int, ...], list]]) -> bytes:
    header, data = {}, b""
    for name, (kind, shape, values) in tensors.items():
        raw = (b"".join(struct.pack("<f", x)[2:] for x in values) if kind == "BF16"
               else struct.pack(f"<{len(values)}{SAFE_FORMATS[kind]}", *values))
        header[name] = {"dtype": kind, "shape": list(shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def read_safetensors(path: Path) -> dict[str, tuple[str, list[int], bytes]]:
    blob = path.read_bytes()
    (length,) = struct.unpack_from("<Q", blob)
    data = blob[8 + length:]
    return {name: (e["dtype"], e["shape"], data[slice(*e["data_offsets"])])
            for name, e in json.loads(blob[8:8 + length]).items() if name != "__metadata__"}


class CommandLineTest(unittest.TestCase):
    """Runs the program in a folder of its own, which must be left as the test says."""

    def setUp(self) -> None:
        program()
        self.folder = Path(tempfile.mkdtemp(prefix="tessera-cli-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def run_cli(self, *args: object, **env: str) -> Result:
        done = subprocess.run([program(), *map(str, args)], cwd=self.folder, text=True,
                              capture_output=True, env=environment(**env), timeout=120, check=False)
        # What AddressSanitizer says of an allocation that may fail is not ours.
        err = re.sub(r"==\d+==WARNING: AddressSanitizer failed to allocate .*\n", "", done.stderr)
        return Result(done.returncode, done.stdout, err)

    def run_on_terminal(self, *args: object, **env: str) -> str:
        """Standard output and error as a terminal shows them."""
        ours, theirs = pty.openpty()
        with subprocess.Popen([program(), *map(str, args)], cwd=self.folder, stdout=theirs,
                              stderr=theirs, env=environment(TERM="xterm", **env)) as child:
            os.close(theirs)
            text = b""
            while True:
                try:
                    piece = os.read(ours, 65536)
                except OSError:  # Linux's way to say that the other end is closed
                    break
                if not piece:
                    break
                text += piece
            child.wait(timeout=120)
        os.close(ours)
        return text.decode()

    def put(self, name: str, data: bytes) -> str:
        (self.folder / name).write_bytes(data)
        return name

    def names(self) -> list[str]:
        return sorted(p.name for p in self.folder.iterdir())

    def put_qkv(self, q: tuple[int, ...] = (1, 3, 2, 4), k: tuple[int, ...] = (1, 5, 1, 4),
                v: tuple[int, ...] = (1, 5, 1, 3), kind: str = "f4") -> list[str]:
        for seed, (name, shape) in enumerate((("q", q), ("k", k), ("v", v)), 1):
            self.put(f"{name}.npy", npy(shape, numbers(size(shape), seed), kind))
        return ["--q", "q.npy", "--k", "k.npy", "--v", "v.npy"]

    def assert_near(self, got: list[float], want: list[float], tolerance: float = 1e-6) -> None:
        self.assertEqual(len(got), len(want))
        for x, y in zip(got, want):
            self.assertTrue(x == y or abs(x - y) <= tolerance * max(1, abs(y)), (x, y))

    def done(self, *args: object, **env: str) -> Result:
        result = self.run_cli(*args, **env)
        self.assertEqual((result.code, result.err), (0, ""), result)
        return result

    def refused(self, sentence: str, *args: object, code: int = 2, **env: str) -> Result:
        """One line on standard error, nothing on standard output, no new file."""
        before = self.names()
        result = self.run_cli(*args, **env)
        self.assertEqual(result.code, code, result)
        self.assertEqual(result.out, "")
        self.assertIn(sentence, result.err)
        self.assertTrue(result.err.startswith("tessera: "), result.err)
        self.assertEqual(result.err.count("\n"), 1, result.err)
        self.assertEqual(self.names(), before)
        return result

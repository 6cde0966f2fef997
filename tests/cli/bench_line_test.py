"""tessera bench: lines, sweeps, pictures, refusals."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

CLI = os.environ["TESSERA_CLI"]
FIELDS = {"case", "backend", "target", "threads", "ms_min", "ms_p50", "gflops", "percent_of_peak",
          "peak", "extra_bytes", "command"}


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([CLI, "bench", *words], capture_output=True, text=True, check=False)


def lines(*words: str) -> list[dict[str, Any]]:
    result = bench(*words, "--json")
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return [json.loads(line) for line in result.stdout.splitlines()]


class Line(unittest.TestCase):
    def test_fields_and_their_arithmetic(self) -> None:
        line, = lines("--shape", "1,128,128,2,1,16,8", "--causal", "--samples", "2", "--threads", "1")
        self.assertLessEqual(FIELDS, line.keys())
        pairs = 2 * 128 * 129 // 2
        self.assertEqual(line["flops"], 2 * (16 + 8) * pairs)
        self.assertAlmostEqual(line["gflops"], line["flops"] / line["ms_min"] * 1e-6)
        self.assertLessEqual(line["ms_min"], line["ms_p50"])
        self.assertEqual(line["threads"], 1)
        self.assertEqual(line["samples"], 2)
        self.assertEqual(line["backend"], "cpu")
        self.assertGreater(line["extra_bytes"], 0)
        if line["peak"] is not None:
            self.assertAlmostEqual(line["percent_of_peak"],
                                   100 * line["gflops"] / line["peak_gflops"])

    def test_the_backward_pass_has_five_products(self) -> None:
        line, = lines("--shape", "1,128,128,2,1,16,8", "--causal", "--samples", "2", "--threads", "1",
                      "--pass", "backward")
        self.assertEqual(line["flops"], 2 * (3 * 16 + 2 * 8) * 2 * 128 * 129 // 2)
        self.assertEqual(line["case"], "backward f32 1,128,128,2,1,16,8 causal")
        self.assertIn("--pass backward", line["command"])

    def test_decoding_is_a_share_of_reading(self) -> None:
        line, = lines("--shape", "3,1,200,4,2,16,8", "--kv-lengths", "200,0,50", "--kv-starts",
                      "20,0,10", "--dtype", "f16", "--samples", "1", "--threads", "1", "--pass",
                      "decode")
        self.assertEqual(line["bytes"], (180 + 40) * 2 * (16 + 8) * 2)
        self.assertEqual(line["flops"], 2 * (180 + 40) * 4 * (16 + 8))
        self.assertAlmostEqual(line["gbytes_per_s"], line["bytes"] / line["ms_min"] * 1e-6)
        # Of one sample, best and median are the same.
        self.assertAlmostEqual(line["percent_of_read"],
                               100 * line["gbytes_per_s"] / line["read_gbytes_per_s"])
        self.assertEqual(line["accepted"], 1)
        self.assertEqual([line["peak"], line["percent_of_peak"]], [None, None])
        self.assertEqual(line["case"].split()[:3], ["decode", "f16", "3,1,200,4,2,16,8"])
        words = shlex.split(line["command"])
        again, = lines(*words[words.index("bench") + 1:])
        self.assertEqual([again["bytes"], again["command"]], [line["bytes"], line["command"]])

    def test_what_decoding_does_not_read(self) -> None:
        def read(*options: str) -> int:
            line, = lines("--pass", "decode", *options, "--samples", "1", "--threads", "1")
            return line["bytes"] // (4 * 2 * 16)
        shape = ("--shape", "2,1,40,2,1,16,16")
        self.assertEqual(read(*shape), 2 * 40)
        self.assertEqual(read(*shape, "--mask", "random"), 2 * 40)
        self.assertEqual(read(*shape, "--window", "6,0", "--align", "bottom-right"), 2 * 7)
        self.assertEqual(read(*shape, "--page-size", "16", "--kv-lengths", "3,40"), 43)
        self.assertEqual(read(*shape, "--cache-batch-idx", "1,1"), 2 * 40)
        self.assertEqual(read("--shape", "3,2,40,2,1,16,16", "--cu-seqlens-q", "0,1,1,2",
                              "--cu-seqlens-k", "0,10,30,40"), 10 + 10)

    def test_a_long_cache_is_decoded_unless_another_is_given(self) -> None:
        line, = lines("--pass", "decode", "--dtype", "bf16", "--samples", "1")
        self.assertEqual(line["case"], "decode bf16 1,1,16384,32,8,128,128")
        self.assertEqual(line["bytes"], 2 * 16384 * 8 * 256)

    def test_peak_names_what_it_is_a_share_of(self) -> None:
        for dtype, word in (("f32", "float32 FMA"), ("f16", "float32 FMA"), ("bf16", "")):
            line, = lines("--shape", "1,64,64,1,1,8,8", "--dtype", dtype, "--samples", "1")
            if line["peak"] is not None:
                self.assertIn(word or line["peak"].split()[0], ("float32 FMA", "float32", "bfloat16"))

    def test_the_command_repeats_the_case(self) -> None:
        line, = lines("--shape", "1,64,48,2,2,8,8", "--window", "5,-1", "--align", "top-left",
                      "--samples", "1", "--threads", "1")
        words = shlex.split(line["command"])
        verb, *words = words[words.index("tessera") + 1:]
        self.assertEqual(verb, "bench")
        again, = lines(*words)
        self.assertEqual([again["case"], again["flops"], again["command"]],
                         [line["case"], line["flops"], line["command"]])

    def test_against_standard(self) -> None:
        # Small enough that what a sanitizer adds to each page stays within the slack.
        ours, standard = lines("--shape", "1,512,512,1,1,16,16", "--against", "standard",
                               "--samples", "2", "--threads", "1")
        self.assertEqual([ours["backend"], standard["backend"]], ["cpu", "standard"])
        self.assertEqual(ours["flops"], standard["flops"])
        self.assertAlmostEqual(ours["over_standard"], standard["ms_min"] / ours["ms_min"])
        self.assertEqual(standard["over_standard"], 1)
        matrix = 4 * 512 * 512
        self.assertGreaterEqual(standard["extra_bytes"], matrix)
        self.assertGreaterEqual(standard["resident_bytes"], matrix)
        self.assertLess(ours["extra_bytes"], matrix // 2)

    def test_text(self) -> None:
        result = bench("--shape", "1,64,64,1,1,8,8", "--samples", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        header, row, peak = result.stdout.splitlines()
        self.assertIn("extra memory", header)
        self.assertIn("forward f32 1,64,64,1,1,8,8", row)
        self.assertIn("peak: ", peak)
        self.assertEqual(result.stderr, "")
        result = bench("--shape", "1,1,64,1,1,8,8", "--samples", "1", "--pass", "decode")
        header, row, reads = result.stdout.splitlines()
        self.assertIn("GB/s of reads", header)
        self.assertIn("decode f32 1,1,64,1,1,8,8", row)
        self.assertRegex(reads, r"^reads: [\d.]+ GB/s on \d+ threads?, measured around each sample")


class Sweep(unittest.TestCase):
    def test_of_decoding_is_over_keys(self) -> None:
        shape = ("--shape", "2,9,9,4,2,16,16")
        result = lines("--sweep", "64..128", "--samples", "1", "--pass", "decode", *shape)
        self.assertEqual([line["case"].split()[2] for line in result],
                         ["2,1,64,4,2,16,16", "2,1,128,4,2,16,16"])
        text = bench("--sweep", "64..64", "--samples", "1", "--pass", "decode", *shape).stdout
        header, row = text.splitlines()
        self.assertIn("GB/s of reads", header)
        self.assertEqual(row.split()[0], "64")

    def test_lengths_double(self) -> None:
        result = lines("--sweep", "64..300", "--samples", "1", "--against", "standard")
        self.assertEqual([line["case"].split()[2] for line in result[::2]],
                         [f"1,{n},{n},1,1,64,64" for n in (64, 128, 256)])
        self.assertEqual({line["backend"] for line in result[1::2]}, {"standard"})

    def test_picture(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "picture.svg"
            result = bench("--sweep", "64..256", "--samples", "1", "--against", "standard",
                           "--picture", str(path))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(len(result.stdout.splitlines()), 1 + 3)
            root = xml.fromstring(path.read_text(encoding="utf-8"))
            names = [e.text for e in root.iter() if e.get("class") == "name"]
            self.assertEqual(names, ["tiled", "standard"] * 2)

    def test_picture_in_no_folder(self) -> None:
        result = bench("--sweep", "16..16", "--samples", "1", "--picture", "/nowhere/at/all.svg")
        self.assertEqual(result.returncode, 2)
        self.assertIn("/nowhere/at/all.svg could not be written", result.stderr)


class Refusals(unittest.TestCase):
    def check(self, exit_code: int, sentence: str, *words: str) -> None:
        result = bench(*words)
        self.assertEqual(result.returncode, exit_code, result.stdout + result.stderr)
        self.assertIn(sentence, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_options(self) -> None:
        shape = ("--shape", "1,8,8,1,1,8,8")
        self.check(2, "no backward pass", *shape, "--pass", "backward", "--against", "standard")
        self.check(3, "standard attention", *shape, "--pass", "backward", "--backend", "standard")
        self.check(2, "--pass decode measures one query of each sequence, and sequence 0 has 8",
                   *shape, "--pass", "decode")
        self.check(2, "--pass is 'sideways'", *shape, "--pass", "sideways")
        self.check(2, "--against is 'torch'", *shape, "--against", "torch")
        self.check(2, "--samples is 0", *shape, "--samples", "0")
        self.check(2, "which is the same", *shape, "--against", "standard", "--backend", "standard")
        self.check(2, "--picture draws a sweep", *shape, "--picture", "x.svg")

    def test_sweeps(self) -> None:
        for text in ("64", "0..8", "8..4", "a..b"):
            self.check(2, "--sweep is ", "--sweep", text)
        self.check(2, "drop the files, or the sweep", "--sweep", "8..8", "--q", "q.npy")

    def test_what_the_library_refuses(self) -> None:
        self.check(2, "align", "--shape", "1,8,16,1,1,8,8", "--causal")


if __name__ == "__main__":
    unittest.main()

"""tessera explain: the step trace and the traffic model, recomputed here."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import subprocess
import unittest
from pathlib import Path
from typing import Any

CLI = os.environ["TESSERA_CLI"]
BLOCK = r"^```\n\$ tessera explain(.*)\n((?s:.*?))^```$"


def explain(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([CLI, "explain", *words], capture_output=True, text=True, check=False)


def as_json(*words: str) -> Any:
    result = explain(*words, "--json")
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return json.loads(result.stdout)


def softmax(scores: list[float]) -> list[float]:
    top = max(scores)
    weights = [math.exp(s - top) for s in scores]
    return [w / sum(weights) for w in weights]


class Trace(unittest.TestCase):
    def test_every_step_is_the_softmax_of_its_keys(self) -> None:
        trace = as_json("--n", "24", "--block", "5", "--d", "3", "--seed", "9")["trace"]
        q, k, v = trace["q"], trace["k"], trace["v"]
        scores = [sum(q[d] * k[3 * j + d] for d in range(3)) / math.sqrt(3) for j in range(24)]
        for step in trace["steps"]:
            seen = step["keys"][1]
            p = softmax(scores[:seen])
            for d in range(3):
                mean = sum(p[j] * v[3 * j + d] for j in range(seen))
                self.assertAlmostEqual(step["o_over_l"][d], mean, delta=1e-6)
                self.assertAlmostEqual(step["o"][d], mean * step["l"], delta=1e-5)
            self.assertAlmostEqual(step["m"], max(scores[:seen]), delta=1e-6)
            self.assertEqual(step["grew"], step["m_before"] == "-inf" or step["m"] > step["m_before"])
        self.assertEqual(len(trace["steps"]), 5)
        self.assertLess(trace["steps"][-1]["error"], 1e-6)
        self.assertEqual(trace["steps"][-1]["o_over_l"], trace["out"])
        total = math.log(sum(math.exp(s) for s in scores))
        self.assertAlmostEqual(trace["exact"]["lse"], total, delta=1e-12)
        self.assertAlmostEqual(trace["lse"], total, delta=1e-6)

    def test_presets(self) -> None:
        ascending = as_json("--scores", "0,1,2,3", "--block", "1")["trace"]["steps"]
        self.assertTrue(all(step["grew"] for step in ascending))
        huge = as_json("--scores", "100,99,98,97")["trace"]
        self.assertEqual(huge["naive"][0], "nan")
        hidden = as_json("--hide", "2,3", "--hide", "7")["trace"]
        self.assertEqual([s["skipped"] for s in hidden["steps"]], [False, True, False, False])
        self.assertEqual(hidden["scores"][7], "-inf")
        causal = as_json("--row", "2")["trace"]
        self.assertEqual([s["skipped"] for s in causal["steps"]], [False, False, True, True])
        nothing = as_json("--hide", "0,7")["trace"]
        self.assertEqual([nothing["out"], nothing["lse"]], [[0, 0, 0, 0], "-inf"])
        sink = as_json("--sink", "3", "--hide", "0,7")["trace"]
        self.assertEqual([sink["out"], sink["lse"]], [[0, 0, 0, 0], 3])
        rounded = as_json("--dtype", "bf16", "--n", "64")["trace"]
        self.assertGreater(rounded["steps"][-1]["error"], 1e-5)

    def test_the_command_repeats_it(self) -> None:
        first = as_json("--n", "6", "--block", "3", "--hide", "1", "--hide", "4,5", "--sink", "-1.5")
        words = shlex.split(first["command"])
        self.assertEqual(words[:2], ["tessera", "explain"])
        self.assertEqual(as_json(*words[2:]), first)

    def test_text_shows_what_json_says(self) -> None:
        steps = as_json()["trace"]["steps"]
        text = explain().stdout
        for step in steps:
            self.assertIn(f"{step['m']:.4f}", text)
            self.assertIn(f"{step['l']:.4f}", text)
            self.assertIn(f"{step['error']:.1e}", text)


class Traffic(unittest.TestCase):
    def test_standard_and_tiled_do_the_same_arithmetic(self) -> None:
        for row in as_json()["traffic"]:
            self.assertEqual(row["standard"]["flops"], 4 * row["n"] ** 2 * 64)
            self.assertEqual(row["tiled"]["flops"], row["standard"]["flops"])
            self.assertTrue(row["fits"])
            self.assertLessEqual(row["tile_bytes"], row["sram_bytes"])

    def test_formulas(self) -> None:
        row, = as_json("--n", "4096", "--d", "128", "--dtype", "f16", "--heads", "3",
                       "--tile", "64,32")["traffic"]
        n, d, e = 4096, 128, 2
        self.assertEqual(row["standard"]["bytes"], 3 * e * (4 * n * d + 4 * n * n))
        passes = n // 64
        self.assertEqual(row["tiled"]["bytes"], 3 * (e * (2 * n * d + 2 * n * d * passes) + 4 * n))
        self.assertEqual(row["resident"]["bytes"], 3 * (e * 4 * n * d + 4 * n))
        self.assertEqual(row["standard"]["allocated_bytes"], 3 * e * n * n)
        self.assertEqual(row["tiled"]["allocated_bytes"], 3 * 4 * n)
        self.assertAlmostEqual(row["law_bytes"], 3 * n * n * d * d / (196608 / e) * e)

    def test_memory_follows_the_square_and_the_length(self) -> None:
        rows = as_json()["traffic"]
        for small, large in zip(rows, rows[1:]):
            self.assertEqual(large["standard"]["allocated_bytes"],
                             4 * small["standard"]["allocated_bytes"])
            self.assertEqual(large["tiled"]["allocated_bytes"],
                             2 * small["tiled"]["allocated_bytes"])

    def test_tiles_that_do_not_fit(self) -> None:
        row, = as_json("--n", "1024", "--tile", "1024,1024")["traffic"]
        self.assertFalse(row["fits"])
        self.assertIn("such a kernel could not run", explain("--n", "9", "--sram", "90",
                                                             "--tile", "4,4").stdout)
        row, = as_json("--n", "1024", "--sram", "10")["traffic"]
        self.assertIsNone(row["tile"])
        self.assertIn("Not even one row", explain("--sram", "10").stdout)

    def test_backward_recomputes(self) -> None:
        row = as_json("--pass", "backward")["traffic"][0]
        self.assertEqual(row["tiled"]["flops"] * 4, row["standard"]["flops"] * 5)


class Documentation(unittest.TestCase):
    def test_shows_what_is_printed(self) -> None:
        blocks = 0
        for page in ("online-softmax.md", "traffic.md"):
            text = (Path("docs/how") / page).read_text(encoding="utf-8")
            for command, shown in re.findall(BLOCK, text, re.M):
                self.assertIn(shown, explain(*shlex.split(command)).stdout, page)
                blocks += 1
        self.assertEqual(blocks, 2)


class Refusals(unittest.TestCase):
    def test_sentences(self) -> None:
        for words, sentence in (
                (("--n", "0"), "--n is 0"), (("--block", "x"), "--block is 'x'"),
                (("--sram", "-1"), "--sram is -1"), (("--tile", "4"), "--tile is '4'"),
                (("--pass", "both"), "--pass is 'both'"), (("--hide", "1,2,3"), "--hide is '1,2,3'"),
                (("--scores", "1,,2"), "--scores is ''"),
                (("--scores", "1,2", "--n", "3"), "2 scores are given for 3 keys"),
                (("--n", "2000000"), "the number of keys is 2000000"),
                (("--dtype", "f64"), "--dtype is 'f64'")):
            with self.subTest(words=words):
                result = explain(*words)
                self.assertEqual(result.returncode, 2)
                self.assertIn(sentence, result.stderr)
                self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    unittest.main()

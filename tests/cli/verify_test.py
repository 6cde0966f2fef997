"""tessera verify: within the bound 0, outside it 1."""
import math
import unittest

from support import CommandLineTest, ROOT, npy, read_npy, safetensors

SHAPE = ("--shape", "1,33,65,4,2,64,64")
KEYS = ["max_error", "relative_error", "bound", "lse_max_error", "lse_relative_error", "lse_bound",
        "score_max", "score_product", "pass", "backend", "target", "threads", "shape", "dtype", "command"]


class Verify(CommandLineTest):
    def test_json(self):
        line = self.done("verify", *SHAPE, "--seed", 3, "--json").json()
        self.assertEqual(list(line), KEYS)
        self.assertIs(line["pass"], True)
        self.assertGreater(line["max_error"], 0)
        self.assertLessEqual(line["relative_error"], line["bound"])
        self.assertGreaterEqual(line["bound"], 1e-6)

    def test_the_command_reproduces_the_line(self):
        arguments = (*SHAPE, "--seed", 3, "--causal", "--align", "bottom-right", "--softcap", 5,
                     "--bias", "random", "--mask", "random:33,65", "--alibi", "random", "--sink",
                     "random", "--kv-lengths", "60", "--dtype", "bf16", "--threads", 2)
        line = self.done("verify", *arguments, "--json").json()
        words = line["command"].split()
        self.assertEqual(words[:2], ["tessera", "verify"])
        again = self.done(*words[1:], "--json").json()
        self.assertEqual(line, again)

    def test_gradients(self):
        options = ["--bias", "random:1,4,1,65", "--sink", "random", "--d-lse", "--threads", 1]
        line = self.done("verify", *SHAPE, "--seed", 3, *options, "--backward", "--json").json()
        names = [f"{g}_{n}" for g in ("dq", "dk", "dv", "d_bias", "d_sink")
                 for n in ("max_error", "relative_error", "bound")]
        at = KEYS.index("score_max")
        keys = [*KEYS[:at], *names, *KEYS[at:]]
        keys.insert(keys.index("threads") + 1, "backward_backend")
        self.assertEqual(list(line), keys)
        for g in ("dq", "dk", "dv", "d_bias", "d_sink"):
            self.assertGreater(line[f"{g}_relative_error"], 0)
            self.assertLessEqual(line[f"{g}_relative_error"], line[f"{g}_bound"])
        words = line["command"].split()
        self.assertEqual(self.done(*words[1:], "--json").json(), line)
        text = self.done("verify", *SHAPE, "--backward").out
        self.assertIn("dk error", text)
        self.assertNotIn("d_bias", text)

    def test_gradients_in_every_company(self):
        for options in (["--shape", "2,5,7,4,2,3,2", "--bias", "random:2,1,5,1", "--alibi", "random:2,4",
                         "--align", "1", "--sink", "random"],
                        ["--shape", "2,5,7,4,2,3,2", "--bias", "random:1,4,1,7", "--dtype", "bf16"],
                        ["--shape", "1,4,0,2,2,8,8"], ["--shape", "1,0,4,2,2,8,8"],
                        ["--shape", "0,4,4,2,2,8,8"], ["--shape", "1,1,1,1,1,1,1"],
                        ["--shape", "2,5,7,2,1,3,2", "--kv-lengths", "0,7", "--dtype", "f16"],
                        ["--shape", "1,9,9,2,2,8,8", "--mask", "random", "--backend", "reference"]):
            with self.subTest(options=options):
                self.done("verify", "--backward", *options)

    def test_gradients_are_of_a_call_that_is_made(self):
        call = self.put_qkv()
        self.refused("--result holds the out", "verify", *call, "--result", "r.npy", "--backward")
        self.refused("--d-lse goes with --backward", "verify", *call, "--d-lse")

    def test_the_bound_is_that_of_the_contract(self):
        for dtype, bound in (("f32", 1e-6), ("f16", 4e-4), ("bf16", 3e-3)):
            line = self.done("verify", *SHAPE, "--dtype", dtype, "--json").json()
            factor = max(1, max(line["score_max"], line["score_product"] / 3) / 8)
            self.assertAlmostEqual(line["bound"] / (bound * factor), 1, places=9)

    def test_outputs_off_by_twice_the_bound_fail(self):
        call = [*self.put_qkv((1, 40, 4, 64), (1, 50, 4, 64), (1, 50, 4, 64)), "--threads", 1]
        self.done("run", *call, "--out", "out.npy")
        bound = self.done("verify", *call, "--result", "out.npy", "--json").json()["bound"]
        _, shape, out = read_npy(self.folder / "out.npy")
        # f8 keeps the scaled numbers as they are.
        for factor, code in ((0.5, 0), (2, 1), (-2, 1)):
            self.put("off.npy", npy(shape, [x * (1 + factor * bound) for x in out], "f8"))
            result = self.run_cli("verify", *call, "--result", "off.npy", "--json")
            self.assertEqual(result.code, code, result)
            self.assertIs(result.json()["pass"], code == 0)

    def test_a_wrong_lse_fails(self):
        call = [*self.put_qkv(), "--threads", 1]
        self.done("run", *call, "--out", "out.npy", "--lse", "lse.npy")
        _, out_shape, out = read_npy(self.folder / "out.npy")
        _, lse_shape, lse = read_npy(self.folder / "lse.npy")
        for change, code in ((0, 0), (1e-4, 1), (math.inf, 1), (math.nan, 1)):
            self.put("r.safetensors", safetensors({
                "out": ("F32", out_shape, out), "lse": ("F32", lse_shape, [lse[0] + change, *lse[1:]])}))
            result = self.run_cli("verify", *call, "--result", "r.safetensors", "--json")
            self.assertEqual(result.code, code, result)

    def test_a_single_element_of_another_kind_fails(self):
        call = [*self.put_qkv(), "--threads", 1]
        self.done("run", *call, "--out", "out.npy")
        _, shape, out = read_npy(self.folder / "out.npy")
        self.put("nan.npy", npy(shape, [math.nan, *out[1:]]))
        result = self.run_cli("verify", *call, "--result", "nan.npy")
        self.assertEqual(result.code, 1)
        self.assertIn("outside the bound", result.out)
        result = self.run_cli("verify", *call, "--result", "nan.npy", "--json")
        self.assertIsNone(result.json()["max_error"], "JSON has no infinity")

    def test_results_of_another_shape_are_refused(self):
        call = self.put_qkv()
        self.put("r.npy", npy((1, 3, 2, 2), [0.0] * 12))
        self.refused("this call gives floating-point numbers of shape [1, 3, 2, 3]", "verify", *call,
                     "--result", "r.npy")

    def test_example_data(self):
        data = ROOT / "examples" / "data"
        for path in sorted(data.glob("minilm-*.safetensors")):
            self.done("verify", "--input", path)
            line = self.done("verify", "--input", path, "--json", "--result",
                             data / f"expected-{path.name}").json()
            self.assertIs(line["pass"], True)
            self.assertIn("lse_bound", line)
            self.assertNotIn("backend", line)

    def test_edges(self):
        for options in (["--shape", "1,4,0,2,2,8,8"], ["--shape", "0,4,4,2,2,8,8"],
                        ["--shape", "1,0,4,2,2,8,8"], ["--shape", "1,1,1,1,1,1,1"],
                        ["--shape", "2,5,7,3,1,3,2", "--kv-lengths", "0,7"],
                        ["--shape", "2,5,7,1,1,3,2", "--alibi", "random:2,1", "--align", "2"],
                        ["--shape", "1,5,7,2,2,3,2", "--window", "0,0", "--align", "-3"],
                        ["--shape", "3,5,7,3,1,3,2", "--alibi", "random:3,3", "--align", "0"],
                        ["--shape", "1,9,9,2,2,8,8", "--scale", "0"],
                        ["--shape", "1,9,9,2,2,8,8", "--backend", "reference"],
                        ["--shape", "1,9,9,2,2,8,8", "--backend", "standard"]):
            with self.subTest(options=options):
                self.done("verify", *options)


if __name__ == "__main__":
    unittest.main()

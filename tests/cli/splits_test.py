"""--splits: a call whose keys are cut into ranges is the whole call."""
import math
import struct
import unittest

from support import CommandLineTest, npy, numbers, read_npy, read_safetensors, safetensors

SHAPE = ("--shape", "2,7,40,4,2,16,8")
BOTTOM_RIGHT = ("--causal", "--align", "bottom-right")
PACKED = ("--shape", "3,20,40,4,2,16,8", "--cu-seqlens-q", "0,3,3,19", "--cu-seqlens-k",
          "0,10,20,39")


class Splits(CommandLineTest):
    # Every way to say which keys there are and what they weigh.
    CALLS = (
        (*SHAPE,),
        (*SHAPE, *BOTTOM_RIGHT),
        ("--shape", "1,40,40,2,2,16,8", "--window", "3,5"),
        (*SHAPE, "--window", "9,2", "--align", "20"),
        (*SHAPE, "--mask", "random", "--bias", "random:1,4,1,40", "--softcap", "2"),
        (*SHAPE, "--mask", "random:1,1,1,40", "--alibi", "random:2,4", "--align", "bottom-right"),
        (*SHAPE, "--sink", "random", "--kv-lengths", "3,40", "--kv-starts", "3,38"),
        (*SHAPE, "--dropout", "0.25", "--dropout-seed", "7", "--kv-lengths", "39,0"),
        (*SHAPE, "--page-size", "7", "--kv-lengths", "17,40", *BOTTOM_RIGHT, "--dtype", "f16"),
        ("--shape", "3,1,40,4,2,16,8", "--cache-batch-idx", "4,0,4", "--kv-lengths", "3,40,17",
         "--alibi", "random", "--align", "bottom-right", "--dtype", "bf16"),
        (*PACKED, *BOTTOM_RIGHT, "--sink", "random"),
        (*PACKED, "--seqused-q", "2,0,9", "--seqused-k", "9,3,0", "--dropout", "0.5"),
        (*PACKED[:4], "--kv-lengths", "40,1,20", "--alibi", "random", "--align", "bottom-right"),
        ("--shape", "2,0,5,2,2,8,8"), ("--shape", "0,3,5,2,2,8,8"), ("--shape", "2,3,0,2,2,8,8"),
    )

    def test_verify(self):
        """Within the bound of the whole call, whatever the number of ranges."""
        for call in self.CALLS:
            whole = self.done("verify", *call, "--json").json()
            for splits in (1, 2, 3, 45):
                with self.subTest(call=call, splits=splits):
                    line = self.done("verify", *call, "--splits", splits, "--json").json()
                    self.assertIs(line["pass"], True)
                    self.assertEqual(line["splits"], splits)
                    for bound in ("bound", "lse_bound"):
                        self.assertEqual(line[bound], whole[bound])
                    self.assertEqual(self.done(*line["command"].split()[1:], "--json").json(), line)

    def test_every_backend(self):
        for backend in ("cpu", "reference", "standard"):
            line = self.done("verify", *SHAPE, *BOTTOM_RIGHT, "--kv-lengths", "9,40", "--splits", 3,
                             "--backend", backend, "--json").json()
            self.assertEqual((line["pass"], line["backend"]), (True, backend))

    def test_gradients_are_those_of_the_merged_out(self):
        for call in ((*SHAPE, *BOTTOM_RIGHT, "--sink", "random", "--bias", "random"),
                     (*SHAPE, "--dropout", "0.25", "--dtype", "bf16"),
                     (*PACKED, *BOTTOM_RIGHT)):
            with self.subTest(call=call):
                line = self.done("verify", *call, "--splits", 3, "--backward", "--d-lse",
                                 "--json").json()
                self.assertIs(line["pass"], True)
                self.assertIn("dk_bound", line)

    # ---- What a range is ----

    def floats(self, name: str, tensor: str) -> list[float]:
        raw = read_safetensors(self.folder / name)[tensor][2]
        return list(struct.unpack(f"<{len(raw) // 4}f", raw))

    def merged(self, ranges: tuple[tuple[str, str], ...], *call: object) -> list[float]:
        """out and lse of states of ranges, merged in double here."""
        out, weight = [0.] * 12, [0.] * 6
        for starts, lengths in ranges:
            self.done("run", *call, "--kv-starts", starts, "--kv-lengths", lengths, "--state-out",
                      "s.safetensors")
            lse, o = self.floats("s.safetensors", "lse"), self.floats("s.safetensors", "out")
            for r in range(6):
                weight[r] += math.exp(lse[r])
                for d in range(2):
                    out[2 * r + d] += math.exp(lse[r]) * o[2 * r + d]
        return [x / weight[n // 2] for n, x in enumerate(out)] + [math.log(w) for w in weight]

    def test_ranges_cut_the_keys_there_are(self):
        """Of 5 and of 2 keys, two ranges are 3 + 2 and 1 + 1; H = 1, so rows lie as lse does."""
        call = self.put_qkv((2, 3, 1, 4), (2, 6, 1, 4), (2, 6, 1, 2))
        want = self.merged((("1,2", "4,3"), ("4,3", "6,4")), *call)
        self.done("run", *call, "--kv-starts", "1,2", "--kv-lengths", "6,4", "--splits", 2,
                  "--state-out", "two.safetensors")
        got = self.floats("two.safetensors", "out") + self.floats("two.safetensors", "lse")
        self.assert_near(got, want)

    def test_the_sink_and_the_first_state_count_once(self):
        call = self.put_qkv()
        self.put("sink.npy", npy((2,), [2, 3]))
        for options in (["--sink", "sink.npy"], ["--state-in", "s.safetensors"]):
            self.put("s.safetensors", safetensors({
                "out": ("F32", (1, 3, 2, 3), numbers(18)), "lse": ("F32", (1, 2, 3), [2] * 6)}))
            with self.subTest(options=options):
                for name, more in (("a", []), ("b", ["--splits", 4])):
                    self.done("run", *call, *options, *more, "--out", f"{name}.safetensors",
                              "--lse", f"{name}.safetensors")
                for tensor in ("out", "lse"):
                    self.assert_near(self.floats("b.safetensors", tensor),
                                     self.floats("a.safetensors", tensor))

    def test_files_have_the_types_of_the_whole_call(self):
        call = (*self.put_qkv(), "--dtype", "f16", "--splits", "2")
        line = self.done("run", *call, "--out", "out.npy", "--lse", "lse.npy", "--json").json()
        self.assertEqual((line["splits"], line["dtype"]), (2, "float16"))
        self.assertIn("--splits 2", line["command"])
        self.assertEqual(read_npy(self.folder / "out.npy")[:2], ("f2", (1, 3, 2, 3)))
        self.assertEqual(read_npy(self.folder / "lse.npy")[:2], ("f4", (1, 2, 3)))
        self.assertRegex(self.done("run", *call, "--out", "out.npy").out, r"(?m)^splits +2$")
        self.assertRegex(self.done("verify", *SHAPE, "--splits", 3).out, r"(?m)^splits +3$")

    def test_plan_is_that_of_the_first_range(self):
        plan = self.done("plan", *SHAPE, "--sink", "random", "--splits", 4, "--json").json()
        self.assertEqual(plan["problem"]["options"], ["lse", "sink", "kv_lengths", "kv_starts"])
        self.done("plan", "--shape", "1,1048576,1048576,64,8,128,128", "--splits", 2)

    # ---- Refusals ----

    def test_refusals(self):
        for splits in ("0", "-1", "10001"):
            self.refused(f"--splits is {splits}; give a number from 1 to 10000", "verify", *SHAPE,
                         "--splits", splits)
        self.refused("--splits is 'x'", "run", *SHAPE, "--splits", "x")
        self.refused("--splits cuts one that is made", "verify", *SHAPE, "--splits", "2",
                     "--result", "none.npy")
        self.refused("it must be named", "verify", *SHAPE, "--causal", "--splits", "2")
        self.refused("--splits", "bench", *SHAPE, "--splits", "2")


if __name__ == "__main__":
    unittest.main()

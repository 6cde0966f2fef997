"""Rows of a cache, used parts of packed sequences, the offset of dropout."""
import math
import unittest

from support import CommandLineTest, npy, read_npy, safetensors

Q_SHAPE, K_SHAPE, V_SHAPE = (2, 3, 2, 4), (2, 5, 1, 4), (2, 5, 1, 3)


class Caches(CommandLineTest):
    def floats(self, name: str) -> list[float]:
        return read_npy(self.folder / name)[2]

    def dense(self, *options: object) -> list[float]:
        self.done("run", *self.put_qkv(Q_SHAPE, K_SHAPE, V_SHAPE), *options, "--out", "dense.npy")
        return self.floats("dense.npy")

    # ---- cache_batch_idx ----

    def cache(self) -> dict[str, tuple[str, tuple[int, ...], list[float]]]:
        """q, and k and v in rows 2 and 0 of a cache of three, of which row 1 is nobody's."""
        def rows(x: list[float]) -> list[float]:
            half = len(x) // 2
            return x[half:] + [math.nan] * half + x[:half]
        return {"q": ("F32", Q_SHAPE, self.floats("q.npy")),
                "k": ("F32", (3, *K_SHAPE[1:]), rows(self.floats("k.npy"))),
                "v": ("F32", (3, *V_SHAPE[1:]), rows(self.floats("v.npy")))}

    def test_a_sequence_reads_the_row_that_is_named(self):
        want = self.dense("--kv-lengths", "4,5")
        self.put("cache.safetensors", safetensors(self.cache()))
        self.put("rows.npy", npy((2,), [2, 0], "i8"))
        for rows in ("2,0", "rows.npy"):
            self.done("run", "--input", "cache.safetensors", "--cache-batch-idx", rows,
                      "--kv-lengths", "4,5", "--out", "out.npy")
            self.assert_near(self.floats("out.npy"), want)

    def test_rows_of_a_safetensors_file(self):
        want = self.dense()
        for kind in ("I32", "I64"):
            self.put("cache.safetensors", safetensors(
                self.cache() | {"cache_batch_idx": (kind, (2,), [2, 0])}))
            self.done("run", "--input", "cache.safetensors", "--out", "out.npy")
            self.assert_near(self.floats("out.npy"), want)
        self.refused("cache_batch_idx is given twice", "run", "--input", "cache.safetensors",
                     "--cache-batch-idx", "0,0")

    # ---- seqused ----

    def test_rows_that_are_not_used(self):
        want = self.dense("--kv-lengths", "4,3", "--causal", "--align", "bottom-right")
        tensors = {name: ("F32", (1, shape[0] * shape[1], *shape[2:]), self.floats(f"{name}.npy"))
                   for name, shape in (("q", Q_SHAPE), ("k", K_SHAPE), ("v", V_SHAPE))}
        for name in "kv":
            _, shape, values = tensors[name]
            for row in (4, 8, 9):
                values[row * shape[3]:(row + 1) * shape[3]] = [math.nan] * shape[3]
        tensors |= {"cu_seqlens_q": ("I32", (3,), [0, 3, 6]),
                    "cu_seqlens_k": ("I64", (3,), [0, 5, 10])}
        call = ("--input", "call.safetensors", "--causal", "--align", "bottom-right")
        self.put("call.safetensors", safetensors(tensors))
        self.done("run", *call, "--seqused-k", "4,3", "--out", "out.npy")
        self.assert_near(self.floats("out.npy"), want)
        self.done("run", *call, "--seqused-q", "3,1", "--seqused-k", "4,3", "--out", "out.npy")
        self.assert_near(self.floats("out.npy")[:18], want[:18])
        self.assertEqual(self.floats("out.npy")[24:], [0] * 12)
        self.put("call.safetensors", safetensors(
            tensors | {"seqused_q": ("I32", (2,), [3, 1]), "seqused_k": ("I64", (2,), [4, 3])}))
        self.done("run", *call, "--out", "again.npy")
        self.assertEqual(self.floats("again.npy"), self.floats("out.npy"))

    # ---- dropout_offset ----

    def test_the_offset_of_dropout(self):
        def run(*options: object) -> list[float]:
            self.done("run", "--shape", "1,60,90,2,2,16,16", "--dropout", "0.5", "--dropout-seed",
                      5, *options, "--out", "out.npy")
            return self.floats("out.npy")
        plain, other = run(), run("--dropout-offset", 4294967295)
        self.assertEqual(run("--dropout-offset", 0), plain)
        self.assertNotEqual(other, plain)
        self.assertEqual(run("--dropout-offset", 4294967295), other)

    # ---- Every verb ----

    OPTIONS = ((["--shape", "3,5,40,4,2,16,16", "--cache-batch-idx", "4,0,4", "--kv-lengths",
                 "3,40,17", "--causal", "--align", "bottom-right"], None),
               (["--shape", "3,5,40,4,2,16,16", "--cache-batch-idx", "2,0,1", "--kv-starts",
                 "3,39,7"], 5 * (37 + 1 + 33)),
               (["--shape", "3,20,40,4,2,16,16", "--cu-seqlens-q", "0,3,3,20", "--cu-seqlens-k",
                 "0,10,20,40", "--seqused-q", "2,0,9", "--seqused-k", "9,3,20"], 2 * 9 + 9 * 20),
               (["--shape", "3,20,40,4,2,16,16", "--cu-seqlens-q", "0,3,3,20", "--seqused-q",
                 "2,0,17"], 19 * 40),
               (["--shape", "2,20,40,4,2,16,16", "--dropout", "0.25", "--dropout-offset", "9"],
                2 * 20 * 40))

    def test_verify_forward_and_backward(self):
        for options, _ in self.OPTIONS:
            for more in ([], ["--backward", "--d-lse"]):
                with self.subTest(options=options, more=more):
                    line = self.done("verify", *options, *more, "--json").json()
                    self.assertIs(line["pass"], True)
                    self.assertEqual("dq_bound" in line, bool(more))
                    again = self.done(*line["command"].split()[1:], "--json").json()
                    self.assertEqual(line, again)

    def test_bench_and_plan(self):
        for options, pairs in self.OPTIONS:
            with self.subTest(options=options):
                plan = self.done("plan", *options, "--json").json()["problem"]
                named = {option[2:].replace("-", "_") for option in options
                         if option.startswith(("--cache", "--seqused"))}
                self.assertLessEqual(named, set(plan["options"]))
                line = self.done("bench", *options, "--samples", 1, "--threads", 1, "--json").json()
                if pairs is not None:
                    self.assertEqual(line["flops"], pairs * 4 * 2 * 32)

    def test_refusals(self):
        shape = ("--shape", "2,4,4,2,2,8,8")
        call = self.put_qkv(Q_SHAPE, K_SHAPE, V_SHAPE)
        self.put("floats.npy", npy((2,), [0, 1]))
        self.put("square.npy", npy((1, 2), [0, 1], "i4"))
        for options, sentence in (
                ([*call, "--cache-batch-idx", "0,2"], "cache_batch_idx[1] is 2; k and v have 2"),
                ([*shape, "--cache-batch-idx", "0,-1"], "cache_batch_idx[1] is -1"),
                ([*shape, "--cache-batch-idx", "0"], "cache_batch_idx has shape"),
                ([*shape, "--cache-batch-idx", "0,4294967296"], "4294967296, which is no row"),
                ([*shape, "--cache-batch-idx", "0,,1"], "--cache-batch-idx is '0,,1'; give"),
                ([*shape, "--cache-batch-idx", "floats.npy"], "row numbers are int32 or int64"),
                ([*shape, "--cache-batch-idx", "square.npy"], "shape [1, 2]; give [B]"),
                ([*shape, "--cache-batch-idx", "0,1", "--page-size", "2"], "cache_batch_idx"),
                ([*shape, "--seqused-q", "1,1"], "seqused_q is given without cu_seqlens_q"),
                ([*shape, "--seqused-k", "1,1"], "seqused_k is given without cu_seqlens_k"),
                ([*shape, "--cu-seqlens-k", "0,1,4", "--seqused-k", "2,1"], "seqused_k[0] is 2"),
                ([*shape, "--dropout-offset", "4294967296"], "--dropout-offset is '4294967296'"),
                ([*shape, "--dropout-offset", "-1"], "at most 32 bits")):
            with self.subTest(options=options):
                self.refused(sentence, "verify", *options)


if __name__ == "__main__":
    unittest.main()

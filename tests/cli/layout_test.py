"""How sequences lie: packed, in pages, padded on the left; dropout and states."""
import math
import struct
import unittest

from support import CommandLineTest, npy, numbers, read_npy, read_safetensors, safetensors, size

# Two sequences, of 2 and 3 queries and of 4 and 5 keys.
Q_SHAPE, K_SHAPE, V_SHAPE = (2, 3, 2, 4), (2, 5, 1, 4), (2, 5, 1, 3)


class Layouts(CommandLineTest):
    def floats(self, name: str, tensor: str = "") -> list[float]:
        path = self.folder / name
        if not tensor:
            return read_npy(path)[2]
        _, shape, raw = read_safetensors(path)[tensor]
        return list(struct.unpack(f"<{size(tuple(shape))}f", raw))

    def dense(self, *options: object) -> list[float]:
        self.done("run", *self.put_qkv(Q_SHAPE, K_SHAPE, V_SHAPE), *options, "--out", "dense.npy")
        return self.floats("dense.npy")

    def test_packed_sequences_are_those_of_a_batch(self):
        want = self.dense("--kv-lengths", "4,5", "--causal", "--align", "top-left")
        q, k, v = (self.floats(f"{name}.npy") for name in "qkv")
        # The first sequence has one query and one key fewer; a row past the last is nobody's.
        self.put("pq.npy", npy((1, 6, 2, 4), q[:16] + q[24:] + [math.nan] * 8))
        self.put("pk.npy", npy((1, 9, 1, 4), k[:16] + k[20:]))
        self.put("pv.npy", npy((1, 9, 1, 3), v[:12] + v[15:]))
        self.put("cu.npy", npy((3,), [0, 2, 5], "i8"))
        for boundaries in ("0,2,5", "cu.npy"):
            self.done("run", "--q", "pq.npy", "--k", "pk.npy", "--v", "pv.npy", "--cu-seqlens-q",
                      boundaries, "--cu-seqlens-k", "0,4,9", "--causal", "--align", "top-left",
                      "--out", "out.npy", "--lse", "lse.npy")
            kind, shape, out = read_npy(self.folder / "out.npy")
            self.assertEqual((kind, shape), ("f4", (1, 6, 2, 3)))
            self.assert_near(out, want[:12] + want[18:] + [0] * 6)
            _, shape, lse = read_npy(self.folder / "lse.npy")
            self.assertEqual(shape, (1, 2, 6))
            self.assertEqual((lse[5], lse[11]), (-math.inf, -math.inf))

    def test_pages_hold_the_same_keys(self):
        call = self.put_qkv(Q_SHAPE, K_SHAPE, V_SHAPE)
        want = self.dense()
        for page_size in (1, 2, 5, 8):
            self.done("run", *call, "--page-size", page_size, "--seed", 3, "--out", "out.npy")
            self.assert_near(self.floats("out.npy"), want)
        self.dense("--kv-lengths", "2,4")
        self.done("run", *call, "--kv-lengths", "2,4", "--page-size", 2, "--out", "out.npy")
        self.assert_near(self.floats("out.npy"), self.floats("dense.npy"))

    def test_pages_of_a_file(self):
        want = self.dense("--kv-lengths", "4,4")
        k, v = self.floats("k.npy"), self.floats("v.npy")
        # The first row of each page of two keys, of which the second sequence begins at row 5; page
        # 0 is nobody's.
        rows = [None, 7, 0, 2, 5]

        def pages(x: list[float], dim: int) -> list[float]:
            return [y for n in rows for y in ([math.nan] * 2 * dim if n is None
                                              else x[n * dim:(n + 2) * dim])]
        self.put("pk.npy", npy((5, 2, 1, 4), pages(k, 4)))
        self.put("pv.npy", npy((5, 2, 1, 3), pages(v, 3)))
        for kind in ("i4", "i8"):
            self.put("table.npy", npy((2, 3), [2, 3, -7, 4, 1, 0], kind))
            self.done("run", "--q", "q.npy", "--k", "pk.npy", "--v", "pv.npy", "--pages",
                      "table.npy", "--kv-lengths", "4,4", "--out", "out.npy")
            self.assert_near(self.floats("out.npy"), want)

    def test_keys_before_the_start_do_not_exist(self):
        call = self.put_qkv(Q_SHAPE, K_SHAPE, V_SHAPE)
        mask = [False, True, True, True, True, False, False, False, True, True]
        self.put("mask.npy", npy((2, 1, 1, 5), mask, "b1", prefix="|"))
        self.done("run", *call, "--mask", "mask.npy", "--out", "want.npy")
        self.put("starts.npy", npy((2,), [1, 3], "i4"))
        for starts in ("1,3", "starts.npy"):
            self.done("run", *call, "--kv-starts", starts, "--out", "out.npy")
            self.assert_near(self.floats("out.npy"), self.floats("want.npy"))

    def test_options_of_a_safetensors_file(self):
        shapes = {"q": Q_SHAPE, "k": K_SHAPE, "v": V_SHAPE}
        tensors = {name: ("F32", shape, numbers(size(shape), n + 1))
                   for n, (name, shape) in enumerate(shapes.items())}
        tensors["kv_starts"] = ("I32", (2,), [1, 3])
        self.put("call.safetensors", safetensors(tensors))
        result = self.run_cli("run", "--input", "call.safetensors", "--out", "out.npy")
        self.assertEqual((result.code, result.err), (0, ""))
        self.done("run", *self.put_qkv(Q_SHAPE, K_SHAPE, V_SHAPE), "--kv-starts", "1,3", "--out",
                  "want.npy")
        self.assertEqual(self.floats("out.npy"), self.floats("want.npy"))

    # ---- Dropout ----

    def test_dropout(self):
        shape = ("--shape", "1,60,90,2,2,16,16")

        def run(name: str, *options: object) -> list[float]:
            self.done("run", *shape, *options, "--out", name)
            return self.floats(name)
        plain = run("a.npy")
        self.assertEqual(run("b.npy", "--dropout", "0", "--dropout-seed", 5), plain)
        one = run("c.npy", "--dropout", "0.5", "--dropout-seed", 5)
        self.assertEqual(run("d.npy", "--dropout", "0.5", "--dropout-seed", 5), one)
        self.assertNotEqual(run("e.npy", "--dropout", "0.5", "--dropout-seed", 6), one)
        self.assertNotEqual(one, plain)

    # ---- States ----

    def test_a_call_may_start_where_another_ended(self):
        call = (*self.put_qkv(Q_SHAPE, K_SHAPE, V_SHAPE), "--dtype", "bf16")
        self.done("run", *call, "--kv-lengths", "2,3", "--state-out", "s.safetensors")
        state = read_safetensors(self.folder / "s.safetensors")
        self.assertEqual({name: entry[:2] for name, entry in state.items()},
                         {"out": ("F32", [2, 3, 2, 3]), "lse": ("F32", [2, 2, 3])})
        self.done("run", *call, "--kv-starts", "2,3", "--state-in", "s.safetensors", "--state-out",
                  "all.safetensors")
        self.done("run", *call, "--state-out", "want.safetensors")
        for tensor in ("out", "lse"):
            self.assert_near(self.floats("all.safetensors", tensor),
                             self.floats("want.safetensors", tensor))

    def test_an_empty_state_changes_nothing(self):
        # Nine queries are not decoded, with or without a state.
        call = self.put_qkv((2, 9, 2, 4), K_SHAPE, V_SHAPE)
        self.put("s.safetensors", safetensors({
            "out": ("F32", (2, 9, 2, 3), [math.nan] * 108),
            "lse": ("F32", (2, 2, 9), [-math.inf, math.inf] * 18)}))
        self.done("run", *call, "--out", "dense.npy")
        self.done("run", *call, "--state-in", "s.safetensors", "--out", "out.npy")
        self.assertEqual(self.floats("out.npy"), self.floats("dense.npy"))

    # ---- Every verb ----

    OPTIONS = (["--shape", "3,20,40,4,2,16,16", "--cu-seqlens-q", "0,3,3,20", "--cu-seqlens-k",
                "0,10,20,40"],
               ["--shape", "3,20,40,4,2,16,16", "--cu-seqlens-q", "0,3,3,19"],
               ["--shape", "3,20,40,4,2,16,16", "--cu-seqlens-k", "0,10,20,39", "--causal",
                "--align", "bottom-right"],
               ["--shape", "2,5,40,4,2,16,16", "--page-size", "7", "--kv-lengths", "3,40", "--seed",
                "9"],
               ["--shape", "2,5,40,4,2,16,16", "--kv-starts", "3,39", "--dtype", "bf16"],
               ["--shape", "2,50,40,4,2,16,16", "--dropout", "0.25", "--dropout-seed", "123456789"])

    def test_verify_and_its_command(self):
        for options in self.OPTIONS:
            with self.subTest(options=options):
                line = self.done("verify", *options, "--json").json()
                self.assertIs(line["pass"], True)
                self.assertEqual(line["backend"], "cpu")
                self.assertEqual(line["shape"], options[1])
                again = self.done(*line["command"].split()[1:], "--json").json()
                self.assertEqual(line, again)

    def test_bench_counts_the_pairs_there_are(self):
        pairs = (3 * 10 + 17 * 20, 3 * 40 + 16 * 40, None, 5 * 3 + 5 * 40, 5 * 37 + 5 * 1,
                 2 * 50 * 40)
        for options, count in zip(self.OPTIONS, pairs):
            with self.subTest(options=options):
                line = self.done("bench", *options, "--samples", 1, "--threads", 1, "--json").json()
                if count is not None:
                    self.assertEqual(line["flops"], count * 4 * 2 * 32)

    def test_plan(self):
        for options in self.OPTIONS:
            with self.subTest(options=options):
                plan = self.done("plan", *options, "--json").json()
                self.assertEqual(plan["backend"], "cpu")
        plan = self.done("plan", *self.OPTIONS[0], "--json").json()
        self.assertEqual(plan["task_order"], "longest sequence first")
        self.assertEqual(plan["problem"]["options"], ["cu_seqlens_q", "cu_seqlens_k"])
        plan = self.done("plan", *self.OPTIONS[3], "--json").json()
        self.assertEqual(plan["why_packing"], "keys are gathered from small pages")

    def test_verify_from_a_state(self):
        shape = ("--shape", "1,30,40,2,2,16,16", "--dtype", "f16")
        self.done("run", *shape, "--kv-lengths", "25", "--state-out", "s.safetensors")
        line = self.done("verify", *shape, "--kv-starts", "25", "--state-in", "s.safetensors",
                         "--json").json()
        self.assertIs(line["pass"], True)

    # ---- Refusals ----

    def test_refusals(self):
        shape = ("--shape", "2,4,4,2,2,8,8")
        self.put("table.npy", npy((2, 1), [0, 1], "i4"))
        self.put("floats.npy", npy((2, 1), [0, 1]))
        self.put("wide.npy", npy((2, 1), [0, 2**40], "i8"))
        self.put("s.safetensors", safetensors({"out": ("F32", (2, 4, 2, 8), [0] * 128)}))
        call = self.put_qkv()
        for options, sentence in (
                ([*shape, "--page-size", "0"], "--page-size is 0; give the keys of a page"),
                ([*shape, "--page-size", "x"], "--page-size is 'x'; give an integer"),
                ([*shape, "--pages", "table.npy"], "which --shape does not; give files"),
                ([*call, "--page-size", "2", "--cu-seqlens-k", "0,5"], "drop --pages or"),
                ([*call, "--pages", "floats.npy"], "page numbers are int32 or int64"),
                ([*call, "--pages", "wide.npy"], "1099511627776, which is no page"),
                ([*call, "--pages", "table.npy"], "block_table is given without kv_lengths"),
                ([*shape, "--cu-seqlens-q", "0,4"], "--cu-seqlens-q has 2 entries"),
                ([*shape, "--cu-seqlens-k", "0,1,2,3"], "--cu-seqlens-k has 4 entries"),
                ([*shape, "--cu-seqlens-q", "0,3,2"], "boundaries must not decrease"),
                ([*shape, "--cu-seqlens-q", "0,,4"], "--cu-seqlens-q is '0,,4'"),
                ([*shape, "--kv-starts", "1,9"], "kv_starts[1] is 9"),
                ([*shape, "--dropout", "1"], "dropout_p is 1"),
                ([*shape, "--dropout", "many"], "--dropout is 'many'; give a finite number"),
                ([*shape, "--dropout-seed", "-1"], "--dropout-seed is '-1'"),
                ([*shape, "--state-in", "s.safetensors"], "lse")):
            with self.subTest(options=options):
                self.refused(sentence, "verify", *options)
        self.refused("standard attention does not do pages", "verify", *shape, "--backend",
                     "standard", "--page-size", "2", code=3)
        self.refused("--state-out writes out and lse itself", "run", *shape, "--state-out",
                     "a.safetensors", "--out", "b.npy")
        self.refused(".safetensors", "run", *shape, "--state-out", "a.npy")


if __name__ == "__main__":
    unittest.main()

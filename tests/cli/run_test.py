"""tessera run: files in, files out."""
import math
import struct
import unittest

from support import (CommandLineTest, ROOT, numbers, npy, read_npy, read_safetensors, safetensors,
                     size)


def attention(q, k, v, dims, visible=lambda i, j: True):
    """out [B, Lq, H, Dv] and lse [B, H, Lq] in double, by the definition."""
    batch, queries, keys, heads, kv_heads, dim, value_dim = dims
    out = [0.0] * (batch * queries * heads * value_dim)
    lse = [-math.inf] * (batch * heads * queries)
    for b in range(batch):
        for h in range(heads):
            g = h // (heads // kv_heads)
            for i in range(queries):
                row = ((b * queries + i) * heads + h) * dim
                seen = [j for j in range(keys) if visible(i, j)]
                at = [((b * keys + j) * kv_heads + g) for j in seen]
                s = [sum(q[row + d] * k[a * dim + d] for d in range(dim)) / math.sqrt(dim)
                     for a in at]
                if not s:
                    continue
                top = max(s)
                p = [math.exp(x - top) for x in s]
                lse[(b * heads + h) * queries + i] = top + math.log(sum(p))
                for d in range(value_dim):
                    out[((b * queries + i) * heads + h) * value_dim + d] = sum(
                        w * v[a * value_dim + d] for w, a in zip(p, at)) / sum(p)
    return out, lse


DIMS = (1, 3, 5, 2, 1, 4, 3)
Q, K, V = (numbers(24, 1), numbers(20, 2), numbers(15, 3))


class Run(CommandLineTest):
    def assert_near(self, got, want, tolerance=1e-6):
        self.assertEqual(len(got), len(want))
        for x, y in zip(got, want):
            self.assertTrue(x == y or abs(x - y) <= tolerance * max(1, abs(y)), (x, y))

    def test_computes_attention(self):
        self.done("run", *self.put_qkv(), "--out", "out.npy", "--lse", "lse.npy")
        want_out, want_lse = attention(Q, K, V, DIMS)
        kind, shape, out = read_npy(self.folder / "out.npy")
        self.assertEqual((kind, shape), ("f4", (1, 3, 2, 3)))
        self.assert_near(out, want_out)
        kind, shape, lse = read_npy(self.folder / "lse.npy")
        self.assertEqual((kind, shape), ("f4", (1, 2, 3)))
        self.assert_near(lse, want_lse)
        self.assertEqual(self.names(), ["k.npy", "lse.npy", "out.npy", "q.npy", "v.npy"])

    def test_band(self):
        self.done("run", *self.put_qkv(), "--window", "1,0", "--align", "-1", "--out", "out.npy",
                  "--lse", "lse.npy")
        want_out, want_lse = attention(Q, K, V, DIMS, lambda i, j: i - 2 <= j <= i - 1)
        self.assert_near(read_npy(self.folder / "out.npy")[2], want_out)
        self.assert_near(read_npy(self.folder / "lse.npy")[2], want_lse)
        self.assertEqual(read_npy(self.folder / "lse.npy")[2][0], -math.inf)

    def test_mask_lengths_and_causal_compose(self):
        mask = [True, False, True, True, True]
        self.put("mask.npy", npy((1, 5), mask, "b1", prefix="|"))
        self.put("lengths.npy", npy((1,), [4], "i4"))
        for lengths in ("4", "lengths.npy"):
            self.done("run", *self.put_qkv(), "--causal", "--align", "bottom-right", "--mask",
                      "mask.npy", "--kv-lengths", lengths, "--out", "out.npy")
            want, _ = attention(Q, K, V, DIMS, lambda i, j: mask[j] and j < 4 and j <= i + 1)
            self.assert_near(read_npy(self.folder / "out.npy")[2], want)

    def test_fortran_order_is_honoured(self):
        arguments = self.put_qkv()
        shape = (1, 3, 2, 4)
        fortran = [Q[(i * 2 + h) * 4 + d] for d in range(4) for h in range(2) for i in range(3)]
        self.put("q.npy", npy(shape, fortran, order="True"))
        self.done("run", *arguments, "--out", "out.npy")
        self.assert_near(read_npy(self.folder / "out.npy")[2], attention(Q, K, V, DIMS)[0])

    def test_fewer_dimensions_are_one_batch_and_one_head(self):
        arguments = self.put_qkv((3, 2, 4), (5, 4), (5, 3))
        self.done("run", *arguments, "--out", "out.npy")
        self.assert_near(read_npy(self.folder / "out.npy")[2], attention(Q, K, V, DIMS)[0])

    def test_dtypes(self):
        want, _ = attention(Q, K, V, DIMS)
        for kind, options, out_kind, tolerance in (
                ("f8", [], "f4", 1e-6), ("f8", ["--dtype", "f16"], "f2", 2e-3),
                ("f2", [], "f2", 2e-3), ("f2", ["--dtype", "f32"], "f4", 1e-6)):
            with self.subTest(kind=kind, options=options):
                self.done("run", *self.put_qkv(kind=kind), *options, "--out", "out.npy")
                got_kind, _, out = read_npy(self.folder / "out.npy")
                self.assertEqual(got_kind, out_kind)
                self.assert_near(out, want, tolerance)

    def test_bfloat16_goes_to_safetensors(self):
        arguments = [*self.put_qkv(), "--dtype", "bf16"]
        self.refused(".npy has no bfloat16: use .safetensors", "run", *arguments, "--out",
                     "out.npy")
        self.done("run", *arguments, "--out", "out.safetensors", "--lse", "out.safetensors")
        written = read_safetensors(self.folder / "out.safetensors")
        self.assertEqual(written["out"][:2], ("BF16", [1, 3, 2, 3]))
        self.assertEqual(written["lse"][:2], ("F32", [1, 2, 3]))
        halves = struct.unpack("<18H", written["out"][2])
        out = [struct.unpack("<f", struct.pack("<I", h << 16))[0] for h in halves]
        self.assert_near(out, attention(Q, K, V, DIMS)[0], 1e-2)

    def test_safetensors_input_carries_options(self):
        tensors = {"q": ("F32", (1, 3, 2, 4), Q), "k": ("F32", (1, 5, 1, 4), K),
                   "v": ("F32", (1, 5, 1, 3), V), "kv_lengths": ("I32", (1,), [2])}
        self.put("in.safetensors", safetensors(tensors))
        self.done("run", "--input", "in.safetensors", "--out", "out.npy")
        want, _ = attention(Q, K, V, DIMS, lambda i, j: j < 2)
        self.assert_near(read_npy(self.folder / "out.npy")[2], want)
        self.refused("kv_lengths is given twice", "run", "--input", "in.safetensors",
                     "--kv-lengths", "3")

    def test_unused_tensors_are_told(self):
        tensors = {name: ("F32", (1, 1, 1, 1), [1]) for name in ("q", "k", "v", "biass")}
        self.put("in.safetensors", safetensors(tensors))
        result = self.run_cli("run", "--input", "in.safetensors")
        self.assertEqual(result.code, 0)
        self.assertEqual(result.err, "tessera: note: in.safetensors also holds biass, which is not "
                                     "used\n")

    def test_bfloat16_input(self):
        tensors = {name: ("BF16", (1, 2, 1, 2), numbers(4, n)) for n, name in enumerate("qkv")}
        self.put("in.safetensors", safetensors(tensors))
        line = self.done("run", "--input", "in.safetensors", "--json").json()
        self.assertEqual(line["dtype"], "bfloat16")

    def test_json(self):
        line = self.done("run", *self.put_qkv(), "--threads", 1, "--backend", "cpu", "--out",
                         "out.npy", "--json").json()
        self.assertEqual(list(line), ["backend", "target", "threads", "shape", "dtype", "ms", "out",
                                      "command"])
        self.assertEqual(line["backend"], "cpu")
        self.assertEqual(line["shape"], "1,3,5,2,1,4,3")
        self.assertEqual(line["command"], "tessera run --q q.npy --k k.npy --v v.npy --threads 1 "
                                          "--backend cpu --out out.npy")

    def test_json_with_a_name_that_is_no_text(self):
        result = self.run_cli("run", *self.put_qkv(), "--out", "\udcff.npy", "--json")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.json()["out"], "\ufffd.npy")

    def test_not_a_number_is_data(self):
        arguments = self.put_qkv()
        self.put("v.npy", npy((1, 5, 1, 3), [math.nan] * 3 + V[3:]))
        self.put("mask.npy", npy((3, 5), [n != 5 for n in range(15)], "b1", prefix="|"))
        self.done("run", *arguments, "--mask", "mask.npy", "--out", "out.npy")
        out = read_npy(self.folder / "out.npy")[2]
        self.assertTrue(all(math.isnan(x) for x in out[:6]))
        self.assertFalse(any(math.isnan(x) for x in out[6:12]), "row 1 does not see key 0")

    def test_empty_input_gives_empty_output(self):
        self.done("run", *self.put_qkv((1, 0, 2, 4)), "--out", "out.npy")
        self.assertEqual(read_npy(self.folder / "out.npy"), ("f4", (1, 0, 2, 3), []))

    def test_every_target_gives_the_same_numbers(self):
        targets = [t["name"] for t in self.done("info", "--json").json()["targets"] if t["present"]]
        want, _ = attention(Q, K, V, DIMS)
        for target in targets:
            with self.subTest(target=target):
                self.done("run", *self.put_qkv(), "--out", "out.npy", TESSERA_CPU=target)
                self.assert_near(read_npy(self.folder / "out.npy")[2], want)

    def test_example_data(self):
        data = ROOT / "examples" / "data"
        for path in sorted(data.glob("minilm-*.safetensors")):
            expected = read_safetensors(data / f"expected-{path.name}")
            self.done("run", "--input", path, "--out", "o.safetensors", "--lse", "o.safetensors")
            written = read_safetensors(self.folder / "o.safetensors")
            for name in ("out", "lse"):
                self.assertEqual(written[name][:2], expected[name][:2])
                count = size(tuple(written[name][1]))
                got, want = (struct.unpack(f"<{count}f", t[name][2]) for t in (written, expected))
                self.assert_near(got, want, 2e-6)


if __name__ == "__main__":
    unittest.main()

"""Every way to be refused: one sentence on standard error, exit code 2 or 3, nothing written."""
import struct
import unittest

from support import CommandLineTest, npy, numbers, safetensors

SHAPE = ("--shape", "1,4,4,2,2,8,8")


class Options(CommandLineTest):
    def test_parser_errors(self):
        self.refused("A subcommand is required")
        self.refused("--out is empty", "run", *SHAPE, "--out", "")
        self.refused("try 'tessera --help'", "frobnicate")
        self.refused("try 'tessera verify --help'", "verify", *SHAPE, "--no-such-option")
        self.refused("--shape", "verify", "--shape")
        self.refused("--scale", "verify", *SHAPE, "--scale", "1", "--scale", "2")

    def test_values(self):
        for options, sentence in (
                (["--scale", "nan"], "--scale is 'nan'; give a finite number"),
                (["--scale", "-1"], "scale is -1; it must be finite and 0 or more"),
                (["--softcap", "0"], "--softcap is 0; give a number > 0"),
                (["--window", "5"], "--window is '5'; give two numbers, L,R"),
                (["--window", "-2,0"], "-1 for all keys"),
                (["--causal", "--window", "3,2"], "--causal hides every key after the diagonal"),
                (["--align", "middle"], "give top-left, bottom-right, or an integer"),
                (["--dtype", "f64"], "give f32, f16 or bf16"),
                (["--threads", "0"], "--threads is 0; give a number >= 1"),
                (["--backend", "gpu"], "give auto, cpu, reference, standard, cuda or emulator"),
                (["--seed", "-1"], "--seed is '-1'"),
                (["--kv-lengths", "5,"], "--kv-lengths is '5,'; give integers"),
                (["--kv-lengths", "-3"], "kv_lengths[0] is -3"),
                (["--kv-lengths", "5"], "kv_lengths[0] is 5"),
                (["--kv-lengths", "1,1"], "kv_lengths has shape"),
                (["--mask", "random:1,x"], "--mask random: is '1,x'"),
                (["--mask", "random:1,1,1,1,1"], "5 dimensions; give at most 4"),
                (["--bias", "random:3,3"], "bias has shape"),
                (["--bias", "random:-1"], "more bytes than 63 bits can count"),
                (["--bias", ""], "--bias is empty"),
                (["--bias", "none.npy"], "none.npy cannot be read: No such file")):
            with self.subTest(options=options):
                self.refused(sentence, "verify", *SHAPE, *options)

    def test_a_band_needs_an_alignment(self):
        for options in (["--causal"], ["--window", "2,2"], ["--alibi", "random"]):
            self.refused("with 3 queries and 5 keys (or other lengths) it must be named; give "
                         "--align top-left", "verify", "--shape", "1,3,5,2,2,8,8", *options)
        self.refused("it must be named", "verify", *SHAPE, "--causal", "--kv-lengths", "3")
        self.done("verify", "--shape", "1,3,5,2,2,8,8", "--causal", "--kv-lengths", "3")

    def test_shapes(self):
        for shape, sentence in (("1,2,3", "3 numbers; give seven"),
                                ("1,2,3,4,5,6,-7", "-7 is not"),
                                ("1,4,4,3,2,8,8", "multiple of those of k"),
                                ("1,4,4,2,2,0,8", "must be 1 or more"),
                                ("1,4,4,2,2,a,8", "give integers separated by commas")):
            with self.subTest(shape=shape):
                self.refused(sentence, "verify", "--shape", shape)
        self.refused("63 bits", "verify", "--shape", "9999999,9999999,1,9999999,1,1,1")

    def test_too_little_memory_is_not_supported(self):
        self.refused("not enough memory", "verify", "--shape", "1,99999999999,1,99,1,99,1", code=3)

    def test_sources(self):
        self.refused("there is no input", "run")
        self.refused("there are several inputs", "run", *SHAPE, "--input", "x.safetensors")
        self.refused("give all three", "run", "--q", "q.npy")

    def test_cpu_targets(self):
        result = self.refused("TESSERA_CPU is 'pentium'", "verify", *SHAPE, TESSERA_CPU="pentium")
        self.assertIn("scalar", result.err)
        self.refused("TESSERA_THREADS is 'many'", "info", TESSERA_THREADS="many")


class Files(CommandLineTest):
    def with_q(self, blob: bytes) -> list[str]:
        arguments = self.put_qkv()
        self.put("q.npy", blob)
        return ["run", *arguments, "--out", "out.npy"]

    def test_npy(self):
        good = npy((1, 3, 2, 4), numbers(24))
        for blob, sentence in (
                (good[:-1], "q.npy is cut off: an array of shape [1, 3, 2, 4] takes 96 bytes, and "
                            "95 are there"),
                (good + b"x", "q.npy is too long"),
                (good[:40], "q.npy is cut off in its header"),
                (b"", "q.npy does not begin like a .npy file"),
                (b"PK\3\4" + good, "q.npy does not begin like a .npy file"),
                (npy((1, 3, 2, 4), numbers(24), prefix=">"), "q.npy is big-endian ('>f4')"),
                (npy((1, 3, 2, 4), numbers(24), "c8"), "holds elements of type '<c8'"),
                (npy((2**61, 8), []), "takes more than 2^63 bytes"),
                (npy((1, 1, 3, 2, 4), numbers(24)), "5 dimensions; at most 4"),
                (npy((24,), numbers(24)), "q has shape [24]; give [B, L, H, D]"),
                (npy((1, 3, 2, 4), [1] * 24, "i4"), "q holds int32; floating types are accepted"),
                (npy((1, 3, 2, 4), numbers(24), "f2"), "q is float16 and k is float32; say with "
                                                       "--dtype"),
                (npy((1, 3, 2, 5), numbers(30)), "k has shape [1, 5, 1, 4]; it must be")):
            with self.subTest(sentence=sentence):
                self.refused(sentence, *self.with_q(blob))

    def test_safetensors(self):
        tensors = {"q": ("F32", (1, 3, 2, 4), numbers(24)), "k": ("F32", (1, 5, 1, 4), numbers(20)),
                   "v": ("F32", (1, 5, 1, 3), numbers(15))}
        good = safetensors(tensors)
        overlap = good.replace(b"[96, 176]", b"[92, 172]")
        mistyped = good.replace(b'"F32"', b'"F64"', 1)
        for blob, sentence in (
                (good[:-1], "is no sound .safetensors file"),
                (good + b"x", "1 bytes follow the last tensor"),
                (good[:100], "its header claims"),
                (struct.pack("<Q", 2**63) + b"{}", "its header claims 9223372036854775808 bytes"),
                (overlap, "two tensors overlap at byte 92"),
                (mistyped, "as many bytes of data as F64 of shape [1, 3, 2, 4] takes"),
                (safetensors({"q": tensors["q"], "k": tensors["k"]}), "has no tensor 'v'; it must "
                                                                       "have q, k and v, and has k, q"),
                (safetensors(tensors | {"bias": ("I32", (5,), [0] * 5)}), "bias holds int32"),
                (safetensors(tensors | {"mask": ("F32", (5,), [0] * 5)}), "mask holds float32"),
                (safetensors(tensors | {"sink": ("F32", (1, 2), [0] * 2)}), "sink has shape [1, 2]"),
                (safetensors(tensors | {"kv_lengths": ("F32", (1,), [5])}), "lengths are int32 or")):
            with self.subTest(sentence=sentence):
                self.put("in.safetensors", blob)
                self.refused(sentence, "run", "--input", "in.safetensors", "--out", "out.npy")

    def test_paths(self):
        arguments = self.put_qkv()
        (self.folder / "folder.npy").mkdir()
        self.put("text.txt", b"hello")
        run = ["run", *arguments]
        for options, sentence in (
                (["--out", "out.txt"], "ends neither in .npy nor in .safetensors"),
                (["--out", "no/out.npy"], "its folder does not exist; nothing was written"),
                (["--out", "folder.npy"], "something that is no file has this name"),
                (["--out", "a.npy", "--lse", "./a.npy"], "a .npy file holds one array"),
                (["--bias", "text.txt"], "text.txt is neither a .npy file"),
                (["--bias", "folder.npy"], "it is neither a file nor a pipe")):
            with self.subTest(options=options):
                self.refused(sentence, *run, *options)

    def test_an_old_file_survives_a_refusal(self):
        self.put("out.npy", b"as it was")
        self.refused("must be finite", "run", *self.put_qkv(), "--scale", "-1", "--out", "out.npy")
        self.assertEqual((self.folder / "out.npy").read_bytes(), b"as it was")


if __name__ == "__main__":
    unittest.main()

"""--backend cuda and emulator, and the cache of compiled kernels; no GPU is needed.

A libcuda that is none stands in for the driver; the emulator carries out what is launched.
"""
import os
import tempfile
import unittest
from pathlib import Path

from support import CommandLineTest

FAKE = os.environ.get("TESSERA_FAKE_DRIVER", "")  # the folder of libcuda.so.1
SHAPE = ("--shape", "1,40,50,4,2,64,64", "--dtype", "bf16")


@unittest.skipUnless(FAKE, "TESSERA_FAKE_DRIVER names no folder: this build has no GPU part")
class Gpu(CommandLineTest):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = Path(folder.name) / "kernels"
        self.gpu = {"LD_LIBRARY_PATH": FAKE, "FAKE_CUDA_COMPUTE": "1",
                    "TESSERA_CACHE": str(self.cache)}

    def needs_code(self) -> None:
        """Builds without nvcc have the code of a kernel from NVRTC, which scripts/setup.sh installs."""
        gpu = self.done("info", "--json", **self.gpu).json()["gpu"]
        if not gpu["kernels_compiled_ahead"] and "why_not" in gpu["nvrtc"]:
            self.skipTest(gpu["nvrtc"]["why_not"])

    def failing(self, entry: str, *words: str):
        return self.run_cli(*words, **self.gpu, FAKE_CUDA_FAIL=entry)

    def test_verifies_what_ran_there(self) -> None:
        self.needs_code()
        for more in ((), ("--causal", "--align", "bottom-right", "--softcap", "5"),
                     ("--kv-lengths", "30", "--page-size", "8")):
            line = self.done("verify", *SHAPE, *more, "--backend", "cuda", "--json",
                             **self.gpu).json()
            self.assertEqual(("cuda", "Fake GPU", True),
                             (line["backend"], line["target"], line["pass"]), more)

    def test_runs_plans_and_measures(self) -> None:
        self.needs_code()
        self.assertIn("cuda, Fake GPU", self.done("run", *SHAPE, "--backend", "cuda",
                                                  **self.gpu).out)
        plan = self.done("plan", *SHAPE, "--backend", "cuda", "--json", **self.gpu).json()
        self.assertEqual(("forward_sm80_bfloat16_d64_band", [1, 4, 1]), (plan["kernel"], plan["grid"]))
        line = self.done("bench", *SHAPE, "--backend", "cuda", "--samples", "1", "--json",
                         **self.gpu).json()
        self.assertEqual(("cuda", None), (line["backend"], line["peak"]))

    def test_the_emulator_is_a_backend(self) -> None:
        line = self.done("verify", *SHAPE, "--backend", "emulator", "--json").json()
        self.assertEqual(("emulator", True), (line["backend"], line["pass"]))

    def test_a_machine_without_a_gpu_is_a_sentence(self) -> None:
        result = self.failing("cuInit=100", "run", *SHAPE, "--backend", "cuda")
        self.assertEqual(3, result.code)
        self.assertIn("the NVIDIA driver finds no GPU", result.err)

    def test_what_the_driver_refuses_is_a_sentence(self) -> None:
        self.needs_code()
        for entry, code, words in (
                ("cuMemAlloc=2", 3, "in cuMemAlloc; free memory of the GPU"),
                ("cuLaunchKernelEx=700", 1, "in cuLaunchKernelEx"),
                ("cuStreamSynchronize=700", 1, "in cuStreamSynchronize"),
                ("cuMemcpyDtoH=700", 1, "in cuMemcpyDtoH")):
            result = self.failing(entry, "run", *SHAPE, "--backend", "cuda")
            self.assertEqual(code, result.code, result.err)
            self.assertIn(words, result.err)

    def test_info_lists_gpus(self) -> None:
        gpu = self.done("info", "--json", **self.gpu).json()["gpu"]
        self.assertEqual(13000, gpu["driver"]["version"])
        self.assertEqual(["Fake GPU"], [device["name"] for device in gpu["devices"]])
        self.assertEqual(str(self.cache), gpu["cache"]["folder"])
        self.assertIn("nvrtc", gpu)
        self.assertFalse(self.cache.exists(), "to look is not to make")

    def test_cache_lists_and_clears(self) -> None:
        self.assertEqual([], self.done("cache", "list", "--json", **self.gpu).json()["kernels"])
        self.cache.mkdir(mode=0o700)
        (self.cache / "0123.cubin").write_bytes(b"x" * 100)
        listed = self.done("cache", "list", "--json", **self.gpu).json()
        self.assertEqual([("0123", 100)], [(k["key"], k["bytes"]) for k in listed["kernels"]])
        self.assertIn("1, 100 B", self.done("cache", "list", **self.gpu).out)
        cleared = self.done("cache", "clear", "--json", **self.gpu).json()
        self.assertEqual(100, cleared["removed_bytes"])
        self.assertEqual([], list(self.cache.iterdir()))

    def test_cache_refuses_a_folder_of_everybody(self) -> None:
        self.cache.mkdir()
        self.cache.chmod(0o777)
        result = self.run_cli("cache", "clear", **self.gpu)
        self.assertEqual(3, result.code)
        self.assertIn("may be written to by others", result.err)


if __name__ == "__main__":
    unittest.main()

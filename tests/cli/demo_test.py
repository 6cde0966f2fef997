"""The demonstration of `make demo`: it takes a GPU where there is one, and says what ran."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import ROOT, CommandLineTest, environment, program

FAKE = os.environ.get("TESSERA_FAKE_DRIVER", "")  # the folder of libcuda.so.1
QUICK = {"DEMO_SAMPLES": "1", "DEMO_SWEEP": "32..64"}


class Demo(CommandLineTest):
    def demo(self, **more: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            picture = Path(folder) / "demo.svg"
            done = subprocess.run([ROOT / "scripts/demo.sh", program()], capture_output=True, text=True,
                                  env=environment(**QUICK, **more, DEMO_PICTURE=str(picture)),
                                  check=False)
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertIn("<svg", picture.read_text(encoding="utf-8"))
        self.assertEqual(2, done.stdout.count("verdict            pass"), done.stdout)
        return done.stdout

    def test_without_a_gpu_on_the_cpu(self) -> None:
        # A driver that finds no GPU, where a build has a part for them at all.
        said = self.demo(LD_LIBRARY_PATH=FAKE, FAKE_CUDA_FAIL="cuInit=100")
        self.assertIn("demo: on the CPU", said)
        self.assertEqual(2, said.count("backend            cpu, target"), said)
        self.assertIn("Tiled against standard attention", said)

    @unittest.skipUnless(FAKE, "TESSERA_FAKE_DRIVER names no folder: this build has no GPU part")
    def test_on_a_gpu_where_there_is_one(self) -> None:
        gpu = {"LD_LIBRARY_PATH": FAKE, "FAKE_CUDA_COMPUTE": "1"}
        facts = self.done("info", "--json", **gpu).json()["gpu"]
        if not facts["kernels_compiled_ahead"] and "why_not" in facts["nvrtc"]:
            self.skipTest(facts["nvrtc"]["why_not"])
        said = self.demo(**gpu)
        self.assertIn("demo: on the GPU", said)
        self.assertEqual(2, said.count("backend            cuda, Fake GPU"), said)
        self.assertIn("in bfloat16 on the GPU", said)


if __name__ == "__main__":
    unittest.main()

"""The library needs no library of CUDA: it opens them at run time."""

from __future__ import annotations

import os
import re
import subprocess
import unittest

LIBRARY = os.environ["TESSERA_LIBRARY"]


class Links(unittest.TestCase):
    def test_nothing_of_cuda_is_linked(self) -> None:
        said = subprocess.run(["readelf", "--dynamic", "--wide", LIBRARY], capture_output=True,
                              text=True, check=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", said)
        self.assertIn("libc.so.6", needed)
        self.assertEqual([], [name for name in needed if re.search("cuda|nvrtc|nvidia", name)])

    def test_no_function_of_cuda_is_undefined(self) -> None:
        said = subprocess.run(["readelf", "--dyn-syms", "--wide", LIBRARY], capture_output=True,
                              text=True, check=True).stdout
        undefined = re.findall(r" UND (\w+)", said)
        self.assertIn("dlopen", undefined)
        self.assertEqual([], [name for name in undefined if re.match("cu[A-Z]|nvrtc", name)])


if __name__ == "__main__":
    unittest.main()

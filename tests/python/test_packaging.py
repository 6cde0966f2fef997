"""What someone sees whose machine lacks what `pip install .` needs, and the version of it all."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import tessera

ROOT = Path(__file__).resolve().parents[2]
# What pyproject.toml gives CMake.
WHEEL = [f"-DTESSERA_{part}=OFF" for part in ("TOOLS", "TESTS", "EXAMPLES", "INSTALL")]


def configure(folder, *options):
    command = ["cmake", "-S", ROOT, "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release"]
    ran = subprocess.run([*command, *WHEEL, *options], capture_output=True, text=True)
    return ran.returncode, " ".join(ran.stderr.split())


def test_missing_packages_are_named_at_once(tmp_path):
    hidden = [
        f"-DCMAKE_FIND_ROOT_PATH={tmp_path / 'empty'}",
        "-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY",
        "-DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY",
    ]
    status, said = configure(tmp_path, *hidden)
    assert status != 0
    assert "apt-get install libhwy-dev libxxhash-dev Elsewhere" in said
    status, said = configure(tmp_path, *hidden, "-DTESSERA_TOOLS=ON")
    assert status != 0
    wanted = "libhwy-dev libxxhash-dev libfmt-dev nlohmann-json3-dev libcli11-dev"
    assert f"apt-get install {wanted} Elsewhere" in said


def test_only_what_is_missing_is_named(tmp_path):
    status, said = configure(tmp_path, "-DTESSERA_TOOLS=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON")
    assert status != 0
    assert "apt-get install libfmt-dev Elsewhere" in said


def test_there_is_one_version():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    assert re.search(r"project\(tessera VERSION ([0-9.]+)", text)[1] == tessera.__version__
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in settings
    assert 'input = "CMakeLists.txt"' in settings

#!/usr/bin/env python3
"""The checks are checked: each catches a planted offence and passes what is clean."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import check_layers
import check_style
import cpp_scan

SCRIPTS = Path(__file__).resolve().parent
LAYERS = json.loads((SCRIPTS / "layers.json").read_text(encoding="utf-8"))
STYLE = json.loads((SCRIPTS / "style.json").read_text(encoding="utf-8"))
DEAD = "// x = f(y)" + ";"
CLEAN = "// A noun.\n#pragma once\n\nnamespace n {\ninline int two() { return 2; }\n}  // namespace n\n"


class Planted(unittest.TestCase):
    """A folder in which each test plants what it needs."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def plant(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def run_script(self, *command: str, **env: str) -> int:
        return subprocess.run(command, cwd=self.root, env={**os.environ, **env}, check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


class Layers(Planted):
    def caught(self, path: str, text: str) -> int:
        self.plant(path, text)
        return len(check_layers.check(self.root, LAYERS)[0])

    def test_clean(self) -> None:
        self.assertEqual(0, self.caught("src/plan/a.cpp", '#include "core/a.hpp"\n#include <map>\n'))

    def test_room_above(self) -> None:
        self.assertEqual(1, self.caught("src/core/a.cpp", '#include "plan/plan.hpp"\n'))

    def test_single_file_of_a_room(self) -> None:
        self.assertEqual(0, self.caught("src/cpu/a.cpp", '#include "plan/plan.hpp"\n'))
        self.assertEqual(1, self.caught("src/cpu/b.cpp", '#include "plan/json.hpp"\n'))

    def test_relative_path(self) -> None:
        self.assertEqual(1, self.caught("src/core/a.cpp", '#include "../core/b.hpp"\n'))
        self.assertEqual(2, self.caught("src/core/b.cpp", '#include "b.hpp"\n'))

    def test_system_header(self) -> None:
        self.assertEqual(1, self.caught("src/core/a.cpp", "#include <unistd.h>\n"))
        self.assertEqual(2, self.caught("src/core/b.cpp", "#include <fmt/format.h>\n"))

    def test_device(self) -> None:
        kernel = '#include <isa/mma.cuh>\n#include "device/types.cuh"\n'
        self.assertEqual(0, self.caught("src/device/kernel/a.cuh", kernel))
        self.assertEqual(1, self.caught("src/device/kernel/b.cuh", "#include <cstdint>\n"))
        self.assertEqual(2, self.caught("src/device/kernel/c.cuh", '#include "core/band.hpp"\n'))
        self.assertEqual(3, self.caught("src/device/kernel/d.cuh", "void f() { asm(\"\"); }\n"))
        self.assertEqual(4, self.caught("src/device/isa/e.cuh", "#ifdef __CUDA_ARCH__\n#endif\n"))
        self.assertEqual(4, self.caught("src/device/isa/f.cuh", "void f() { asm(\"\"); }\n"))

    def test_ours_in_angles(self) -> None:
        self.assertEqual(1, self.caught("src/plan/a.cpp", "#include <core/band.hpp>\n"))

    def test_inside_is_closed_to_examples(self) -> None:
        self.assertEqual(1, self.caught("examples/cpp/a.cpp", '#include "core/band.hpp"\n'))

    def test_throw_in_core(self) -> None:
        self.assertEqual(1, self.caught("src/core/a.cpp", "void f() { throw 1; }\n"))

    def test_throw_in_a_comment_or_in_its_place(self) -> None:
        self.assertEqual(0, self.caught("src/core/a.cpp", '// throw\nconst char* s = "try";\n'))
        self.assertEqual(0, self.caught("src/core/error.cpp", "void f() { throw 1; }\n"))

    def test_clock_in_plan(self) -> None:
        self.assertEqual(1, self.caught("src/plan/a.cpp", "auto t = steady_clock::now();\n"))

    def test_no_file_is_a_failure(self) -> None:
        script = str(SCRIPTS / "check_layers.py")
        self.assertEqual(1, self.run_script("python3", script, "--root", str(self.root)))


class Scan(unittest.TestCase):
    def names(self, text: str) -> list[str]:
        return [f.name for f in cpp_scan.functions(text)]

    def test_functions_in_scopes(self) -> None:
        text = """namespace a { template <class T> struct S : B<T> {
          S(int x) : x_{x}, y_(2) { go(); }  enum class E : int { k };
          bool operator==(const S&) const = default;
          auto get() const -> int { return [&](int i) { return i; }(1); }
          int x_{0}; };
        constexpr int kTable[] = {1, 2}; const auto kF = [](int) { return 1; };
        void S<int>::run() noexcept(true) { if (x) { y(); } } }"""
        self.assertEqual(["S", "get", "::run"], self.names(text))

    def test_a_specialisation(self) -> None:
        text = 'template <> void f<A>(int x) { asm volatile("" : "+r"(x), "+r"(x)); }'
        self.assertEqual(["f"], self.names(text))

    def test_parameters(self) -> None:
        text = "void f(std::map<int, int> a, int (*b)(int, int), int c = g(1, 2)) {}\nint g() {}"
        self.assertEqual([3, 0], [f.parameters for f in cpp_scan.functions(text)])

    def test_lines_hold_code(self) -> None:
        text = 'void f() {\n  // why\n\n  g("{");  /* {\n  */\n}\n'
        self.assertEqual([(1, 3)], [(f.line, f.lines) for f in cpp_scan.functions(text)])


class Style(Planted):
    def caught(self, path: str, text: str) -> list[str]:
        self.plant(path, text)
        return check_style.check(self.root, STYLE).found

    def assert_caught(self, word: str, path: str, text: str) -> None:
        found = self.caught(path, text)
        self.assertTrue(any(word in line for line in found), f"{word!r} is not in {found}")

    def test_clean(self) -> None:
        self.assertEqual([], self.caught("src/core/a.hpp", CLEAN))

    def test_long_function(self) -> None:
        self.assert_caught("the cap is 60", "src/core/a.cpp", "void f() {\n" + "g();\n" * 60 + "}\n")

    def test_median_and_p90(self) -> None:
        self.assert_caught("median of function_lines", "src/core/a.cpp",
                           "void f() {\n" + "g();\n" * 20 + "}\n")
        self.assert_caught("p90 of function_lines", "src/core/b.cpp",
                           "void f() {\n" + "g();\n" * 30 + "}\n")

    def test_parameters(self) -> None:
        self.assert_caught("6 parameters", "tests/a.cpp", "void f(T a, T b, T c, T d, T e, T f) {}\n")

    def test_long_file(self) -> None:
        self.assert_caught("501 lines", "src/core/a.cpp", "int f();\n" * 501)
        self.assert_caught("201 lines", "README.md", "word\n" * 201)
        self.assert_caught("61 lines", "examples/c/a.c", "int f();\n" * 61)

    def test_columns(self) -> None:
        self.assert_caught("101 columns", "src/core/a.cpp", "//" + "x" * 99 + "\n")

    def test_pragma(self) -> None:
        self.assert_caught("no #pragma once", "src/core/a.hpp", "int f();\n")

    def test_directives(self) -> None:
        self.assert_caught("2 #define", "src/core/a.cpp", "#define A\n#define B\n")
        self.assert_caught("4 #if", "src/core/b.cpp", "#ifdef A\n#endif\n" * 4)

    def test_dead_code(self) -> None:
        self.assert_caught("reads as code", "src/core/a.cpp", DEAD + "\n")

    def test_unfinished(self) -> None:
        self.assert_caught("unfinished", "src/core/a.cpp", "// TO" + "DO later\n")

    def test_machine_path_and_registry(self) -> None:
        self.assert_caught("path of one machine", "docs/a.md", "see /wo" + "rk/main\n")
        self.assert_caught("package registry", "docs/b.md", "from py" + "pi.org/simple\n")


class Symbols(Planted):
    def check(self, listed: str) -> int:
        source = self.plant("a.c", "int tessera_a(void) { return 1; }\n")
        library, names = self.root / "liba.so", self.plant("symbols.txt", listed)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        return self.run_script("python3", str(SCRIPTS / "check_symbols.py"), str(library), str(names))

    def test_equal(self) -> None:
        self.assertEqual(0, self.check("# the C interface\ntessera_a\n"))

    def test_missing_and_extra(self) -> None:
        self.assertEqual(1, self.check("tessera_a\ntessera_b\n"))
        self.assertEqual(1, self.check("# nothing\n"))


class Links(Planted):
    def check(self, text: str) -> int:
        self.plant("docs/b.md", "# A `b` title\n")
        self.plant("a.md", text)
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        return self.run_script("python3", str(SCRIPTS / "check_links.py"), "--root", str(self.root))

    def test_clean(self) -> None:
        self.assertEqual(0, self.check("[b](docs/b.md#a-b-title), [web](https://x.org), `[c](d)`\n"))

    def test_missing_file_or_heading(self) -> None:
        self.assertEqual(1, self.check("[b](docs/c.md)\n"))
        self.assertEqual(1, self.check("[b](docs/b.md#other)\n"))


class Format(Planted):
    def check(self, text: str) -> int:
        self.plant("a.cpp", text)
        self.plant(".clang-format", (SCRIPTS.parent / ".clang-format").read_text(encoding="utf-8"))
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        return self.run_script("bash", str(SCRIPTS / "format.sh"), TESSERA_LINT_ROOT=str(self.root))

    def test_clean(self) -> None:
        self.assertEqual(0, self.check("int f() { return 1; }\n"))

    def test_offence(self) -> None:
        self.assertNotEqual(0, self.check("int  f( ) {return 1;}\n"))


class Wasm(Planted):
    def check(self, text: str) -> int:
        self.plant("core/error_trap.cpp", "void fail() { __builtin_trap(); }\n")
        self.plant("core/a.cpp", text)
        return self.run_script("bash", str(SCRIPTS / "check_wasm.sh"), str(self.root / "core"),
                               str(self.root))

    def test_clean(self) -> None:
        self.assertEqual(0, self.check("#include <vector>\nstd::vector<int> f() { return {1}; }\n"))

    def test_throw(self) -> None:
        self.assertNotEqual(0, self.check("void f() { throw 1; }\n"))

    def test_operating_system(self) -> None:
        self.assertNotEqual(0, self.check("#include <sys/mman.h>\nvoid* p = mmap(0, 1, 0, 0, 0, 0);\n"))


class Targets(Planted):
    CLEAN = "namespace N_NEON { int f() { return 1; } }\nnamespace N_WASM { int g() { return 1; } }\n"

    def check(self, text: str) -> int:
        self.plant("highway/hwy/highway.h", "")
        source = self.plant("targets.cpp", text)
        return self.run_script("bash", str(SCRIPTS / "check_targets.sh"), str(source),
                               str(self.root), str(self.root / "highway"))

    def test_clean(self) -> None:
        self.assertEqual(0, self.check(self.CLEAN))

    def test_an_instruction_of_this_machine(self) -> None:
        offence = '#include <immintrin.h>\nvoid f() { _mm_pause(); }\n'
        self.assertNotEqual(0, self.check(offence + self.CLEAN))

    def test_a_target_that_is_missing(self) -> None:
        self.assertNotEqual(0, self.check("int f() { return 1; }\n"))


class Tidy(Planted):
    def check(self, text: str) -> int:
        source = self.plant("src/a.cpp", text)
        entry = {"directory": str(self.root), "file": str(source),
                 "command": f"ccache g++ -std=c++20 -o a.o -c {source}"}
        self.plant("compile_commands.json", json.dumps([entry]))
        return self.run_script("python3", str(SCRIPTS / "run_tidy.py"), str(self.root))

    def test_clean(self) -> None:
        self.assertEqual(0, self.check("int f() { return 1; }\n"))

    def test_offence(self) -> None:
        offence = "#include <utility>\nstruct S { int* p; };\nint* f() { S s; s.p = 0; return s.p; }\n"
        self.assertEqual(1, self.check(offence))
        self.assertEqual(1, self.check(offence))  # a finding is never remembered as clean


if __name__ == "__main__":
    unittest.main()

"""Texts: help, version, golden outputs, colours, pipes, completion."""
import os
import re
import subprocess
import unittest

from support import GOLDEN, ROOT, CommandLineTest, environment, program

VERBS = ("run", "verify", "bench", "plan", "explain", "info", "cache")
ATTENTION = ("--causal", "--window", "--align", "--scale", "--softcap", "--bias", "--mask",
             "--alibi", "--sink", "--kv-lengths", "--dtype", "--threads", "--backend")
PROJECT_VERSION = re.search(r"project\(tessera VERSION (\S+)",
                            (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]


def masked(text: str) -> str:
    """Without what may vary from one machine to another."""
    text = re.sub(r"\d\.\d+e[-+]\d+", "<error>", text)
    text = re.sub(r"[\d.]+ ms", "<time>", text)
    text = re.sub(r"target \w+, \d+ threads?", "<target>", text)
    text = re.sub(r"^(target|workers|worker bytes|workspace bytes) .*$", r"\1 <varies>", text,
                  flags=re.M)
    return re.sub(r"^(task queries|tasks|tile queries|tile keys) .*$", r"\1 <varies>", text,
                  flags=re.M)


class Text(CommandLineTest):
    def assert_golden(self, name: str, text: str) -> None:
        """TESSERA_UPDATE_GOLDEN=1 writes the file instead of comparing."""
        path = GOLDEN / f"{name}.txt"
        if os.environ.get("TESSERA_UPDATE_GOLDEN"):
            path.write_text(text, encoding="utf-8")
        self.assertEqual(text, path.read_text(encoding="utf-8"))

    def test_version(self):
        self.assertEqual(self.done("--version").out, f"tessera {PROJECT_VERSION}\n")

    def test_help(self):
        self.assert_golden("help", self.done("--help").out)
        for verb in ("run", "verify", "plan", "info"):
            self.assert_golden(f"help-{verb}", self.done(verb, "--help").out)

    def test_help_is_complete_and_grouped(self):
        for verb in VERBS:
            text = self.done(verb, "--help").out
            self.assertIn(f"Usage: tessera {verb}", text)
            self.assertIn("--json", text)
            if verb in ("run", "verify", "bench", "plan"):
                for option in (*ATTENTION, "--shape", "--seed"):
                    self.assertIn(f"  {option} ", text, verb)
                for group in ("Input", "Attention", "Execution", "Output"):
                    self.assertRegex(text, rf"(?m)^{group}:$")
            self.assertLessEqual(max(map(len, text.splitlines())), 100)
        every = self.done("--help-all").out
        for verb in VERBS:
            self.assertRegex(every, rf"(?m)^{verb}$")

    def test_plan(self):
        shape = ("--shape", "2,40,50,4,2,64,32")
        text = self.done("plan", *shape, "--causal", "--align", "bottom-right", "--kv-lengths",
                         "50,7", "--mask", "random", TESSERA_CPU="scalar").out
        self.assert_golden("plan", masked(text))
        plan = self.done("plan", *shape, "--json").json()
        self.assertEqual(plan["problem"]["keys"], 50)
        for key in ("backend", "why_backend", "target", "workers", "tile_queries", "tile_keys",
                    "workspace_bytes"):
            self.assertIn(key, plan)

    def test_plan_needs_no_memory(self):
        plan = self.done("plan", "--shape", "8,1048576,1048576,64,8,128,128", "--bias",
                         "random:1,64,1,1048576", "--json").json()
        self.assertLess(plan["workspace_bytes"], 1 << 30)

    def test_plan_refuses_what_run_would(self):
        self.refused("it must be named", "plan", "--shape", "1,3,5,2,2,8,8", "--causal")

    def test_info(self):
        info = self.done("info", "--json").json()
        self.assertEqual(info["version"], PROJECT_VERSION)
        self.assertIn(info["target"], [t["name"] for t in info["targets"]])
        self.assertEqual(self.done("info", "--threads", 3, "--json").json()["threads"], 3)
        forced = self.done("info", "--json", TESSERA_CPU="scalar").json()
        self.assertEqual(forced["target"], "scalar")
        text = self.done("info").out
        self.assertRegex(text, rf"(?m)^version +{re.escape(PROJECT_VERSION)}$")
        self.assertRegex(text, r"(?m)^  scalar +lanes [14], present yes$")

    def test_verify_and_run(self):
        self.assert_golden("verify", masked(self.done(
            "verify", "--shape", "1,37,37,4,4,64,64", "--seed", 7, "--window", "5,3").out))
        self.assert_golden("run", masked(self.done(
            "run", *self.put_qkv(), "--out", "out.npy", "--lse", "lse.npy").out))

    def test_colours_only_on_a_terminal(self):
        verify = ("verify", "--shape", "1,4,4,2,2,8,8")
        self.assertNotIn("\033", self.done(*verify).out)
        self.assertIn("\033[32mpass\033[0m", self.run_on_terminal(*verify))
        self.assertNotIn("\033", self.run_on_terminal(*verify, NO_COLOR="1"))
        self.assertIn("\033[32m", self.run_on_terminal(*verify, NO_COLOR=""))
        self.assertIn("\033[31mtessera:", self.run_on_terminal("run"))

    def test_progress_only_on_a_terminal(self):
        long = ("verify", "--shape", "1,700,700,10,10,64,64", "--threads", 1)
        self.assertRegex(self.run_on_terminal(*long, NO_COLOR="1"),
                         r"\r\033\[Kdefinition in double, head: \d+ of 10, \d")
        self.done(*long)

    def test_a_full_disk_is_told(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no full device here")
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([program(), "info"], stdout=full, stderr=subprocess.PIPE,
                                  env=environment(), text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("standard output could not be written", done.stderr)

    def test_input_from_a_pipe(self):
        arguments = self.put_qkv()
        arguments[1] = "<(cat q.npy)"
        line = " ".join([program(), "run", *arguments, "--out", "out.npy"])
        subprocess.run(["bash", "-c", line], cwd=self.folder, env=environment(), check=True,
                       stdout=subprocess.DEVNULL)
        self.assertIn("out.npy", self.names())


class Completion(CommandLineTest):
    def complete(self, *words: str) -> list[str]:
        """What bash offers for the last word."""
        quoted = " ".join(f"'{w}'" for w in words)
        script = (f"PATH={os.path.dirname(program())}:$PATH\n"
                  f". {ROOT / 'tools' / 'tessera' / 'completion.bash'}\n"
                  f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}\n_tessera\n"
                  'printf "%s\\n" "${COMPREPLY[@]}"\n')
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, capture_output=True,
                              text=True, env=environment(), check=True)
        self.assertEqual(done.stderr, "")
        return sorted(done.stdout.split())

    def test_verbs(self):
        self.assertEqual(self.complete("tessera", "ver"), ["verify"])
        self.assertEqual(self.complete("tessera", ""), sorted(VERBS))

    def test_options_are_those_of_the_help(self):
        for verb in VERBS:
            offered = self.complete("tessera", verb, "--")
            helped = re.findall(r"(?m)^  (?:-\w,)?(--[\w-]+)", self.done(verb, "--help").out)
            self.assertEqual(offered, sorted(helped), verb)

    def test_values(self):
        self.assertEqual(self.complete("tessera", "run", "--dtype", ""), ["bf16", "f16", "f32"])
        self.assertEqual(self.complete("tessera", "run", "--align", "b"), ["bottom-right"])
        self.assertEqual(self.complete("tessera", "run", "--backend", "c"), ["cpu"])

    def test_files(self):
        self.put_qkv()
        self.put("notes.txt", b"")
        self.assertEqual(self.complete("tessera", "run", "--q", ""), ["k.npy", "q.npy", "v.npy"])


if __name__ == "__main__":
    unittest.main()

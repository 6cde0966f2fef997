// The command line of the same checkout, against which the page is held.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseAnswer } from "../src/core.ts";

const PRESETS = ["release", "dev", "asan"];

export function cliPath(): string {
  const built = PRESETS.map((preset) => fileURLToPath(new URL(`../../build/${preset}/bin/tessera`, import.meta.url)));
  const found = [process.env["TESSERA_CLI"] ?? "", ...built].find((path) => path && existsSync(path));
  if (!found) throw new Error("the tests hold the page against the command line; build it with `make build`");
  return found;
}

export function explainText(words: string): string {
  const given = words.split(" ").filter(Boolean);
  return execFileSync(cliPath(), ["explain", "--json", ...given], { encoding: "utf8", maxBuffer: 1 << 28 });
}

/** What `tessera explain --json` prints, with infinities and NaN as numbers. */
export function explain<T>(words: string): T {
  return parseAnswer<T>(explainText(words));
}

// `make explainer`: scripts/explainer.py, twice at once.

import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";

const script = fileURLToPath(new URL("../../../scripts/explainer.py", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "explainer-"));
writeFileSync(join(folder, "index.html"), "<p>the page");

const started: ChildProcess[] = [];
afterAll(() => started.forEach((child) => child.kill()));

function serve(...words: string[]): Promise<string> {
  const child = spawn("python3", ["-B", script, "--no-browser", "--folder", folder, ...words]);
  started.push(child);
  return new Promise((done, fail) => {
    let text = "";
    child.stdout.on("data", (data: Buffer) => {
      text += data.toString();
      const address = /http:\S+/.exec(text)?.[0];
      if (address) done(address);
    });
    child.stderr.on("data", (data: Buffer) => fail(new Error(data.toString())));
    child.on("error", fail);
  });
}

test("the second one takes another port, and both answer", async () => {
  const addresses = [await serve("--port", "18473"), await serve("--port", "18473")];
  expect(new Set(addresses).size).toBe(2);
  for (const address of addresses) {
    expect(address).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/);
    expect(await (await fetch(address)).text()).toBe("<p>the page");
  }
});

test("without a page it says what to do", async () => {
  await expect(serve("--folder", join(folder, "none"))).rejects.toThrow("has no page; `make web` builds it");
});

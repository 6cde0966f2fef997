// The core in WebAssembly against the command line: the same numbers, bit for bit.

import { beforeAll, describe, expect, test } from "vitest";
import type { Answers, Trace } from "../../src/answers.ts";
import { CoreError, type Core } from "../../src/core.ts";
import { optionsOf, wordsOf, ROW_OPTIONS, SPLIT_OPTIONS, GRID_OPTIONS } from "../../src/state.ts";
import { explain } from "../cli.ts";
import { openTestCore, wasmBytes } from "../wasm.ts";

let core: Core;
beforeAll(async () => {
  core = await openTestCore();
});

/** toEqual takes 0 and -0 for the same; Object.is does not. */
function expectSameBits(page: unknown, cli: unknown, path = ""): void {
  if (typeof page === "object" && page !== null) {
    expect(Object.keys(page), path).toEqual(Object.keys(cli as object));
    for (const key in page) {
      expectSameBits((page as Record<string, unknown>)[key], (cli as Record<string, unknown>)[key], `${path}.${key}`);
    }
  } else if (!Object.is(page, cli)) {
    expect.fail(`${path}: the page has ${String(page)}, the command line ${String(cli)}`);
  }
}

const ROWS = [
  "",
  "--n 1 --block 1 --d 1",
  "--n 257 --block 16 --d 33 --seed 18446744073709551615",
  "--n 64 --block 7 --d 5 --dtype f16 --gain 3.25 --ramp -0.1",
  "--n 40 --block 8 --dtype bf16 --sink -1.5 --hide 3 --hide 8,15",
  "--scores 0,1e30,-1e30,5 --block 1",
  "--n 24 --block 5 --window 7,2 --row 11 --workers 3",
  "--n 512 --block 8 --d 64 --workers 16",
];

describe("a row", () => {
  test.each(ROWS)("%s", (words) => {
    const cli = explain<Answers["trace"]>(`${words} --lengths 256`);
    const page = core.ask("trace", words);
    expectSameBits(page.trace, cli.trace);
    expectSameBits(page.split, cli.split);
    expect(page.trace.steps.length).toBeGreaterThan(0);
  });
});

test("a grid", () => {
  for (const words of ["--n 64 --block 8 --grid 8 --window -1,0", "--n 100 --queries 37 --block 9 --grid 5 --window 12,3"]) {
    const cli = explain<Answers["grid"]>(`${words} --lengths 256`);
    expectSameBits(core.ask("grid", words).grid, cli.grid);
  }
});

const TRAFFIC = [
  "",
  "--lengths 256,4096,1048576 --d 128 --dtype bf16 --heads 16 --batch 2 --gpu h200",
  "--lengths 512,1000,65536 --d 96 --dtype f32 --pass backward --gpu rtx4090 --tile 64,32",
  "--n 2048 --peak 1.5e12 --bandwidth 1e11 --cache 33554432 --sram 1000",
  "--n 333 --tile 4096,4096 --gpu zen4",
];

describe("the traffic", () => {
  test.each(TRAFFIC)("%s", (words) => {
    const cli = explain<Answers["traffic"]>(words);
    const page = core.ask("traffic", words);
    expectSameBits(page.traffic, cli.traffic);
    expectSameBits(page.roof, cli.roof);
  });
});

test("every preset", () => {
  const { presets, machines } = core.catalogue();
  expect(presets.length).toBe(11);
  expect(machines.map((m) => m.name)).toContain("h200");
  for (const { name, words } of presets) {
    const cli = explain<Answers["trace"] & Answers["grid"]>(`--preset ${name} --lengths 256`);
    expectSameBits(core.ask("trace", words).trace, cli.trace);
    if (words.includes("--grid")) expectSameBits(core.ask("grid", words).grid, cli.grid);
    // A preset loses nothing on its way through the state of the page.
    const names = words.includes("--grid") ? GRID_OPTIONS : words.includes("--workers") ? SPLIT_OPTIONS : ROW_OPTIONS;
    expect(optionsOf(wordsOf(optionsOf(words), names))).toEqual(optionsOf(words));
  }
});

test("refusals are the sentences of the core, and the next question is answered", () => {
  const ask = (words: string) => () => core.ask("trace", words);
  expect(ask("--n 0")).toThrow(new CoreError("--n is 0; give an integer >= 1"));
  expect(ask("--block x")).toThrow("--block is 'x'; give an integer of at most 64 bits");
  expect(ask("--n 99999999")).toThrow("the number of keys is 99999999; the step trace takes 0 to 1048576");
  expect(ask("--nonsense 1")).toThrow("--nonsense is no option of explain");
  expect(() => core.ask("traffic", "--gpu cray")).toThrow("--gpu is 'cray'; it is one of a100");
  expect(core.ask("trace", "--n 4").trace.steps.length).toBe(2);
});

test("many refusals do not use up memory or stack", () => {
  for (let i = 0; i < 300; ++i) expect(() => core.ask("trace", "--n 0")).toThrow(CoreError);
  expect(core.ask("trace", "--n 4").trace.steps.length).toBe(2);
});

test("infinities and NaN become numbers", () => {
  const empty: Trace = core.ask("trace", "--n 4 --hide 0,3").trace;
  expect(empty.lse).toBe(-Infinity);
  const huge: Trace = core.ask("trace", "--scores 100,99").trace;
  expect(huge.naive.every(Number.isNaN)).toBe(true);
});

test("the module is small", () => {
  expect(wasmBytes().length).toBeLessThanOrEqual(150 * 1024);
});

import { expect, test } from "vitest";
import { DEFAULTS } from "../../src/defaults.ts";
import { optionsOf, readHash, wordsOf, writeHash, type PageState } from "../../src/state.ts";
import { matching, trafficWords, withField } from "../../src/traffic/widget.ts";

test("options and words are the same thing", () => {
  expect(wordsOf({ block: "4", n: "16", sink: "" }, ["n", "block", "sink"])).toBe("--n 16 --block 4");
  expect(optionsOf("--n 16 --hide 4,7 --window -1,0")).toEqual({ n: "16", hide: "4,7", window: "-1,0" });
  expect(optionsOf("")).toEqual({});
});

test("a state survives its address", () => {
  const state: PageState = {
    stream: { options: { n: "64", block: "8", grid: "8", window: "-1,0" }, view: "grid", step: 5 },
    traffic: { options: { ...DEFAULTS.traffic.options, n: "4096", gpu: "h200", peak: "900e12" } },
  };
  const hash = writeHash(state, DEFAULTS);
  expect(hash).toBe("#view=grid&n=64&block=8&grid=8&window=-1,0&step=5&traffic.n=4096&traffic.gpu=h200&traffic.peak=900e12");
  expect(readHash(hash, DEFAULTS)).toEqual(state);
});

test("links to chapters carry no state", () => {
  expect(readHash("#sources", DEFAULTS)).toBeNull();
  expect(readHash("", DEFAULTS)).toBeNull();
});

test("what an address should not say is left out", () => {
  const state = readHash("#view=cube&n=16&block=4 --seed 9&step=x&evil=1&traffic.gpu=<b>", DEFAULTS);
  expect(state?.stream).toEqual({ options: { n: "16" }, view: "row", step: DEFAULTS.stream.step });
  expect(state?.traffic).toEqual(DEFAULTS.traffic);
});

test("fields become options in the units of the core", () => {
  expect(withField({}, "peak", "989.4")).toEqual({ peak: "989.4e12" });
  expect(withField({}, "bandwidth", "3350")).toEqual({ bandwidth: "3350e9" });
  expect(withField({}, "sram", "227")).toEqual({ sram: "232448" });
  expect(withField({}, "cache", "")).toEqual({ cache: "" });
  expect(withField({}, "rows", "64")).toEqual({ tile: "64,64" });
  expect(withField({ tile: "64,32" }, "columns", "16")).toEqual({ tile: "64,16" });
  expect(withField({ peak: "1e12", sram: "9" }, "gpu", "a100")).toEqual({ gpu: "a100", peak: "", bandwidth: "", cache: "", sram: "" });
});

test("the model is asked for all lengths at once", () => {
  expect(trafficWords({ n: "8192", d: "64" })).toMatch(/^--lengths 256,512,.*,1048576 --d 64$/);
});

test("only points of the same case are drawn", () => {
  const point = { machine: "zen4", who: "tessera", n: 2048, d: 64, heads: 8, batch: 1, dtype: "f32", pass: "forward", seconds: 1, flops_per_second: 1, date: "" };
  const options = { gpu: "zen4", d: "64", heads: "8", batch: "1", dtype: "f32", pass: "forward" };
  expect(matching([point], options)).toEqual([point]);
  for (const [name, value] of [["gpu", "h100"], ["d", "128"], ["heads", "1"], ["batch", "2"], ["dtype", "bf16"], ["pass", "backward"]])
    expect(matching([point], { ...options, [name!]: value! })).toEqual([]);
});

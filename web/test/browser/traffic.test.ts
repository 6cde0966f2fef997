import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Answers, TrafficRow } from "../../src/answers.ts";
import { bytes, flops, length, seconds } from "../../src/format.ts";
import { explain } from "../cli.ts";
import { visit, type Opened } from "./browser.ts";

let opened: Opened;
beforeAll(async () => {
  opened = await visit({ hash: "#traffic.n=8192" });
});
afterAll(() => opened.close());
afterEach(() => expect(opened.complaints).toEqual([]));

const widget = () => opened.page.locator("[data-widget=traffic]");
const LENGTHS = Array.from({ length: 13 }, (_, i) => 2 ** (i + 8));
const DEFAULT = "--d 128 --dtype bf16 --tile 128,64 --heads 1 --batch 1 --pass forward --gpu h100";

const cliRows = (words: string) => explain<Answers["traffic"]>(`--lengths ${LENGTHS.join(",")} ${words}`).traffic;

const option = (label: string, value: string) => widget().getByLabel(label, { exact: true }).selectOption(value);

async function open(selector: string): Promise<void> {
  const details = widget().locator(selector);
  if (!(await details.evaluate((d) => (d as HTMLDetailsElement).open))) await details.locator("summary").click();
}

async function expectCards(row: TrafficRow): Promise<void> {
  const big = await widget().locator(".card .big").allInnerTexts();
  expect(big).toEqual([row.standard, row.tiled!, row.resident!].map((s) => bytes(s.bytes)));
  const text = await widget().locator(".cards").innerText();
  for (const s of [row.standard, row.tiled!, row.resident!]) {
    expect(text).toContain(flops(s.flops));
    expect(text).toContain(bytes(s.allocated_bytes));
    expect(text).toContain(seconds(s.time!.seconds));
  }
}

async function expectTable(rows: TrafficRow[]): Promise<void> {
  await open("details.table-place");
  const lines = await widget().locator("table.numbers tbody tr").all();
  expect(lines.length).toBe(rows.length);
  for (const [i, line] of lines.entries()) {
    const row = rows[i]!;
    expect(await line.locator("th, td").allInnerTexts()).toEqual([
      length(row.n), bytes(row.standard.bytes), bytes(row.tiled!.bytes), bytes(row.resident!.bytes),
      bytes(row.standard.allocated_bytes), bytes(row.tiled!.allocated_bytes),
      seconds(row.standard.time!.seconds), seconds(row.tiled!.time!.seconds), seconds(row.resident!.time!.seconds),
    ]);
  }
}

test("dragging N: every curve has the values of the command line", async () => {
  const rows = cliRows(DEFAULT);
  const slider = widget().getByLabel("Sequence length N");
  const box = (await slider.boundingBox())!;
  await slider.scrollIntoViewIfNeeded();
  const at = (await slider.boundingBox())!;
  expect(box.width).toBeGreaterThan(100);
  await opened.page.mouse.move(at.x + at.width / 2, at.y + at.height / 2);
  await opened.page.mouse.down();
  const seen = new Set<string>();
  for (let i = 0; i <= 24; ++i) {
    await opened.page.mouse.move(at.x + 8 + ((at.width - 16) * i) / 24, at.y + at.height / 2);
    const now = await widget().locator(".n-now").innerText();
    seen.add(now);
    await expectCards(rows.find((row) => length(row.n) === now)!);
  }
  await opened.page.mouse.up();
  expect(seen.size).toBe(13);
  await expectTable(rows);
});

/** The y of a curve's points, in pixels, from its path. */
async function heights(chart: string, kind: string): Promise<number[]> {
  const paths = await widget().locator(`[data-chart=${chart}] path.curve.${kind}`).evaluateAll((all) => all.map((p) => p.getAttribute("d") ?? ""));
  return paths.flatMap((d) => [...d.matchAll(/[ML][\d.]+ ([\d.]+)/g)].map((m) => Number(m[1])));
}

test("curves are drawn where their values are: equal ratios are equal distances", async () => {
  const rows = cliRows(DEFAULT);
  const standard = await heights("bytes", "standard"), tiled = await heights("bytes", "tiled");
  expect(standard.length).toBe(13);
  const perRatio = (standard[0]! - standard[12]!) / Math.log(rows[12]!.standard.bytes / rows[0]!.standard.bytes);
  for (const [i, row] of rows.entries()) {
    const apart = tiled[i]! - standard[i]!;
    expect(Math.abs(apart - perRatio * Math.log(row.standard.bytes / row.tiled!.bytes))).toBeLessThan(0.3);
  }
  expect((await heights("memory", "standard")).length).toBe(13);
  expect((await heights("time", "tiled")).length).toBe(13);
});

test("the backward pass, other types, heads and machines", async () => {
  await option("Pass", "backward");
  await option("Machine", "rtx4090");
  await option("Head dimension D", "64");
  await option("Type", "f32");
  await widget().getByLabel("Heads", { exact: true }).fill("8");
  await widget().getByLabel("Batch", { exact: true }).fill("4");
  const words = "--d 64 --dtype f32 --tile 128,64 --heads 8 --batch 4 --pass backward --gpu rtx4090";
  await expectTable(cliRows(words));
  expect(await widget().locator(".pass").innerText()).toContain("10 N² d against 8 N² d");
  await option("Pass", "forward");
  await option("Type", "bf16");
  await expectTable(cliRows(words.replace("backward", "forward").replace("f32", "bf16")));
});

test("the machine can be edited, in its own units", async () => {
  await open("details.settings");
  await option("Machine", "a100");
  expect(await widget().getByLabel("Peak TFLOP/s").inputValue()).toBe("312");
  expect(await widget().getByLabel("Slow memory GB/s").inputValue()).toBe("2039");
  await widget().getByLabel("Slow memory GB/s").fill("1000.5");
  await widget().getByLabel("Cache before it MiB").fill("1");
  const command = await widget().locator(".command code").innerText();
  expect(command).toContain("--gpu a100 --bandwidth 1000.5e9 --cache 1048576");
  const words = "--d 64 --dtype bf16 --tile 128,64 --heads 8 --batch 4 --pass forward --gpu a100 --bandwidth 1000.5e9 --cache 1048576";
  const rows = cliRows(words);
  await expectTable(rows);
  // Dashed from where the cache is too small.
  expect(rows.some((row) => row.cache_holds === false)).toBe(true);
  expect(await widget().locator("[data-chart=bytes] path.curve.resident.dashed").count()).toBe(1);
  await widget().getByLabel("Slow memory GB/s").fill("0");
  expect(await widget().locator(".refusal").innerText()).toBe("--bandwidth is '0e9'; give a number > 0, such as 3.35e12");
  await option("Machine", "h100");
  expect(await widget().locator(".refusal").isVisible()).toBe(false);
  expect(await widget().locator(".source").innerText()).toContain("whitepaper");
});

test("a tile that does not fit is said not to fit", async () => {
  await open("details.settings");
  await widget().getByLabel("Queries of a tile").fill("1024");
  const sentence = widget().locator(".sram-sentence");
  expect(await sentence.innerText()).toContain("such a kernel could not run");
  expect(await sentence.getAttribute("class")).toContain("bad");
  await widget().getByLabel("Queries of a tile").fill("64");
  expect(await sentence.innerText()).toMatch(/A tile of 64 queries × 64 keys takes [\d.]+ KiB: it fits\./);
  await widget().getByLabel("Fast memory M KiB").fill("0.1");
  expect(await sentence.innerText()).toContain("such a kernel could not run");
});

test("the law and the formulas carry the numbers", async () => {
  await opened.page.reload();
  await opened.page.waitForSelector("html[data-ready]");
  await opened.page.goto(opened.page.url().replace(/#.*/, "#traffic.n=4096"));
  await option("Machine", "h100");
  const now = await widget().locator(".n-now").innerText();
  expect(now).toBe("4K");
  const row = explain<Answers["traffic"]>(`--n 4096 ${DEFAULT}`).traffic[0]!;
  const law = await widget().locator(".law-line").innerText();
  expect(law).toContain("116 224 elements");
  expect(law).toContain(bytes(row.law_bytes));
  await open("details.formula-place");
  const formulas = await widget().locator(".formulas").innerText();
  expect(formulas).toContain("1 · 2 · (4 · 4096² + 4 · 4096 · 128)");
  expect(formulas).toContain(bytes(row.standard.bytes));
});

test("measured points are drawn over the model where they belong", async () => {
  expect(await widget().locator("path.mark.tessera").count()).toBe(0);
  await widget().getByRole("button", { name: "Show those that we have" }).click();
  expect(await widget().locator(".measured").innerText()).toMatch(/[1-9]\d* measured points/);
  for (const chart of ["time", "roofline"])
    expect(await widget().locator(`[data-chart=${chart}] path.mark.tessera`).count()).toBeGreaterThan(0);
});

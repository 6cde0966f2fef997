import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Answers, Trace } from "../../src/answers.ts";
import { factor, fixed, scientific } from "../../src/format.ts";
import { explain } from "../cli.ts";
import { visit, type Opened } from "./browser.ts";

let opened: Opened;
beforeAll(async () => {
  opened = await visit();
});
afterAll(() => opened.close());
afterEach(() => expect(opened.complaints).toEqual([]));

const widget = () => opened.page.locator("[data-widget=stream]");
const press = (title: string) => widget().getByRole("button", { name: title, exact: true }).click();
const sentence = () => widget().locator(".sentence").innerText();
const count = () => widget().locator(".count").innerText();

async function showAll(): Promise<void> {
  const details = widget().locator("details.steps");
  if (!(await details.evaluate((d) => (d as HTMLDetailsElement).open))) await details.locator("summary").click();
}

/** The cells of the table of steps, which must say what the command line says. */
async function expectTable(trace: Trace): Promise<void> {
  await showAll();
  const rows = await widget().locator("table.numbers tbody tr").all();
  expect(rows.length).toBe(trace.steps.length);
  for (const [i, row] of rows.entries()) {
    const step = trace.steps[i]!;
    const cells = await row.locator("td").allInnerTexts();
    if (step.skipped) {
      expect(cells).toEqual(["skipped"]);
      continue;
    }
    expect(cells[0]).toBe(`${fixed(step.m, 4)}${step.grew ? " ▲" : ""}`);
    expect(cells[1]).toBe(factor(step.rescale));
    expect(cells[2]).toBe(fixed(step.l, 4));
    expect(cells[4]).toBe(scientific(step.error));
  }
}

test("steps to the end, where O / l is the exact row", async () => {
  await press("A plain row");
  const { trace } = explain<Answers["trace"]>("--preset plain --lengths 256");
  await press("First step");
  expect(await count()).toBe("0 / 4");
  for (let step = 1; step <= 4; ++step) {
    await press("Step");
    expect(await count()).toBe(`${step} / 4`);
    const said = (await widget().locator(".panel svg").nth(1).getAttribute("aria-label")) ?? "";
    const shown = trace.steps[step - 1]!.o_over_l.map((x) => fixed(x)).join(", ");
    const exact = trace.exact.out.map((x) => fixed(x)).join(", ");
    expect(said).toBe(`O over l: ${shown}. Exact: ${exact}.`);
    if (step === 4) expect(shown).toBe(exact);
    else expect(shown).not.toBe(exact);
  }
  expect(await sentence()).toContain(`Exact to rounding (${scientific(trace.steps[3]!.error)})`);
  await expectTable(trace);
  await press("Step back");
  expect(await count()).toBe("3 / 4");
});

test("the page's core answers as the command line does", async () => {
  for (const words of ["--n 33 --block 5 --d 6 --seed 11", "--n 16 --hide 0,15", "--scores 100,99,-100,98"]) {
    const text = await opened.page.evaluate(
      (w) => (window as unknown as { explainer: { askText(t: string, w: string): string } }).explainer.askText("trace", w),
      words,
    );
    const cli = explain<Record<string, unknown>>(`${words} --lengths 256`);
    const { parseAnswer } = await import("../../src/core.ts");
    expect(parseAnswer<Record<string, unknown>>(text)["trace"]).toEqual(cli["trace"]);
  }
});

describe("presets", () => {
  const rows: [string, string, string][] = [
    ["Ascending scores", "ascending", "Exact to rounding"],
    ["Huge logits", "huge", "Exact to rounding"],
    ["A masked block", "masked-block", "Exact to rounding"],
    ["The causal diagonal", "causal", "so it is skipped"],
    ["A row that sees nothing", "nothing", "its output is 0 and its lse −∞"],
    ["A sink", "sink", "Exact to rounding"],
    ["bfloat16 rounding", "bf16", "the rounding of P to bfloat16"],
  ];
  test.each(rows)("%s", async (title, name, ending) => {
    await press(title);
    expect(await widget().getByRole("button", { name: title, exact: true }).getAttribute("aria-pressed")).toBe("true");
    const { trace } = explain<Answers["trace"]>(`--preset ${name} --lengths 256`);
    await expectTable(trace);
    await press("Last step");
    expect(await sentence()).toContain(ending);
    const naive = await widget().locator(".naive").innerText();
    expect(naive.includes("overflow")).toBe(name === "huge");
    const marks = await widget().locator("path.grew").getAttribute("data-count");
    expect(Number(marks)).toBe(trace.steps.filter((s) => s.grew).length);
    expect(await widget().locator("path.block.skipped").count()).toBe(trace.steps.filter((s) => s.skipped).length);
  });

  test("split over four workers", async () => {
    await press("Split over four workers");
    const { split } = explain<Required<Answers["trace"]>>("--preset split --lengths 256");
    await press("Last step");
    expect(await count()).toBe("3 / 3");
    expect(await sentence()).toContain(`the error is ${scientific(split.tree_error)} by this tree, and ${scientific(split.chain_error)}`);
    const values = await widget().locator(".node-value").allTextContents();
    const states = [...split.parts.map((p) => p.state), ...split.merges.map((m) => m.state)];
    expect(values).toEqual(states.flatMap((s) => [`m ${fixed(s.m)}`, `l ${fixed(s.l)}`]));
  });

  test.each([["Tiles under a causal mask", "tiles-causal"], ["Tiles under a window", "tiles-window"]])("%s", async (title, name) => {
    await press(title);
    const { grid } = explain<Answers["grid"]>(`--preset ${name} --lengths 256`);
    for (const [kind, wanted] of [["full", grid.full], ["masked", grid.masked], ["skipped", grid.skipped]] as const)
      expect(await widget().locator(`rect.tile-mark.${kind}`).count(), kind).toBe(wanted);
    expect(await sentence()).toContain(`${grid.skipped} of 64 tiles are skipped`);
    await press("Step back");
    expect(await sentence()).toContain("Query tile 7 of 8");
  });
});

test("keys: arrows, Home, End and space on the picture", async () => {
  await press("A plain row");
  await widget().locator(".stage").focus();
  const key = (name: string) => opened.page.keyboard.press(name);
  await key("Home");
  expect(await count()).toBe("0 / 4");
  await key("ArrowRight");
  await key("ArrowRight");
  expect(await count()).toBe("2 / 4");
  await key("ArrowLeft");
  expect(await count()).toBe("1 / 4");
  await key("End");
  expect(await count()).toBe("4 / 4");
  await key("Space");
  expect(await count()).toBe("0 / 4");
  await widget().getByRole("button", { name: "Pause" }).waitFor();
  await opened.page.waitForFunction(() => document.querySelector(".count")?.textContent === "1 / 4", undefined, { timeout: 5000 });
  await key("Space");
  await widget().getByRole("button", { name: "Play" }).waitFor();
});

test("the slider scrubs, with a mouse and with keys", async () => {
  await press("A plain row");
  const scrub = widget().locator(".scrub");
  const box = (await scrub.boundingBox())!;
  await opened.page.mouse.click(box.x + box.width * 0.75, box.y + box.height / 2);
  expect(await count()).toBe("3 / 4");
  await scrub.press("ArrowLeft");
  expect(await count()).toBe("2 / 4");
});

test("own numbers, and a refusal in a sentence", async () => {
  await press("A plain row");
  const settings = widget().locator("details.settings");
  await settings.locator("summary").click();
  await widget().getByLabel("Keys N").fill("48");
  await widget().getByLabel("Keys of a block").fill("6");
  await press("Last step");
  expect(await count()).toBe("8 / 8");
  expect(await widget().locator(".command code").innerText()).toBe("tessera explain --json --n 48 --block 6 --d 6 --seed 12");
  await expectTable(explain<Answers["trace"]>("--n 48 --block 6 --d 6 --seed 12 --lengths 256").trace);
  await widget().getByLabel("Keys of a block").fill("0");
  expect(await widget().locator(".refusal").innerText()).toBe("--block is 0; give an integer >= 1");
  expect(await count()).toBe("8 / 8");
  await widget().getByLabel("Keys of a block").fill("6");
  expect(await widget().locator(".refusal").isVisible()).toBe(false);
  await settings.locator("summary").click();
});

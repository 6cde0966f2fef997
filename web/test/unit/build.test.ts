// What the build puts together: measured points and static pictures.

import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { figures } from "../../build/figures.ts";
import { measuredPoints } from "../../build/measured.ts";
import { withFigures } from "../../build/plugin.ts";
import { DEFAULTS } from "../../src/defaults.ts";
import { matching } from "../../src/traffic/widget.ts";
import { openTestCore } from "../wasm.ts";

const results = fileURLToPath(new URL("../../../bench/results", import.meta.url));

test("measured points are those of bench/results, the fastest of each", () => {
  const points = measuredPoints(results);
  const keys = points.map((p) => [p.machine, p.who, p.n, p.d, p.heads, p.batch, p.dtype, p.pass].join());
  expect(new Set(keys).size).toBe(points.length);
  const options = { gpu: "zen4", d: "64", heads: "8", batch: "1", dtype: "f32", pass: "forward" };
  const shown = matching(points, options);
  expect(new Set(shown.map((p) => p.who))).toEqual(new Set(["tessera", "torch SDPA", "torch standard"]));
  expect(shown.map((p) => p.n)).toContain(2048);
  for (const p of points) {
    const perPair = p.pass === "forward" ? 4 : 10;
    const flops = perPair * p.n * p.n * p.d * p.heads * p.batch;
    expect(p.flops_per_second * p.seconds / flops, JSON.stringify(p)).toBeCloseTo(1, 2);
  }
});

test("each widget has a picture, once", async () => {
  const pictures = figures(await openTestCore());
  expect(Object.keys(pictures)).toEqual(["stream", "traffic"]);
  for (const picture of Object.values(pictures)) expect(picture).toMatch(/<svg .*<\/svg>.*<figcaption>/s);
  const page = '<p>x</p><div class="widget" data-widget="stream"></div><div class="widget" data-widget="traffic"></div>';
  expect(withFigures(page, pictures)).toContain(`data-widget="stream">${pictures["stream"]}</div>`);
  expect(() => withFigures("<p>x</p>", pictures)).toThrow("one place for the widget stream");
  expect(() => withFigures(page + page, pictures)).toThrow("one place for the widget stream");
});

test("the static pictures show what the page shows first", async () => {
  const core = await openTestCore();
  const { n } = DEFAULTS.traffic.options;
  const row = core.ask("traffic", "--lengths 8192 --d 128 --dtype bf16 --tile 128,64 --gpu h100").traffic[0];
  expect(n).toBe("8192");
  expect(row?.standard.bytes).toBe(545259520);
  expect(figures(core)["traffic"]).toContain("moves 520 MiB");
});

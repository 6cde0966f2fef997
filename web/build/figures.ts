// The static picture of each widget, from the real core: what stands in its place without JavaScript.

import type { Core } from "../src/core.ts";
import { DEFAULTS } from "../src/defaults.ts";
import { bytes, length, times } from "../src/format.ts";
import { ROW_OPTIONS, wordsOf } from "../src/state.ts";
import { errorCurve } from "../src/stream/error.ts";
import { rowSentence } from "../src/stream/sentences.ts";
import { strip } from "../src/stream/strip.ts";
import { bytesChart, memoryChart } from "../src/traffic/curves.ts";
import { trafficWords } from "../src/traffic/widget.ts";

const WIDTH = 500;

const figure = (pictures: string[], caption: string) =>
  `<figure class="static"><div class="pair">${pictures.map((picture) => `<div>${picture}</div>`).join("")}</div><figcaption>${caption}</figcaption></figure>`;

function streamFigure(core: Core): string {
  const { trace } = core.ask("trace", wordsOf(DEFAULTS.stream.options, ROW_OPTIONS));
  const step = trace.steps.length;
  const sentences = trace.steps.map((_, i) => `<li>${rowSentence(trace, i + 1)}</li>`).join("");
  return figure(
    [strip(trace, step, WIDTH), errorCurve(trace.steps.map((s) => s.error), step, { width: WIDTH, height: 216 })],
    `A row of ${trace.options.keys} scores in blocks of ${trace.options.block}, after the last block, and the error of O / l after each block. With JavaScript you can step through it.<ol>${sentences}</ol>`,
  );
}

function trafficFigure(core: Core): string {
  const answer = core.ask("traffic", trafficWords(DEFAULTS.traffic.options));
  const n = Number(DEFAULTS.traffic.options["n"]);
  const row = answer.traffic.find((r) => r.n === n);
  if (!row?.tiled || !row.resident) throw new Error("the default of the traffic model has no tile");
  return figure(
    [bytesChart(answer, n, WIDTH), memoryChart(answer, n, WIDTH)],
    `At N = ${length(n)}, d = ${row.d} and one head in bfloat16, standard attention moves ${bytes(row.standard.bytes)}; tiled ${bytes(row.tiled.bytes)} if K and V are read again for every tile (${times(row.tiled.standard_bytes_ratio)} fewer), ${bytes(row.resident.bytes)} if they stay in the cache (${times(row.resident.standard_bytes_ratio)} fewer). With JavaScript you can change every number.`,
  );
}

export function figures(core: Core): Record<string, string> {
  return { stream: streamFigure(core), traffic: trafficFigure(core) };
}

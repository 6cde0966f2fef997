// What a tile takes of fast memory, against the M that there is.

import type { TrafficRow } from "../answers.ts";
import { bytes } from "../format.ts";
import { element, line, linear, rect, svg, text } from "../svg.ts";

const HEIGHT = 84, LEFT = 2, RIGHT = 2, TOP = 30, BAR = 26;

function parts(row: TrafficRow): { name: string; kind: string; size: number }[] {
  const backward = row.pass === "backward";
  const p = row.tile_parts;
  return [
    { name: backward ? "Q, dO, K, V" : "Q, K, V", kind: "operands", size: p.operands },
    { name: backward ? "dQ, dK, dV" : "O", kind: "sums", size: p.sums },
    { name: backward ? "P, dP" : "S", kind: "scores", size: p.scores },
    { name: backward ? "lse, delta" : "m, l", kind: "statistics", size: p.statistics },
  ];
}

export function sramBar(row: TrafficRow, width: number): string {
  const most = Math.max(row.tile_bytes, row.sram_bytes) * 1.04;
  const x = linear([0, most], [LEFT, width - RIGHT]);
  let at = 0;
  const marks = parts(row).map(({ name, kind, size }) => {
    const left = x(at), right = x(at + size);
    at += size;
    const label = right - left > name.length * 7 + 8
      ? text(name, { x: (left + right) / 2, y: TOP + BAR / 2 + 4, class: "middle part-name" })
      : "";
    return rect(left, TOP, right - left, BAR, { class: `part ${kind}` }) + label;
  });
  const limit = x(row.sram_bytes);
  return svg(
    width,
    HEIGHT,
    `The tile takes ${bytes(row.tile_bytes)} of ${bytes(row.sram_bytes)}.`,
    rect(LEFT, TOP, limit - LEFT, BAR, { class: "room" }),
    element("g", { class: row.fits ? "" : "misfit" }, ...marks),
    line(limit, TOP - 8, limit, TOP + BAR + 8, { class: "limit" }),
    text(`M = ${bytes(row.sram_bytes)}`, { x: limit > 110 ? limit - 6 : limit + 6, y: TOP - 10, class: `note ${limit > 110 ? "end" : ""}` }),
    text(`tile: ${bytes(row.tile_bytes)}`, { x: LEFT, y: TOP + BAR + 20, class: "note" }),
  );
}

/** Whether such a kernel could run, in a sentence. */
export function sramSentence(row: TrafficRow): string {
  if (!row.tile) {
    return `Not even one row of q, k and v of dimension ${row.d} fits in M = ${bytes(row.sram_bytes)}; give more.`;
  }
  const tile = `A tile of ${row.tile.queries} queries × ${row.tile.keys} keys takes ${bytes(row.tile_bytes)}`;
  return row.fits
    ? `${tile}: it fits.`
    : `${tile}, and M is ${bytes(row.sram_bytes)}: such a kernel could not run.`;
}

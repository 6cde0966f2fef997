// All tiles of the matrix of scores, and those that a mask lets the kernel skip.

import type { Grid } from "../answers.ts";
import { length } from "../format.ts";
import { element, rect, svg, text } from "../svg.ts";

const LEFT = 30, TOP = 30, EDGE = 4;

const KINDS: Record<string, string> = { "#": "full", "/": "masked", ".": "skipped" };

function tileMark(kind: string, x: number, y: number, size: number, age: string): string {
  const name = KINDS[kind] ?? "skipped";
  const gap = size > 6 ? 1 : 0.25;
  const box = rect(x + gap, y + gap, size - 2 * gap, size - 2 * gap, {
    class: `tile-mark ${name} ${name === "skipped" ? "" : age}`,
    rx: size > 12 ? 2 : 0,
  });
  if (name !== "masked") return box;
  const a = x + gap, b = y + gap, w = size - 2 * gap;
  return box + element("path", { d: `M${a} ${b}l${w} ${w}l${-w} 0z`, class: "masked-half" });
}

/** `step` rows of tiles are done; the last of them is the one at work. */
export function tiles(grid: Grid, step: number, width: number): string {
  const rows = grid.tiles.length, columns = grid.tiles[0]?.length ?? 0;
  const size = Math.min((width - LEFT - EDGE) / columns, (440 - TOP) / rows);
  const marks = grid.tiles.map((line, row) => {
    const age = row < step - 1 ? "past" : row === step - 1 ? "now" : "future";
    const cells = [...line].map((kind, column) =>
      tileMark(kind, LEFT + column * size, TOP + row * size, size, age),
    );
    const frame =
      age === "now"
        ? rect(LEFT - 2, TOP + row * size - 1, columns * size + 4, size + 2, { class: "chip", rx: 4 })
        : "";
    return cells.join("") + frame;
  });
  const tall = TOP + rows * size;
  return svg(
    Math.ceil(LEFT + columns * size + EDGE),
    Math.ceil(tall + EDGE),
    `${rows} by ${columns} tiles: ${grid.full} full, ${grid.masked} masked, ${grid.skipped} skipped.`,
    ...marks,
    text(`${length(grid.keys)} keys →`, { x: LEFT, y: 18, class: "axis" }),
    element(
      "text",
      { x: 0, y: 0, class: "axis", transform: `translate(16 ${Math.round(TOP + 90)}) rotate(-90)` },
      `← ${length(grid.queries)} queries`,
    ),
  );
}

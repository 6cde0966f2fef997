// The accumulator O and O / l, element by element, beside the exact row.

import { fixed } from "../format.ts";
import { element, line, linear, rect, svg, text, ticks } from "../svg.ts";

const LEFT = 36, RIGHT = 8, TOP = 12, BOTTOM = 26;
const SHOWN = 16; // elements

export interface Row {
  o: readonly number[];
  normalised: readonly number[];
}

/** How far from 0 any bar of these rows reaches. */
export function reachOf(rows: readonly Row[], exact: readonly number[]): number {
  let most = 0.1;
  for (const values of [exact, ...rows.flatMap((row) => [row.o, row.normalised])]) {
    for (const value of values.slice(0, SHOWN)) {
      if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
    }
  }
  return most * 1.08;
}

export interface BarsOptions {
  most: number; // the end of the axis: reachOf all rows that will be shown, so that it stays
  width: number;
  height: number;
}

export function bars(row: Row, exact: readonly number[], { most, width, height }: BarsOptions): string {
  const count = Math.min(exact.length, SHOWN);
  const y = linear([-most, most], [height - BOTTOM, TOP]);
  const x = linear([0, count], [LEFT, width - RIGHT]);
  const bar = (value: number, from: number, to: number, name: string) =>
    Number.isFinite(value)
      ? rect(from, Math.min(y(0), y(value)), to - from, Math.max(Math.abs(y(value) - y(0)), 0.5), { class: name })
      : "";
  const every = Math.ceil((count * 22) / (width - LEFT - RIGHT)); // numbers that have room
  const marks: string[] = [];
  for (let d = 0; d < count; ++d) {
    const left = x(d), wide = x(d + 1) - left;
    const target = exact[d] ?? 0;
    marks.push(
      bar(row.o[d] ?? 0, left + wide * 0.12, left + wide * 0.88, "sum"),
      bar(row.normalised[d] ?? 0, left + wide * 0.3, left + wide * 0.7, "mean"),
      line(left + wide * 0.06, y(target), left + wide * 0.94, y(target), { class: "exact" }),
      d % every === 0 ? text(String(d), { x: left + wide / 2, y: height - 8, class: "tick middle" }) : "",
    );
  }
  const axis = ticks(-most, most, 4).map(
    (value) =>
      line(LEFT, y(value), width - RIGHT, y(value), { class: value === 0 ? "zero" : "grid" }) +
      text(fixed(value, most < 2 ? 1 : 0), { x: LEFT - 6, y: y(value) + 4, class: "tick end" }),
  );
  const said = row.normalised.slice(0, count).map((v) => fixed(v)).join(", ");
  const wanted = exact.slice(0, count).map((v) => fixed(v)).join(", ");
  return svg(
    width,
    height,
    `O over l: ${said}. Exact: ${wanted}.`,
    ...axis,
    element("g", {}, ...marks),
    text("d", { x: LEFT - 6, y: height - 8, class: "axis end" }),
  );
}

// The largest error of O / l after each block, on a logarithmic axis.

import { scientific, superscript } from "../format.ts";
import { element, line, linear, logarithmic, path, svg, text } from "../svg.ts";

const LEFT = 40, RIGHT = 12, TOP = 24, BOTTOM = 36;
const LEAST = 1e-9, MOST = 10; // errors below are drawn at the bottom

export interface Size {
  width: number;
  height: number;
}

export function errorCurve(errors: readonly number[], step: number, { width, height }: Size): string {
  const x = linear([0, Math.max(errors.length, 1)], [LEFT, width - RIGHT]);
  const y = logarithmic([LEAST, MOST], [height - BOTTOM, TOP]);
  const place = (error: number) => y(Math.min(Math.max(error, LEAST), MOST));
  const points = errors
    .map((error, i): [number, number] => [x(i + 1), place(error)])
    .slice(0, step)
    .filter(([, y]) => Number.isFinite(y));
  const axis = [-9, -6, -3, 0].map(
    (power) =>
      line(LEFT, y(10 ** power), width - RIGHT, y(10 ** power), { class: "grid" }) +
      text(`10${superscript(power)}`, { x: LEFT - 6, y: y(10 ** power) + 4, class: "tick end" }),
  );
  const rounding = y(2 ** -24);
  const last = points.at(-1);
  const now = errors[step - 1];
  const every = Math.ceil(errors.length / 8);
  const steps = errors.map((_, i) =>
    (i + 1) % every === 0
      ? text(String(i + 1), { x: x(i + 1), y: height - BOTTOM + 16, class: "tick middle" })
      : "",
  );
  return svg(
    width,
    height,
    now === undefined ? "Error of O over l: nothing seen yet." : `Error of O over l after block ${step}: ${scientific(now)}.`,
    ...axis,
    line(LEFT, rounding, width - RIGHT, rounding, { class: "rounding" }),
    text("rounding of float32", { x: LEFT + 6, y: rounding - 5, class: "note" }),
    path(points, { class: "error-line" }),
    element("path", { d: points.map(([px, py]) => `M${px.toFixed(1)} ${py.toFixed(1)}h0`).join(""), class: "error-dot" }),
    last ? element("circle", { cx: last[0], cy: last[1], r: 5, class: "error-now" }) : "",
    ...steps,
    text("error", { x: 4, y: 12, class: "axis" }),
    text("block", { x: width - RIGHT, y: height - 1, class: "axis end" }),
  );
}

// Curves on two logarithmic axes.

import { element, line, logarithmic, path, powers, svg, text, type Scale } from "../svg.ts";

export type Point = readonly [x: number, y: number];

export interface Series {
  name: string;
  kind: "standard" | "tiled" | "resident" | "law" | "roof";
  points: readonly Point[];
  dashed?: boolean;
}

export interface Mark {
  at: Point;
  kind: string;
  label: string; // beside it, or where it is crowded only as its title
  crowded?: boolean;
}

export interface Chart {
  width: number;
  height: number;
  label: string;
  series: readonly Series[];
  now?: number; // the x that is chosen: a line, and a dot on each curve
  marks?: readonly Mark[]; // points of their own
  x: { title: string; ticks: readonly number[]; format: (x: number) => string };
  y: { title: string; format: (y: number) => string; base?: number }; // of the ticks, 10 if not given
}

const LEFT = 62, RIGHT = 14, TOP = 28, BOTTOM = 38;

interface Frame {
  x: Scale;
  y: Scale;
  low: number;
  high: number;
}

function frameOf(chart: Chart): Frame {
  const points = [...chart.series.flatMap((s) => s.points), ...(chart.marks ?? []).map((m) => m.at)];
  const ys = points.map(([, y]) => y).filter((y) => y > 0);
  const low = Math.min(...ys) / 1.6, high = Math.max(...ys) * 1.6;
  const [first = 1, last = 2] = [chart.x.ticks[0], chart.x.ticks.at(-1)];
  return {
    x: logarithmic([first, last], [LEFT, chart.width - RIGHT]),
    y: logarithmic([low, high], [chart.height - BOTTOM, TOP]),
    low,
    high,
  };
}

function axes(chart: Chart, frame: Frame): string {
  const bottom = chart.height - BOTTOM;
  const every = Math.ceil((chart.x.ticks.length * 36) / (chart.width - LEFT));
  const vertical = chart.x.ticks.map((value, i) =>
    i % every === 0
      ? line(frame.x(value), TOP, frame.x(value), bottom, { class: "grid" }) +
        text(chart.x.format(value), { x: frame.x(value), y: bottom + 16, class: "tick middle" })
      : "",
  );
  const horizontal = powers(chart.y.base ?? 10, frame.low, frame.high, 7).map(
    (value) =>
      line(LEFT, frame.y(value), chart.width - RIGHT, frame.y(value), { class: "grid" }) +
      text(chart.y.format(value), { x: LEFT - 6, y: frame.y(value) + 4, class: "tick end" }),
  );
  return (
    vertical.join("") +
    horizontal.join("") +
    text(chart.x.title, { x: chart.width - RIGHT, y: chart.height - 4, class: "axis end" }) +
    text(chart.y.title, { x: 4, y: 14, class: "axis" })
  );
}

function curve(series: Series, frame: Frame): string {
  const points = series.points.map(([x, y]): [number, number] => [frame.x(x), frame.y(y)]);
  return path(points, { class: `curve ${series.kind}${series.dashed ? " dashed" : ""}` });
}

function dots(chart: Chart, frame: Frame): string {
  const { now } = chart;
  if (now === undefined) return "";
  const found = chart.series.flatMap((s) =>
    s.points.filter(([x]) => x === now).map((point) => ({ point, kind: s.kind })),
  );
  return (
    line(frame.x(now), TOP, frame.x(now), chart.height - BOTTOM, { class: "now-line" }) +
    found
      .map(({ point: [x, y], kind }) =>
        element("circle", { cx: frame.x(x), cy: frame.y(y), r: 5, class: `dot ${kind}` }),
      )
      .join("")
  );
}

const ROOM = 60; // pixels that a name takes beside its mark

/** Names to the lower right of their marks, where a roof leaves room; those too close move down. */
function marks(chart: Chart, frame: Frame): string {
  const placed: { x: number; y: number }[] = [];
  return (chart.marks ?? [])
    .map(({ at: [x, y], kind, label, crowded }) => {
      const cx = frame.x(x), cy = frame.y(y), left = cx > chart.width - 90;
      const shape = { d: `M${cx.toFixed(1)} ${(cy - 6).toFixed(1)}l6 6l-6 6l-6-6z`, class: `mark ${kind}` };
      const mark = element("path", shape, element("title", {}, label));
      if (crowded) return mark;
      const name = { x: cx + (left ? -8 : 8), y: cy + 15 };
      while (placed.some((p) => Math.abs(p.x - name.x) < ROOM && Math.abs(p.y - name.y) < 13)) name.y += 13;
      placed.push(name);
      return mark + text(label, { ...name, class: `note ${left ? "end" : ""}` });
    })
    .join("");
}

/** What the colours mean, as a line of text above the picture. */
function legend(chart: Chart): string {
  const keys = chart.series.filter((s) => s.name).map((s) => `<span class="key ${s.kind}">${s.name}</span>`);
  const crowded = (chart.marks ?? []).filter((mark) => mark.crowded).map((mark) => mark.kind);
  for (const kind of new Set(crowded)) keys.push(`<span class="key ${kind}">${kind.replace("-", " ")}, measured</span>`);
  return `<p class="legend">${keys.join("")}</p>`;
}

export function chart(chart: Chart): string {
  const frame = frameOf(chart);
  return legend(chart) + svg(
    chart.width,
    chart.height,
    chart.label,
    axes(chart, frame),
    ...chart.series.map((s) => curve(s, frame)),
    dots(chart, frame),
    marks(chart, frame),
  );
}

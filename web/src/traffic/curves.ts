// The four pictures of the traffic model.

import type { Answers, Measured, Schedule, TrafficRow } from "../answers.ts";
import { bytes, flopRate, length, seconds } from "../format.ts";
import { chart, type Mark, type Point, type Series } from "./chart.ts";

type Answer = Answers["traffic"];
type Quantity = (schedule: Schedule) => number | undefined;

const HEIGHT = 262;

function points(rows: readonly TrafficRow[], pick: (row: TrafficRow) => Schedule | null, q: Quantity): Point[] {
  return rows.flatMap((row): Point[] => {
    const schedule = pick(row), y = schedule ? q(schedule) : undefined;
    return y === undefined ? [] : [[row.n, y]];
  });
}

/** Where the cache no longer holds what the third schedule needs, its curve is dashed. */
function residentSeries(rows: readonly TrafficRow[], q: Quantity): Series[] {
  const firstBeyond = rows.findIndex((row) => row.cache_holds === false);
  const pick = (row: TrafficRow) => row.resident;
  if (firstBeyond < 0) return [{ name: "K, V in cache", kind: "resident", points: points(rows, pick, q) }];
  return [
    { name: "K, V in cache", kind: "resident", points: points(rows.slice(0, firstBeyond), pick, q) },
    {
      name: "",
      kind: "resident",
      points: points(rows.slice(Math.max(firstBeyond - 1, 0)), pick, q),
      dashed: true,
    },
  ];
}

function threeSeries(rows: readonly TrafficRow[], q: Quantity): Series[] {
  return [
    { name: "standard", kind: "standard", points: points(rows, (row) => row.standard, q) },
    { name: "K, V re-read", kind: "tiled", points: points(rows, (row) => row.tiled, q) },
    ...residentSeries(rows, q),
  ];
}

const lengths = (rows: readonly TrafficRow[]) => ({
  title: "sequence length N",
  ticks: rows.map((row) => row.n),
  format: length,
});

export function bytesChart(answer: Answer, now: number, width: number): string {
  const rows = answer.traffic;
  const law: Series = { name: "N² d² / M", kind: "law", points: rows.map((row) => [row.n, row.law_bytes]) };
  return chart({
    width,
    height: HEIGHT,
    label: "Bytes across slow memory against the sequence length, for three schedules.",
    series: [law, ...threeSeries(rows, (s) => s.bytes)],
    now,
    x: lengths(rows),
    y: { title: "bytes across slow memory", format: bytes, base: 32 },
  });
}

export function memoryChart(answer: Answer, now: number, width: number): string {
  const rows = answer.traffic;
  return chart({
    width,
    height: HEIGHT,
    label: "Memory allocated beyond inputs and outputs, against the sequence length.",
    series: [
      { name: "standard, as N²", kind: "standard", points: points(rows, (r) => r.standard, (s) => s.allocated_bytes) },
      { name: "tiled, as N", kind: "tiled", points: points(rows, (r) => r.tiled, (s) => s.allocated_bytes) },
    ],
    now,
    x: lengths(rows),
    y: { title: "memory allocated", format: bytes, base: 32 },
  });
}

// A class of style.css, and with spaces the name in the legend.
const kindOf = (measured: Measured) => measured.who.replace(" ", "-");

const markOf = (m: Measured, x: number, y: number): Mark => ({
  at: [x, y], kind: kindOf(m), label: `${m.who}, N = ${length(m.n)}: ${seconds(m.seconds)}`, crowded: true,
});

export function timeChart(answer: Answer, now: number, width: number, measured: readonly Measured[]): string {
  const rows = answer.traffic;
  return chart({
    width,
    height: HEIGHT,
    label: "Time by the roofline against the sequence length, for three schedules.",
    series: threeSeries(rows, (s) => s.time?.seconds),
    now,
    marks: measured.map((m) => markOf(m, m.n, m.seconds)),
    x: lengths(rows),
    y: { title: "time by the roofline", format: (s) => seconds(s).replace(/\.0+ /, " ") },
  });
}

/** Powers of two from 1/2 to what the schedules reach. */
function intensities(rows: readonly TrafficRow[]): number[] {
  const most = Math.max(4096, ...rows.map((row) => row.resident?.flops_per_byte ?? 0));
  return Array.from({ length: Math.ceil(Math.log2(most)) + 2 }, (_, i) => 2 ** (i - 1));
}

function trail(rows: readonly TrafficRow[], pick: (row: TrafficRow) => Schedule | null): Point[] {
  return rows.flatMap((row): Point[] => {
    const s = pick(row);
    return s?.time ? [[s.flops_per_byte, s.time.flops_per_second]] : [];
  });
}

function rooflineMarks(answer: Answer, measured: readonly Measured[]): Mark[] {
  return measured.flatMap((m): Mark[] => {
    const row = answer.traffic.find((r) => r.n === m.n);
    // Standard attention moves what it moves; what others move lies between the two tiled schedules.
    const schedule = m.who.includes("standard") ? row?.standard : row?.resident;
    return schedule ? [markOf(m, schedule.flops_per_byte, m.flops_per_second)] : [];
  });
}

export function rooflineChart(answer: Answer, now: number, width: number, measured: readonly Measured[]): string {
  const roof = answer.roof;
  if (!roof) return "";
  const axis = intensities(answer.traffic);
  const [low = 0.5, high = 8192] = [axis[0], axis.at(-1)];
  // The roof is known at three points: below all intensities, at the ridge, above all of them.
  const memory = roof.line[0], peak = roof.line[2];
  if (!memory || !peak) return "";
  const [ridge, top] = [roof.ridge, peak[1]];
  const start: Point = [low, (memory[1] / memory[0]) * low];
  const row = answer.traffic.find((r) => r.n === now);
  const at = (kind: Series["kind"], s: Schedule | null | undefined): Series[] =>
    s?.time ? [{ name: "", kind, points: [[s.flops_per_byte, s.time.flops_per_second]] }] : [];
  const dots = [...at("standard", row?.standard), ...at("tiled", row?.tiled), ...at("resident", row?.resident)];
  return chart({
    width,
    height: HEIGHT,
    label: `Roofline: the ridge is at ${ridge.toPrecision(3)} FLOP per byte.`,
    series: [
      { name: "roof", kind: "roof", points: [start, [ridge, top], [high, top]] },
      { name: "standard", kind: "standard", points: trail(answer.traffic, (r) => r.standard) },
      { name: "K, V re-read", kind: "tiled", points: trail(answer.traffic, (r) => r.tiled) },
      { name: "K, V in cache", kind: "resident", points: trail(answer.traffic, (r) => r.resident) },
    ],
    marks: [
      ...dots.map((s): Mark => ({ at: s.points[0] as Point, kind: `${s.kind} big`, label: { standard: "standard", tiled: "re-read", resident: "in cache" }[s.kind as string] ?? "" })),
      ...rooflineMarks(answer, measured),
    ],
    x: { title: "FLOP per byte", ticks: axis, format: (x) => (x < 1 ? "½" : length(x)) },
    y: { title: "FLOP/s that the roof allows", format: flopRate },
  });
}

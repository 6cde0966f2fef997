// The points of bench/results that the traffic model can be held against: whole calls, full
// attention, as many queries as keys, on machines that the core knows.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Measured } from "../src/answers.ts";

type Line = Record<string, unknown>;

const MACHINES: readonly { name: string; processor: RegExp }[] = [
  { name: "zen4", processor: /^AMD EPYC, family 25, model 17, AVX-512, 2 processors$/ },
  { name: "h200", processor: /H200/ },
];

const DTYPES: Record<string, string> = { fp32: "f32", fp16: "f16", bf16: "bf16", f32: "f32", f16: "f16" };

// One point for each of these, so that the picture stays readable.
const PEERS: Record<string, string> = { tessera: "tessera", "torch SDPA": "torch SDPA", "torch standard": "torch standard" };

function machineOf(line: Line): string | undefined {
  const processor = String(line["device"] ?? line["processor"] ?? "");
  return MACHINES.find((machine) => machine.processor.test(processor))?.name;
}

/** A line of the peers: one call of one of them. */
function peerPoint(line: Line, machine: string): Measured | null {
  const { suite, dtype, dim, queries, keys, heads, causal, peer, best, best_ms, date } = line;
  const who = PEERS[String(peer)];
  if (!who || causal || queries !== keys || (suite !== "forward" && suite !== "backward")) return null;
  return {
    machine, who, n: Number(queries), d: Number(dim), heads: Number(heads), batch: 1,
    dtype: DTYPES[String(dtype)] ?? "", pass: suite,
    seconds: Number(best_ms) / 1e3, flops_per_second: Number(best) * 1e9, date: String(date ?? ""),
  };
}

const CASE = /^(forward|backward) (f32|f16|bf16) (\d+),(\d+),(\d+),(\d+),(\d+),(\d+),(\d+)$/;

/** A line of `tessera bench`. */
function benchPoint(line: Line, machine: string): Measured | null {
  const match = CASE.exec(String(line["case"] ?? ""));
  if (!match || line["backend"] === "standard") return null;
  const [, pass = "", dtype = "", ...sizes] = match;
  const [batch = 0, queries, keys, heads = 0, kvHeads, d = 0, valueDim] = sizes.map(Number);
  if (queries !== keys || heads !== kvHeads || d !== valueDim) return null;
  return {
    machine, who: "tessera", n: Number(queries), d, heads, batch, dtype, pass,
    seconds: Number(line["ms_min"]) / 1e3, flops_per_second: Number(line["gflops"]) * 1e9,
    date: String(line["date"] ?? ""),
  };
}

const keyOf = (m: Measured) => [m.machine, m.who, m.n, m.d, m.heads, m.batch, m.dtype, m.pass].join(" ");

function runsOf(lines: readonly Line[]): Map<unknown, Line> {
  const runs = new Map<unknown, Line>();
  for (const line of lines) if (line["processor"] && line["run"]) runs.set(line["run"], line);
  return runs;
}

/** All points, the fastest measurement of each. */
export function measuredPoints(folder: string): Measured[] {
  const best = new Map<string, Measured>();
  for (const name of readdirSync(folder).filter((file) => file.endsWith(".jsonl")).sort()) {
    const lines = readFileSync(join(folder, name), "utf8").trim().split("\n").map((text) => JSON.parse(text) as Line);
    const runs = runsOf(lines);
    for (const line of lines) {
      const run = runs.get(line["run"]) ?? line;
      const machine = machineOf(run);
      if (!machine) continue;
      const dated = { ...line, date: line["date"] ?? run["date"] };
      const point = peerPoint(dated, machine) ?? benchPoint(dated, machine);
      if (!point || !Number.isFinite(point.seconds) || !Number.isFinite(point.flops_per_second)) continue;
      const known = best.get(keyOf(point));
      if (!known || point.seconds < known.seconds) best.set(keyOf(point), point);
    }
  }
  return [...best.values()].sort((a, b) => keyOf(a).localeCompare(keyOf(b), "en", { numeric: true }));
}

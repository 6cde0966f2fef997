// The three schedules at the chosen length, side by side.

import type { Compared, Schedule, TrafficRow } from "../answers.ts";
import { bytes, flops, seconds, significant, times } from "../format.ts";

function line(name: string, value: string): string {
  return `<div><dt>${name}</dt><dd>${value}</dd></div>`;
}

function card(kind: string, title: string, s: Schedule, ratio: string): string {
  const time = s.time
    ? line("time", `${seconds(s.time.seconds)} <span class="bound ${s.time.bound}">${s.time.bound === "memory" ? "memory bound" : "compute bound"}</span>`)
    : "";
  return `<article class="card ${kind}"><h3>${title}</h3><p class="big">${bytes(s.bytes)}</p><p class="ratio">${ratio}</p><dl>${line("arithmetic", flops(s.flops))}${line("FLOP per byte", significant(s.flops_per_byte, 3))}${line("allocated", bytes(s.allocated_bytes))}${time}</dl></article>`;
}

function ratioOf(s: Compared): string {
  const faster = s.standard_time_ratio;
  const time = faster === undefined ? "" : faster < 1.005 ? ", no faster here" : `, ${times(faster)} faster`;
  return `${times(s.standard_bytes_ratio)} fewer bytes${time}`;
}

export function cards(row: TrafficRow): string {
  const all = [card("standard", "Standard", row.standard, "stores the N × N matrix")];
  if (row.tiled && row.resident) {
    const beyond = row.cache_holds === false ? " (does not fit this cache)" : "";
    all.push(
      card("tiled", "Tiled, K and V re-read", row.tiled, ratioOf(row.tiled)),
      card("resident", `Tiled, K and V in cache${beyond}`, row.resident, ratioOf(row.resident)),
    );
  }
  return all.join("");
}

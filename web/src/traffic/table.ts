// The curves as a table.

import type { TrafficRow } from "../answers.ts";
import { bytes, length, seconds } from "../format.ts";

const HEAD = [
  "N", "standard", "tiled, re-read", "tiled, in cache", "standard allocates", "tiled allocates",
  "standard, time", "re-read, time", "in cache, time",
];

function cells(row: TrafficRow): string[] {
  const time = (x: { time?: { seconds: number } } | null) => (x?.time ? seconds(x.time.seconds) : "–");
  const size = (x: { bytes: number } | null) => (x ? bytes(x.bytes) : "–");
  return [
    size(row.standard), size(row.tiled), size(row.resident),
    bytes(row.standard.allocated_bytes), row.tiled ? bytes(row.tiled.allocated_bytes) : "–",
    time(row.standard), time(row.tiled), time(row.resident),
  ];
}

export function trafficTable(rows: readonly TrafficRow[], now: number): string {
  const head = HEAD.map((name) => `<th scope="col">${name}</th>`).join("");
  const body = rows
    .map((row) => {
      const data = cells(row).map((cell) => `<td>${cell}</td>`).join("");
      const mark = row.n === now ? ` class="now" aria-current="true"` : "";
      return `<tr${mark}><th scope="row">${length(row.n)}</th>${data}</tr>`;
    })
    .join("");
  return `<table class="numbers"><caption>Bytes across slow memory, memory allocated, and time by the roofline</caption><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table>`;
}

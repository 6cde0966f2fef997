// The formulas of src/core/traffic.cpp in letters and with the numbers put in. The values beside
// them come from the core; a test evaluates the text and finds the same.

import type { TrafficRow } from "../answers.ts";
import { bytes, flops, integer } from "../format.ts";

export interface Formula {
  what: string;
  letters: string; // with * ^ and words, as programs write it
  value: number;
  shown: string;
}

const FORWARD = {
  standard: "heads*e*(4*N^2 + 4*N*d)",
  tiled: "heads*(e*(2*N*d + T*2*N*d) + 4*N)",
  resident: "heads*(e*4*N*d + 4*N)",
  allocated: "heads*e*N^2",
  statistics: "heads*4*N",
  standardFlops: "heads*4*N^2*d",
  tiledFlops: "heads*4*N^2*d",
  tile: "e*(Br + 2*Bc)*d + 4*Br*d + 8*Br + 4*Br*Bc",
};

const BACKWARD = {
  standard: "heads*e*(7*N^2 + 8*N*d)",
  tiled: "heads*(e*7*N*d + 4*N + T*(e*2*N*d + 8*N) + (T - 1)*8*N*d)",
  resident: "heads*(e*9*N*d + 12*N)",
  allocated: "heads*e*2*N^2",
  statistics: "heads*4*N + heads*4*N*d*spill",
  standardFlops: "heads*8*N^2*d",
  tiledFlops: "heads*10*N^2*d",
  tile: "e*2*(Br + Bc)*d + 4*(Br + 2*Bc)*d + 8*Br + 8*Br*Bc",
};

/** What the letters stand for. `spill` is 1 where dQ is stored between passes. */
export function lettersOf(row: TrafficRow): Record<string, number> {
  return {
    heads: row.heads,
    e: row.element_bytes,
    N: row.n,
    d: row.d,
    T: row.passes,
    Br: row.tile?.queries ?? 0,
    Bc: row.tile?.keys ?? 0,
    spill: row.passes > 1 ? 1 : 0,
  };
}

export function formulas(row: TrafficRow): Formula[] {
  const table = row.pass === "forward" ? FORWARD : BACKWARD;
  const entry = (what: string, letters: string, value: number, format: (x: number) => string): Formula => ({
    what,
    letters,
    value,
    shown: format(value),
  });
  const all = [
    entry("standard, bytes", table.standard, row.standard.bytes, bytes),
    entry("standard, allocated", table.allocated, row.standard.allocated_bytes, bytes),
    entry("standard, arithmetic", table.standardFlops, row.standard.flops, flops),
  ];
  if (row.tiled && row.resident) {
    all.push(
      entry("tiled, K and V re-read", table.tiled, row.tiled.bytes, bytes),
      entry("tiled, K and V in cache", table.resident, row.resident.bytes, bytes),
      entry("tiled, allocated", table.statistics, row.tiled.allocated_bytes, bytes),
      entry("tiled, arithmetic", table.tiledFlops, row.tiled.flops, flops),
      entry("one tile", table.tile, row.tile_bytes, bytes),
    );
  }
  return all;
}

const WORD = /[A-Za-z]+/g;

export function withNumbers(letters: string, row: TrafficRow): string {
  const values = lettersOf(row);
  return letters.replace(WORD, (word) => String(values[word] ?? word));
}

/** As a reader wants it: dots for products, raised powers, thin spaces in numbers. */
export function typeset(formula: string): string {
  return formula
    .replaceAll("*", " · ")
    .replaceAll("^2", "²")
    .replaceAll("-", "−")
    .replace(/\d{5,}/g, (digits) => integer(Number(digits)));
}

// Each step in words: what a screen reader says, and a good summary for everyone.

import type { Grid, Split, Trace } from "../answers.ts";
import { factor, fixed, percent, scientific, size } from "../format.ts";

function range(keys: readonly [number, number]): string {
  return keys[1] - keys[0] === 1 ? `key ${keys[0]}` : `keys ${keys[0]} to ${keys[1] - 1}`;
}

function ending(trace: Trace): string {
  const last = trace.steps.at(-1);
  if (!last || last.l === 0) return "The row has seen nothing: its output is 0 and its lse −∞.";
  if (trace.options.dtype !== "float32") {
    return `The error that is left, ${scientific(last.error)}, is the rounding of P to ${trace.options.dtype}; the sums are float32.`;
  }
  return `Exact to rounding (${scientific(last.error)}), and the full row has never been stored.`;
}

export function rowSentence(trace: Trace, step: number): string {
  const now = trace.steps[step - 1];
  if (!now) {
    return trace.options.sink === null
      ? "Nothing has been read: m is −∞, l and O are 0."
      : `The sink starts the row: m is ${fixed(trace.start.m)}, l is 1, O is 0.`;
  }
  const head = `Block ${step} of ${trace.steps.length}, ${range(now.keys)}: `;
  const tail = step === trace.steps.length ? ` ${ending(trace)}` : "";
  if (now.skipped) return `${head}no key is visible, so it is skipped.${tail}`;
  const error = step === trace.steps.length ? "" : ` O / l is off by ${size(now.error)}.`;
  if (!now.grew) {
    return `${head}no score exceeds the running maximum ${fixed(now.m)}, so nothing is rescaled.${error}${tail}`;
  }
  const change = Number.isFinite(now.m_before)
    ? `the maximum grows from ${fixed(now.m_before)} to ${fixed(now.m)}, so l and O are multiplied by ${factor(now.rescale)}.`
    : `the first maximum is ${fixed(now.m)}; there was nothing to rescale.`;
  return `${head}${change}${error}${tail}`;
}

export function splitSentence(split: Split, step: number): string {
  const merge = split.merges[step - 1];
  const workers = split.parts.length;
  if (!merge) {
    return workers === 1
      ? "One worker has absorbed all keys: there is nothing to merge."
      : `${workers} workers have absorbed their own keys, at the same time, and know nothing of each other.`;
  }
  const [a, b] = [factor(merge.rescale_into), factor(merge.rescale_from)];
  const head = `Merge ${step} of ${split.merges.length}: one side is multiplied by ${a}, the other by ${b}, then both add up.`;
  if (step < split.merges.length) return head;
  return `${head} The row is complete: the error is ${scientific(split.tree_error)} by this tree, and ${scientific(split.chain_error)} if the states are merged one after the other.`;
}

export function gridSentence(grid: Grid, step: number): string {
  const total = `${grid.skipped} of ${grid.skipped + grid.masked + grid.full} tiles are skipped: ${percent(grid.computed_share)} of all pairs are computed, ${percent(grid.visible_share)} are visible.`;
  const row = grid.tiles[step - 1];
  if (!row) return total;
  const count = (kind: string) => [...row].filter((c) => c === kind).length;
  return `Query tile ${step} of ${grid.tiles.length}: ${count("#")} key tiles in full, ${count("/")} masked, ${count(".")} skipped. ${step === grid.tiles.length ? total : ""}`.trim();
}

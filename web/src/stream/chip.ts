// What is on chip: the state (m, l), the rescale factor, and the tile with its weights.

import type { Step, Trace } from "../answers.ts";
import { factor, fixed } from "../format.ts";
import { escape } from "../svg.ts";

const SHOWN = 12; // keys of a tile

function stateRow(symbol: string, name: string, before: string, now: string, mark = ""): string {
  const from = before === now || !before ? "" : `<span class="before">${before}</span><span class="arrow" aria-hidden="true">→</span>`;
  return `<tr><th scope="row"><var>${symbol}</var><span class="name">${escape(name)}</span></th><td>${from}<b>${now}</b>${mark}</td></tr>`;
}

const NEW_MAXIMUM = ` <span class="badge grew-badge">new maximum</span>`;

function stateTable(step: Step | undefined, trace: Trace, index: number): string {
  const l = (i: number) => (i < 0 ? trace.start.l : (trace.steps[i]?.l ?? 0));
  const m = step ? step.m : trace.start.m;
  const before = step ? step.m_before : m;
  const rows = [
    stateRow("m", "running maximum", fixed(before), fixed(m), step?.grew ? NEW_MAXIMUM : ""),
    stateRow("α", "rescale e^(m before − m)", "", step ? factor(step.rescale) : "–"),
    stateRow("l", "normaliser", fixed(l(step ? index - 1 : index), 3), fixed(l(index), 3)),
  ];
  return `<table class="state"><caption>State of the row</caption><tbody>${rows.join("")}</tbody></table>`;
}

function tileRow(step: Step, i: number): string {
  const score = step.scores[i] ?? NaN, p = step.p[i] ?? 0;
  const bar = `<span class="weight" style="width:${Math.max(p, 0.004) * 100}%"></span>`;
  return `<tr><th scope="row">${step.keys[0] + i}</th><td>${fixed(score)}</td><td class="weight-cell">${bar}</td><td>${factor(p)}</td></tr>`;
}

function tileTable(step: Step | undefined): string {
  if (!step) return `<p class="quiet">No tile has been read.</p>`;
  if (step.skipped) return `<p class="quiet">No key of this block is visible: nothing is read, nothing is computed.</p>`;
  const count = Math.min(step.scores.length, SHOWN);
  const rows = Array.from({ length: count }, (_, i) => tileRow(step, i)).join("");
  const more = step.scores.length > count ? `<p class="quiet">and ${step.scores.length - count} more keys</p>` : "";
  return `<table class="tile"><caption>The tile</caption><thead><tr><th scope="col">key</th><th scope="col">score s</th><th scope="col" colspan="2">weight p = e^(s − m)</th></tr></thead><tbody>${rows}</tbody></table>${more}`;
}

/** The naive softmax of the same row, which has no maximum to subtract. */
function naive(trace: Trace): string {
  const values = trace.naive.slice(0, 3).map((v) => fixed(v)).join(", ");
  const broken = trace.naive.some((v) => !Number.isFinite(v));
  const word = broken ? `<span class="badge bad">overflow</span>` : "";
  return `<p class="naive${broken ? " broken" : ""}">Without the maximum: (${values}${trace.naive.length > 3 ? ", …" : ""}) ${word}</p>`;
}

export function chip(trace: Trace, step: number): string {
  const now = trace.steps[step - 1];
  return stateTable(now, trace, step - 1) + tileTable(now) + naive(trace);
}

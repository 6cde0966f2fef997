// The streaming softmax: presets, a player, pictures of each step, and the numbers behind them.

import type { Catalogue, Grid, Preset, Split, Trace } from "../answers.ts";
import { fieldsMarkup, onFieldChange, showValues, type Field } from "../controls.ts";
import { CoreError, type Core } from "../core.ts";
import { factor, fixed, scientific } from "../format.ts";
import { patch } from "../patch.ts";
import { player } from "../player.ts";
import { GRID_OPTIONS, ROW_OPTIONS, SPLIT_OPTIONS, optionsOf, wordsOf, type StreamState, type View } from "../state.ts";
import { escape } from "../svg.ts";
import { bars, reachOf, type Row } from "./bars.ts";
import { chip } from "./chip.ts";
import { errorCurve } from "./error.ts";
import { gridSentence, rowSentence, splitSentence } from "./sentences.ts";
import { strip } from "./strip.ts";
import { tiles } from "./tiles.ts";
import { tree } from "./tree.ts";

const DTYPES = [
  { value: "f32", label: "float32" },
  { value: "bf16", label: "bfloat16" },
  { value: "f16", label: "float16" },
];

const ROW_FIELDS: readonly Field[] = [
  { name: "n", label: "Keys N", kind: "number", min: 1, max: 1024, step: 1 },
  { name: "block", label: "Keys of a block", kind: "number", min: 1, max: 256, step: 1 },
  { name: "d", label: "Dimension D", kind: "number", min: 1, max: 256, step: 1, placeholder: "4" },
  { name: "seed", label: "Seed", kind: "number", min: 0, step: 1, placeholder: "0" },
  { name: "dtype", label: "Type", kind: "choice", choices: DTYPES },
  { name: "gain", label: "Scores times", kind: "number", step: "any", placeholder: "1" },
  { name: "ramp", label: "plus, times key", kind: "number", step: "any", placeholder: "0" },
  { name: "shift", label: "plus", kind: "number", step: "any", placeholder: "0" },
  { name: "row", label: "Causal, query", kind: "number", min: 0, step: 1, placeholder: "none" },
  { name: "sink", label: "Sink", kind: "number", step: "any", placeholder: "none" },
];

const FIELDS: Record<View, readonly Field[]> = {
  row: ROW_FIELDS,
  split: [{ name: "workers", label: "Workers P", kind: "number", min: 1, max: 16, step: 1 }, ...ROW_FIELDS],
  grid: [
    { name: "n", label: "Queries and keys N", kind: "number", min: 1, max: 4096, step: 1 },
    { name: "grid", label: "Queries of a tile", kind: "number", min: 1, max: 4096, step: 1 },
    { name: "block", label: "Keys of a tile", kind: "number", min: 1, max: 4096, step: 1 },
    {
      name: "window",
      label: "Mask",
      kind: "choice",
      choices: [
        { value: "", label: "none" },
        { value: "-1,0", label: "causal" },
        { value: "16,0", label: "causal, window of 16" },
        { value: "8,0", label: "causal, window of 8" },
        { value: "8,8", label: "window of 8 on both sides" },
      ],
    },
  ],
};

const WORDS_OF: Record<View, readonly string[]> = { row: ROW_OPTIONS, split: SPLIT_OPTIONS, grid: GRID_OPTIONS };
const MOST_BLOCKS = 256, MOST_TILES = 128; // that a picture shows

export const viewOf = (preset: Preset): View =>
  preset.words.includes("--grid") ? "grid" : preset.words.includes("--workers") ? "split" : "row";

type Answer =
  | ({ view: "row"; trace: Trace } & Rows)
  | ({ view: "split"; trace: Trace; split: Split } & Rows)
  | { view: "grid"; grid: Grid };

/** What the output panel shows at each step, and the end of its axis. */
interface Rows {
  rows: Row[];
  most: number;
}

const asRow = (s: { o: number[]; o_over_l: number[] }): Row => ({ o: s.o, normalised: s.o_over_l });

function rowsOf(states: { o: number[]; o_over_l: number[] }[], trace: Trace): Rows {
  const rows = states.map(asRow);
  return { rows, most: reachOf(rows, trace.exact.out) };
}

function ask(core: Core, state: StreamState): Answer {
  const words = wordsOf(state.options, WORDS_OF[state.view]);
  if (state.view === "grid") {
    const { grid } = core.ask("grid", words);
    if (grid.tiles.length > MOST_TILES || (grid.tiles[0]?.length ?? 0) > MOST_TILES)
      throw new CoreError(`This picture shows at most ${MOST_TILES} tiles a side; make the tiles larger.`);
    return { view: "grid", grid };
  }
  const { trace, split } = core.ask("trace", words);
  if (trace.steps.length > MOST_BLOCKS)
    throw new CoreError(`This picture shows at most ${MOST_BLOCKS} blocks; make the blocks larger.`);
  if (!split) return { view: "row", trace, ...rowsOf([trace.start, ...trace.steps], trace) };
  const states = [split.parts[0]?.state ?? split.tree, ...split.merges.map((m) => m.state)];
  return { view: "split", trace, split, ...rowsOf(states, trace) };
}

export function stepsOf(answer: Answer): number {
  if (answer.view === "row") return answer.trace.steps.length;
  return answer.view === "split" ? answer.split.merges.length : answer.grid.tiles.length;
}

function sentenceOf(answer: Answer, step: number): string {
  if (answer.view === "row") return rowSentence(answer.trace, step);
  return answer.view === "split" ? splitSentence(answer.split, step) : gridSentence(answer.grid, step);
}

// ---- Panels ----

const panel = (name: string, title: string, content: string, key = "") =>
  `<section class="panel ${name}"><h3>${title}</h3>${key}${content}</section>`;

const LEGEND = `<p class="legend"><span class="key sum">O</span><span class="key mean">O / l</span><span class="key exact">exact</span></p>`;

const GAP = 20, NARROWEST = 270, PADDING = 26; // of panels, as in style.css

/** How many panels stand side by side, of those that may. */
const columnsOf = (width: number, most: number) =>
  Math.max(1, Math.min(most, Math.floor((width + GAP) / (NARROWEST + GAP))));
const inside = (width: number, most: number) => {
  const columns = columnsOf(width, most);
  return (width - (columns - 1) * GAP) / columns - PADDING;
};

function rowPanels({ trace, rows, most }: { trace: Trace } & Rows, step: number, width: number): string {
  const inner = width - PADDING;
  const size = { width: inside(width, 3), height: columnsOf(width, 3) === 3 ? 330 : 230 };
  return (
    panel("wide", "The row of scores, streamed block by block", strip(trace, step, inner)) +
    panel("", "On chip", chip(trace, step)) +
    panel("", "The output", bars(rows[step] ?? rows[0]!, trace.exact.out, { most, ...size }), LEGEND) +
    panel("", "Error of O / l", errorCurve(trace.steps.map((s) => s.error), step, size))
  );
}

function splitPanels({ trace, split, rows, most }: { trace: Trace; split: Split } & Rows, step: number, width: number): string {
  const size = { width: inside(width, 2), height: 240 };
  const facts = `<table class="state"><caption>Three ways to add up the same keys</caption><tbody><tr><th scope="row">as the tree</th><td>error <b>${scientific(split.tree_error)}</b></td></tr><tr><th scope="row">one after the other</th><td>error <b>${scientific(split.chain_error)}</b></td></tr><tr><th scope="row">in one loop, unsplit</th><td>error <b>${scientific(trace.steps.at(-1)?.error ?? 0)}</b></td></tr></tbody></table>`;
  const title = step === 0 ? "What the first worker knows" : "After this merge";
  return (
    panel("wide", "Workers and their merges", `<div class="scroll">${tree(split, step, width - PADDING)}</div>`) +
    panel("", title, bars(rows[step] ?? asRow(split.tree), trace.exact.out, { most, ...size }), LEGEND) +
    panel("", "The same row, to rounding", facts)
  );
}

function gridPanels(grid: Grid, step: number, width: number): string {
  const legend = `<p class="legend"><span class="key full">full</span><span class="key masked">masked</span><span class="key skipped">skipped</span></p>`;
  const facts = `<table class="state"><caption>All tiles</caption><tbody><tr><th scope="row">full</th><td><b>${grid.full}</b></td></tr><tr><th scope="row">masked</th><td><b>${grid.masked}</b></td></tr><tr><th scope="row">skipped</th><td><b>${grid.skipped}</b></td></tr><tr><th scope="row">pairs visible</th><td><b>${grid.visible_pairs}</b> of ${grid.pairs}</td></tr><tr><th scope="row">pairs computed</th><td><b>${grid.computed_pairs}</b></td></tr></tbody></table>`;
  return (
    panel("", "Query tiles × key tiles", tiles(grid, step, Math.min(inside(width, 2), 460)), legend) +
    panel("", "What a mask saves", facts)
  );
}

function panelsOf(answer: Answer, step: number, width: number): string {
  if (answer.view === "row") return rowPanels(answer, step, width);
  return answer.view === "split"
    ? splitPanels(answer, step, width)
    : gridPanels(answer.grid, step, width);
}

// ---- The table of steps ----

function stepsTable(trace: Trace): string {
  const cells = (s: Trace["steps"][number]) =>
    s.skipped
      ? `<td colspan="5">skipped</td>`
      : `<td>${fixed(s.m, 4)}${s.grew ? " ▲" : ""}</td><td>${factor(s.rescale)}</td><td>${fixed(s.l, 4)}</td><td>${s.o_over_l.slice(0, 4).map((x) => fixed(x, 3)).join(" ")}${s.o_over_l.length > 4 ? " …" : ""}</td><td>${scientific(s.error)}</td>`;
  const body = trace.steps
    .map((s) => `<tr><th scope="row">${s.keys[0]}–${s.keys[1] - 1}</th>${cells(s)}</tr>`)
    .join("");
  return `<table class="numbers"><caption>Every step; ▲ marks a new maximum</caption><thead><tr><th scope="col">keys</th><th scope="col">m</th><th scope="col">rescale</th><th scope="col">l</th><th scope="col">O / l</th><th scope="col">error</th></tr></thead><tbody>${body}</tbody></table>`;
}

// ---- The widget ----

const GROUPS: readonly { view: View; title: string }[] = [
  { view: "row", title: "One row" },
  { view: "split", title: "Split and merged" },
  { view: "grid", title: "All tiles" },
];

function presetsMarkup(catalogue: Catalogue): string {
  return GROUPS.map(({ view, title }) => {
    const buttons = catalogue.presets
      .filter((preset) => viewOf(preset) === view)
      .map((p) => `<button type="button" class="preset" data-preset="${p.name}" aria-pressed="false">${escape(p.title)}</button>`);
    return `<div class="preset-group" role="group" aria-label="${title}"><span class="group-name" aria-hidden="true">${title}</span>${buttons.join("")}</div>`;
  }).join("");
}

const MARKUP = `
<div class="presets"></div>
<p class="lesson"></p>
<div class="player-place"></div>
<p class="sentence" aria-live="polite"></p>
<p class="refusal" role="alert" hidden></p>
<div class="stage" tabindex="0" role="group" aria-label="Streaming softmax: left and right arrow step, space plays"></div>
<details class="settings"><summary>Change the numbers</summary><div class="fields"></div></details>
<details class="steps"><summary>Every step as a table</summary><div class="scroll" tabindex="0" role="group" aria-label="Table of steps"></div></details>
<p class="command"><span>The same numbers, bit for bit:</span> <code></code></p>`;

function part<T extends HTMLElement>(root: HTMLElement, selector: string): T {
  const found = root.querySelector<T>(selector);
  if (!found) throw new Error(`the widget has no ${selector}`);
  return found;
}

export interface StreamWidget {
  show(state: StreamState): void;
}

export function streamWidget(root: HTMLElement, core: Core, changed: (state: StreamState) => void): StreamWidget {
  const catalogue = core.catalogue();
  root.innerHTML = MARKUP;
  const stage = part(root, ".stage"), fields = part(root, ".fields"), refusal = part(root, ".refusal");
  part(root, ".presets").innerHTML = presetsMarkup(catalogue);
  let state: StreamState = { options: {}, view: "row", step: -1 };
  let answer: Answer | null = null;
  let fieldsView: View | null = null;

  const presetNow = () =>
    catalogue.presets.find((p) => viewOf(p) === state.view && wordsOf(optionsOf(p.words), WORDS_OF[state.view]) === wordsOf(state.options, WORDS_OF[state.view]));

  function draw(): void {
    if (!answer) return;
    const steps = stepsOf(answer);
    const step = state.step < 0 ? steps : Math.min(state.step, steps);
    controls.show(step, steps);
    const width = stage.clientWidth;
    if (width === 0) return; // not laid out yet: the observer will call again
    const columns = String(columnsOf(width, answer.view === "row" ? 3 : 2));
    // Set only where it changes: a property that children inherit costs a style of each of them.
    if (stage.style.getPropertyValue("--columns") !== columns) stage.style.setProperty("--columns", columns);
    patch(stage, panelsOf(answer, step, width));
    part(root, ".sentence").textContent = sentenceOf(answer, step);
  }

  function drawAround(): void {
    const preset = presetNow();
    for (const button of root.querySelectorAll<HTMLElement>(".preset"))
      button.setAttribute("aria-pressed", String(button.dataset["preset"] === preset?.name));
    part(root, ".lesson").textContent = preset?.lesson ?? "Your own numbers.";
    part(root, "code").textContent = `tessera explain --json ${wordsOf(state.options, WORDS_OF[state.view])}`;
    if (fieldsView !== state.view) fields.innerHTML = fieldsMarkup(FIELDS[state.view], state.options, "stream");
    fieldsView = state.view;
    showValues(fields, { ...state.options, dtype: state.options["dtype"] ?? "f32" });
    part(root, ".steps").hidden = state.view === "grid";
    drawTable();
  }

  function drawTable(): void {
    const details = part<HTMLDetailsElement>(root, ".steps");
    if (details.open && answer && answer.view !== "grid") patch(part(details, ".scroll"), stepsTable(answer.trace));
  }

  /** Asks the core; a question that makes no sense leaves the last picture and a sentence. */
  function recompute(): void {
    try {
      answer = ask(core, state);
      refusal.hidden = true;
    } catch (error) {
      if (!(error instanceof CoreError)) throw error;
      refusal.textContent = error.message;
      refusal.hidden = false;
    }
  }

  function update(next: StreamState): void {
    state = next;
    recompute();
    drawAround();
    draw();
    changed(state);
  }

  const controls = player(part(root, ".player-place"), stage, (step) => {
    state = { ...state, step };
    draw();
    changed(state);
  });
  root.addEventListener("click", (event) => {
    const name = (event.target as Element).closest<HTMLElement>("[data-preset]")?.dataset["preset"];
    const preset = catalogue.presets.find((p) => p.name === name);
    if (!preset) return;
    controls.stop();
    update({ options: optionsOf(preset.words), view: viewOf(preset), step: viewOf(preset) === "grid" ? -1 : 1 });
  });
  onFieldChange(fields, (name, value) => {
    controls.stop();
    update({ ...state, options: { ...state.options, [name]: value } });
  });
  part(root, ".steps").addEventListener("toggle", drawTable);
  new ResizeObserver(draw).observe(stage);

  return {
    show(next) {
      state = next;
      recompute();
      drawAround();
      draw();
    },
  };
}

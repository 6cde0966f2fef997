// The traffic: what standard and tiled attention move, allocate and take, as N grows.

import type { Answers, Catalogue, Machine, Measured, TrafficRow } from "../answers.ts";
import { fieldsMarkup, onFieldChange, showValues, type Field } from "../controls.ts";
import { CoreError, type Core } from "../core.ts";
import { byteRate, bytes, flopRate, integer, length, significant, times } from "../format.ts";
import { patch } from "../patch.ts";
import { TRAFFIC_OPTIONS, wordsOf, type Options, type TrafficState } from "../state.ts";
import { escape } from "../svg.ts";
import { cards } from "./cards.ts";
import { bytesChart, memoryChart, rooflineChart, timeChart } from "./curves.ts";
import { formulas, typeset, withNumbers } from "./formulas.ts";
import { sramBar, sramSentence } from "./sram.ts";
import { trafficTable } from "./table.ts";

/** 2^8 to 2^20, the notches of the slider. */
export const LENGTHS = Array.from({ length: 13 }, (_, i) => String(2 ** (i + 8)));

type Answer = Answers["traffic"];

const PLAIN: readonly Field[] = [
  { name: "d", label: "Head dimension D", kind: "choice", choices: ["32", "64", "96", "128", "192", "256"].map((v) => ({ value: v, label: v })) },
  { name: "heads", label: "Heads", kind: "number", min: 1, max: 1024, step: 1 },
  { name: "batch", label: "Batch", kind: "number", min: 1, max: 4096, step: 1 },
  { name: "dtype", label: "Type", kind: "choice", choices: [{ value: "bf16", label: "bfloat16" }, { value: "f16", label: "float16" }, { value: "f32", label: "float32" }] },
  { name: "pass", label: "Pass", kind: "choice", choices: [{ value: "forward", label: "forward" }, { value: "backward", label: "backward" }] },
];

// The unit of a field is a word that is added to what is typed: the core reads "3350e9".
const RATES: readonly { name: string; label: string; unit: string; suffix: string; power: number }[] = [
  { name: "peak", label: "Peak", unit: "TFLOP/s", suffix: "e12", power: 1e12 },
  { name: "bandwidth", label: "Slow memory", unit: "GB/s", suffix: "e9", power: 1e9 },
];
const SIZES: readonly { name: string; label: string; unit: string; power: number }[] = [
  { name: "cache", label: "Cache before it", unit: "MiB", power: 1048576 },
  { name: "sram", label: "Fast memory M", unit: "KiB", power: 1024 },
];

const MACHINE_FIELDS: readonly Field[] = [...RATES, ...SIZES].map(({ name, label, unit }): Field => ({
  name, label, unit, kind: "number", min: 0, step: "any",
}));
const TILE_FIELDS: readonly Field[] = [
  { name: "rows", label: "Queries of a tile", kind: "number", min: 1, max: 65536, step: 1, placeholder: "largest that fits" },
  { name: "columns", label: "Keys of a tile", kind: "number", min: 1, max: 65536, step: 1, placeholder: "largest that fits" },
];

/** What the machine itself says, in the units of the fields. */
function machineValues(machine: Machine | undefined, options: Options): Options {
  if (!machine) return {};
  const peak = options["dtype"] === "f32" ? machine.flops_32 : machine.flops_16;
  return {
    peak: String(Number((peak / 1e12).toPrecision(6))),
    bandwidth: String(Number((machine.bytes_per_second / 1e9).toPrecision(6))),
    cache: String(machine.cache_bytes / 1048576),
    sram: String(machine.sram_bytes / 1024),
  };
}

/** The values of all fields for options as the core takes them. */
function fieldValues(machine: Machine | undefined, options: Options): Options {
  const values: Options = { ...options, ...machineValues(machine, options) };
  for (const { name, suffix } of RATES) {
    const own = options[name];
    if (own) values[name] = own.replace(suffix, "");
  }
  for (const { name, power } of SIZES) {
    const own = options[name];
    if (own) values[name] = String(Number(own) / power);
  }
  const [rows = "", columns = ""] = (options["tile"] ?? "").split(",");
  return { ...values, rows, columns };
}

/** The options after a field has changed. */
export function withField(options: Options, name: string, value: string): Options {
  const rate = RATES.find((field) => field.name === name);
  const size = SIZES.find((field) => field.name === name);
  if (rate) return { ...options, [name]: value && value + rate.suffix };
  if (size) return { ...options, [name]: value && String(Math.round(Number(value) * size.power)) };
  if (name === "rows" || name === "columns") {
    const [rows = "", columns = ""] = (options["tile"] ?? "").split(",");
    const sides = name === "rows" ? [value, columns || value] : [rows || value, value];
    return { ...options, tile: sides.every(Boolean) ? sides.join(",") : "" };
  }
  if (name === "gpu") return { ...options, gpu: value, peak: "", bandwidth: "", cache: "", sram: "" };
  return { ...options, [name]: value };
}

export function trafficWords(options: Options): string {
  return wordsOf({ ...options, lengths: LENGTHS.join(",") }, TRAFFIC_OPTIONS);
}

/** The points of bench/results that were measured as these options say. */
export function matching(measured: readonly Measured[], o: Options): Measured[] {
  return measured.filter(
    (m) =>
      m.machine === o["gpu"] && String(m.d) === o["d"] && m.dtype === o["dtype"] && m.pass === o["pass"] &&
      String(m.heads) === o["heads"] && String(m.batch) === o["batch"] && LENGTHS.includes(String(m.n)),
  );
}

// ---- Pieces ----

function lawSentence(row: TrafficRow): string {
  const law = `<var>M</var> = ${integer(Math.round(row.sram_elements))} elements, so <var>N</var>² <var>d</var>² / <var>M</var> is ${bytes(row.law_bytes)}`;
  const ratio = row.tiled ? `; tiled attention that re-reads K and V moves ${times(row.tiled.law_ratio)} that` : "";
  return `<b>Θ(<var>N</var>² <var>d</var>² / <var>M</var>)</b> is the law of the re-reading schedule (dotted curve; <a href="#src-fa1">Dao et al. 2022</a>): ${law}${ratio}. It is quadratic too: only the constant is smaller.`;
}

function passSentence(row: TrafficRow): string {
  if (row.pass === "forward") return "Forward, all three do the same arithmetic: 4 N² d for each head.";
  return "Backward, tiled attention does more arithmetic, 10 N² d against 8 N² d for each head: it computes the scores again instead of storing them.";
}

function formulaTable(row: TrafficRow): string {
  const body = formulas(row)
    .map((f) => `<tr><th scope="row">${f.what}</th><td><code>${escape(typeset(f.letters))}</code><br><code class="numbers-in">= ${escape(typeset(withNumbers(f.letters, row)))}</code></td><td><b>${f.shown}</b></td></tr>`)
    .join("");
  const spill = row.pass === "backward" ? " spill is 1 where dQ passes through slow memory." : "";
  return `<table class="formulas"><caption>e bytes an element, T passes of the outer loop, tiles of Br × Bc.${spill} <a href="#src-traffic">Derivations</a></caption><tbody>${body}</tbody></table>`;
}

function sourceLine(machine: Machine | undefined, answer: Answer): string {
  const roof = answer.roof;
  const ridge = roof ? `${flopRate(roof.flops_per_second)} and ${byteRate(roof.bytes_per_second)} meet at ${significant(roof.ridge, 3)} FLOP per byte.` : "";
  const dashed = answer.traffic.some((row) => row.cache_holds === false) ? " Dashed: K and V of one head no longer fit in the cache." : "";
  return `${ridge}${machine ? ` Source: ${escape(machine.source)}.` : ""}${dashed}`;
}

const MARKUP = `
<div class="top">
  <div class="field machine"><label for="traffic-gpu">Machine</label><select id="traffic-gpu" data-option="gpu"></select></div>
  <div class="field slider"><label for="traffic-n">Sequence length N <output class="n-now"></output></label><input id="traffic-n" type="range" min="0" max="${LENGTHS.length - 1}" step="1"></div>
</div>
<div class="fields plain"></div>
<p class="refusal" role="alert" hidden></p>
<div class="cards" aria-live="polite"></div>
<p class="sentence pass"></p>
<div class="charts">
  <section class="panel"><h3>What crosses slow memory</h3><div class="chart" data-chart="bytes"></div></section>
  <section class="panel"><h3>What is allocated</h3><div class="chart" data-chart="memory"></div></section>
  <section class="panel"><h3>How long it takes at best</h3><div class="chart" data-chart="time"></div></section>
  <section class="panel"><h3>The roofline</h3><div class="chart" data-chart="roofline"></div></section>
</div>
<p class="law-line"></p>
<p class="measured"></p>
<p class="source"></p>
<section class="panel sram"><h3>Does the tile fit?</h3><div class="sram-bar"></div><p class="sram-sentence"></p></section>
<details class="settings"><summary>Change the machine and the tile</summary><div class="fields more"></div></details>
<details class="formula-place"><summary>Formulas, with the numbers put in</summary><div class="scroll" tabindex="0" role="group" aria-label="Formulas"></div></details>
<details class="table-place"><summary>The curves as a table</summary><div class="scroll" tabindex="0" role="group" aria-label="Table of the curves"></div></details>
<p class="command"><span>The same numbers, bit for bit:</span> <code></code></p>`;

function part<T extends HTMLElement>(root: HTMLElement, selector: string): T {
  const found = root.querySelector<T>(selector);
  if (!found) throw new Error(`the widget has no ${selector}`);
  return found;
}

export interface TrafficWidget {
  show(state: TrafficState): void;
}

export function trafficWidget(
  root: HTMLElement,
  core: Core,
  measured: readonly Measured[],
  changed: (state: TrafficState) => void,
): TrafficWidget {
  const catalogue: Catalogue = core.catalogue();
  root.innerHTML = MARKUP;
  part(root, "#traffic-gpu").innerHTML = catalogue.machines
    .map((m) => `<option value="${m.name}">${escape(m.title)}</option>`)
    .join("");
  let options: Options = {};
  let answer: Answer | null = null;
  const slider = part<HTMLInputElement>(root, "#traffic-n");
  const machine = () => catalogue.machines.find((m) => m.name === options["gpu"]);

  part(root, ".fields.plain").innerHTML = fieldsMarkup(PLAIN, {}, "traffic");
  part(root, ".fields.more").innerHTML = fieldsMarkup([...TILE_FIELDS, ...MACHINE_FIELDS], {}, "traffic");

  function recompute(): void {
    const refusal = part(root, ".refusal");
    try {
      answer = core.ask("traffic", trafficWords(options));
      refusal.hidden = true;
    } catch (error) {
      if (!(error instanceof CoreError)) throw error;
      refusal.textContent = error.message;
      refusal.hidden = false;
    }
  }

  function drawCharts(current: Answer, n: number): void {
    const points = matching(measured, options);
    if (part(root, ".charts").clientWidth === 0) return; // not laid out yet: the observer will call again
    for (const place of root.querySelectorAll<HTMLElement>(".chart")) {
      const width = place.clientWidth;
      const kind = place.dataset["chart"];
      if (kind === "bytes") patch(place, bytesChart(current, n, width));
      else if (kind === "memory") patch(place, memoryChart(current, n, width));
      else if (kind === "time") patch(place, timeChart(current, n, width, points));
      else patch(place, rooflineChart(current, n, width, points));
    }
    const count = points.length;
    patch(
      part(root, ".measured"),
      count > 0
        ? `◆ ${count} measured points of <code>bench/results</code>, drawn over the model.`
        : `No point of <code>bench/results</code> was measured with these values. <button type="button" class="link" data-show="measured">Show those that we have</button>`,
    );
  }

  function draw(): void {
    const n = Number(options["n"]);
    const row = answer?.traffic.find((r) => r.n === n);
    if (!answer || !row) return;
    slider.value = String(LENGTHS.indexOf(String(n)));
    slider.setAttribute("aria-valuetext", integer(n));
    part<HTMLOutputElement>(root, ".n-now").value = length(n);
    patch(part(root, ".cards"), cards(row));
    part(root, ".pass").textContent = passSentence(row);
    drawCharts(answer, n);
    part(root, ".source").textContent = sourceLine(machine(), answer);
    const bar = part(root, ".sram-bar");
    patch(bar, row.tile ? sramBar(row, bar.clientWidth) : "");
    const sentence = part(root, ".sram-sentence");
    sentence.textContent = sramSentence(row);
    sentence.classList.toggle("bad", !row.fits);
    patch(part(root, ".law-line"), lawSentence(row));
    part(root, ".command code").textContent = `tessera explain --json ${wordsOf({ ...options, lengths: String(n) }, TRAFFIC_OPTIONS)}`;
    drawDetails(row);
  }

  function drawDetails(row: TrafficRow): void {
    const formulaPlace = part<HTMLDetailsElement>(root, ".formula-place");
    if (formulaPlace.open) patch(part(formulaPlace, ".scroll"), formulaTable(row));
    const tablePlace = part<HTMLDetailsElement>(root, ".table-place");
    if (tablePlace.open && answer) patch(part(tablePlace, ".scroll"), trafficTable(answer.traffic, row.n));
  }

  function update(next: Options): void {
    options = next;
    recompute();
    showValues(root, fieldValues(machine(), options));
    draw();
    changed({ options });
  }

  slider.addEventListener("input", () => {
    options = { ...options, n: LENGTHS[Number(slider.value)] ?? "8192" };
    draw();
    changed({ options });
  });
  onFieldChange(root, (name, value) => update(withField(options, name, value)));
  root.addEventListener("click", (event) => {
    if (!(event.target as Element).closest("[data-show=measured]")) return;
    const first = measured.find((m) => m.pass === "forward" && m.dtype === "f32" && m.d === 64);
    if (!first) return;
    update({
      n: "2048", gpu: first.machine, d: String(first.d), heads: String(first.heads),
      batch: String(first.batch), dtype: first.dtype, pass: first.pass,
    });
  });
  for (const details of root.querySelectorAll("details")) details.addEventListener("toggle", draw);
  new ResizeObserver(draw).observe(part(root, ".charts"));

  return {
    show(state) {
      options = state.options;
      recompute();
      showValues(root, fieldValues(machine(), options));
      draw();
    },
  };
}

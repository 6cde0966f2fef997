// The row of scores, block by block, and the running maximum above it.

import type { Step, Trace } from "../answers.ts";
import { fixed } from "../format.ts";
import { element, line, linear, path, rect, svg, text, ticks, type Scale } from "../svg.ts";

const LEFT = 36, RIGHT = 10, TOP = 26, BOTTOM = 30, HEIGHT = 216;

function scoreRange(trace: Trace): [number, number] {
  const values = [...trace.scores, trace.start.m].filter(Number.isFinite);
  if (values.length === 0) return [-1, 1];
  const low = Math.min(...values), high = Math.max(...values);
  const room = (high - low || 1) * 0.12;
  return [low > 0 && low < high ? Math.max(0, low - room) : low - room, high + room];
}

interface Frame {
  scores: [number, number]; // the least and the largest that the picture shows
  x: Scale; // of a key
  y: Scale; // of a score
  base: number; // where bars start
  bottom: number;
}

function frameOf(trace: Trace, width: number): Frame {
  const [low, high] = scoreRange(trace);
  const bottom = HEIGHT - BOTTOM;
  const y = linear([low, high], [bottom, TOP]);
  return {
    scores: [low, high],
    x: linear([0, trace.options.keys], [LEFT, width - RIGHT]),
    y,
    base: low < 0 && high > 0 ? y(0) : bottom,
    bottom,
  };
}

type Age = "past" | "now" | "future";

// One path for all keys of the same age, not one element for each key: what 512 keys may cost a frame.

const at = (x: number) => String(Math.round(x * 100) / 100);

function barShape(frame: Frame, key: number, score: number): string {
  const left = frame.x(key), wide = frame.x(key + 1) - left, gap = Math.min(wide * 0.2, 3);
  const tall = frame.y(score) - frame.base;
  return `M${at(left + gap / 2)} ${at(frame.base)}h${at(wide - gap)}v${at(Math.abs(tall) < 1 ? 1 : tall)}h${at(gap - wide)}z`;
}

const middleOf = (frame: Frame, key: number) => (frame.x(key) + frame.x(key + 1)) / 2;

const crossShape = (frame: Frame, key: number) =>
  `M${at(middleOf(frame, key) - 3)} ${at(frame.bottom - 11)}l6 6m0 -6l-6 6`;

function blockShape(frame: Frame, [begin, end]: readonly [number, number]): string {
  const left = frame.x(begin) + 1, right = frame.x(end) - 1;
  return `M${at(left)} ${TOP}H${at(right)}V${frame.bottom}H${at(left)}z`;
}

/** What a block looks like at any age, as parts of paths. */
interface Shape {
  ground: string;
  bars: string;
  crosses: string; // for hidden keys
  dots: string; // for scores that are not known yet
}

function shapeOf(frame: Frame, step: Step): Shape {
  const begin = step.keys[0];
  const shape: Shape = { ground: blockShape(frame, step.keys), bars: "", crosses: "", dots: "" };
  step.scores.forEach((score, i) => {
    if (Number.isFinite(score)) shape.bars += barShape(frame, begin + i, score);
    else shape.crosses += crossShape(frame, begin + i);
    shape.dots += `M${at(middleOf(frame, begin + i))} ${at(frame.base)}h0`;
  });
  return shape;
}

interface Drawing {
  width: number;
  frame: Frame;
  shapes: Shape[];
}

// A step moves blocks from one age to the next; their shapes stay.
const drawings = new WeakMap<Trace, Drawing>();

function drawingOf(trace: Trace, width: number): Drawing {
  const known = drawings.get(trace);
  if (known?.width === width) return known;
  const frame = frameOf(trace, width);
  const drawing = { width, frame, shapes: trace.steps.map((step) => shapeOf(frame, step)) };
  drawings.set(trace, drawing);
  return drawing;
}

const joined = (shapes: readonly Shape[], part: keyof Shape) => shapes.map((shape) => shape[part]).join("");

/** One ground for each block, or where they are too narrow to tell apart, one for all. */
function groundsOf(frame: Frame, steps: readonly Step[], shapes: readonly Shape[]): string {
  const first = steps[0]?.keys, last = steps.at(-1)?.keys;
  if (!first || !last) return "";
  const narrow = frame.x(first[1]) - frame.x(first[0]) < 14;
  return narrow ? blockShape(frame, [first[0], last[1]]) : joined(shapes, "ground");
}

/** The blocks from `begin` to `end`, which are of one age. */
function ageMarks({ frame, shapes }: Drawing, trace: Trace, [begin, end]: [number, number], age: Age): string {
  const steps = trace.steps.slice(begin, end), some = shapes.slice(begin, end);
  const ground = element("path", { d: groundsOf(frame, steps, some), class: `block ${age}` });
  if (age === "future") return ground + element("path", { d: joined(some, "dots"), class: "unknown" });
  const skipped = steps.flatMap((step, i) =>
    step.skipped ? [element("path", { d: some[i]?.ground, class: `block ${age} skipped` })] : [],
  );
  return (
    ground +
    skipped.join("") +
    element("path", { d: joined(some, "bars"), class: `score ${age}` }) +
    element("path", { d: joined(some, "crosses"), class: "hidden-key" })
  );
}

function keyLabel(frame: Frame, { keys: [begin, end] }: Step, now: boolean): string {
  const name = end - begin === 1 ? String(begin) : `${begin}–${end - 1}`;
  const x = (frame.x(begin) + frame.x(end)) / 2;
  return text(name, { x, y: frame.bottom + 16, class: `tick middle ${now ? "now" : ""}` });
}

/** The staircase of m over the blocks seen so far, with a mark where it grew. */
function maximumMarks(frame: Frame, trace: Trace, step: number): string {
  const points: [number, number][] = [];
  let arrows = "";
  let count = 0;
  if (Number.isFinite(trace.start.m)) points.push([LEFT - 4, frame.y(trace.start.m)]);
  for (const s of trace.steps.slice(0, step)) {
    if (!Number.isFinite(s.m)) continue;
    const y = frame.y(s.m), left = frame.x(s.keys[0]);
    points.push([left, y], [frame.x(s.keys[1]), y]);
    if (s.grew) {
      arrows += `M${at(left - 4)} ${at(y + 3)}l4 -7l4 7`;
      ++count;
    }
  }
  const grew = element("path", { d: arrows, class: "grew", "data-count": count });
  return path(points, { class: "maximum" }) + grew;
}

function frameOfChip(frame: Frame, trace: Trace, step: number, width: number): string {
  const now = trace.steps[step - 1];
  if (!now) return "";
  const left = frame.x(now.keys[0]), right = frame.x(now.keys[1]);
  const middle = Math.min(Math.max((left + right) / 2, LEFT + 24), width - RIGHT - 28);
  const word = now.skipped ? "skipped" : "on chip";
  return (
    rect(left, TOP - 2, right - left, frame.bottom - TOP + 4, { class: "chip", rx: 4 }) +
    text(word, { x: middle, y: TOP - 9, class: "chip-word middle" })
  );
}

/** What has become of the scores to the left, and what is known of those to the right. */
function fateWords(frame: Frame, trace: Trace, step: number): string {
  const past = trace.steps[step - 2]?.keys[1] ?? 0, next = trace.steps[step - 1]?.keys[1] ?? 0;
  const word = (from: number, to: number, ...contents: string[]) => {
    const room = frame.x(to) - frame.x(from) - 50; // the word above the chip may lean over
    const content = contents.find((c) => c.length * 6.5 < room);
    return content ? text(content, { x: (frame.x(from) + frame.x(to)) / 2, y: TOP - 9, class: "note middle" }) : "";
  };
  return (
    word(0, past, "forgotten: only m, l and O remain", "forgotten") +
    word(next, trace.options.keys, "not read yet")
  );
}

export function strip(trace: Trace, step: number, width: number): string {
  const drawing = drawingOf(trace, width), frame = drawing.frame;
  const [low, high] = frame.scores;
  const roomy = (width - LEFT - RIGHT) / Math.max(trace.steps.length, 1) >= 34;
  const axis = ticks(low, high, 4).map(
    (value) =>
      line(LEFT, frame.y(value), width - RIGHT, frame.y(value), { class: value === 0 ? "zero" : "grid" }) +
      text(fixed(value, high - low < 2 ? 1 : 0), { x: LEFT - 6, y: frame.y(value) + 4, class: "tick end" }),
  );
  const labels = trace.steps.map((s, i) => (roomy || i === step - 1 ? keyLabel(frame, s, i === step - 1) : ""));
  const before = Math.max(step - 1, 0);
  const now = trace.steps[step - 1];
  const label = now
    ? `Scores by key. Block ${step} of ${trace.steps.length} is on chip; the running maximum is ${fixed(now.m)}.`
    : "Scores by key. No block has been read yet.";
  return svg(
    width,
    HEIGHT,
    label,
    ...axis,
    ageMarks(drawing, trace, [0, before], "past"),
    ageMarks(drawing, trace, [before, step], "now"),
    ageMarks(drawing, trace, [step, trace.steps.length], "future"),
    ...labels,
    maximumMarks(frame, trace, step),
    frameOfChip(frame, trace, step, width),
    fateWords(frame, trace, step),
    text("score", { x: 4, y: 14, class: "axis" }),
    text("key", { x: 4, y: frame.bottom + 16, class: "axis" }),
  );
}

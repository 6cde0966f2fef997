// Workers, each with the state of its own keys, and the tree of merges below them.

import type { RowState, Split } from "../answers.ts";
import { factor, fixed } from "../format.ts";
import { element, line, linear, rect, svg, text } from "../svg.ts";

const BOX = 50, LEVEL = 92, TOP = 8;

interface Node {
  x: number;
  y: number;
  state: RowState;
  title: string;
  shown: boolean;
  now: boolean;
}

interface Edge {
  from: Node;
  to: Node;
  factor: number;
}

function layout(split: Split, step: number, width: number): { nodes: Node[]; edges: Edge[] } {
  const x = linear([0, split.parts.length], [0, width]);
  const nodes: Node[] = split.parts.map(({ keys, state }, i) => ({
    x: x(i + 0.5),
    y: TOP,
    state,
    title: keys[0] === keys[1] ? "no key" : `keys ${keys[0]}–${keys[1] - 1}`,
    shown: true,
    now: step === 0,
  }));
  const latest = [...nodes];
  const edges: Edge[] = [];
  split.merges.forEach((merge, i) => {
    const into = latest[merge.into], from = latest[merge.from];
    if (!into || !from) return;
    const node: Node = {
      x: (into.x + from.x) / 2,
      y: TOP + (merge.level + 1) * LEVEL,
      state: merge.state,
      title: "merged",
      shown: i < step,
      now: i === step - 1,
    };
    edges.push({ from: into, to: node, factor: merge.rescale_into }, { from, to: node, factor: merge.rescale_from });
    latest[merge.into] = node;
    nodes.push(node);
  });
  return { nodes, edges };
}

function box(node: Node, wide: number): string {
  const kind = node.shown ? (node.now ? "node now" : "node past") : "node future";
  const words = node.shown
    ? [
        text(wide > 72 ? node.title : "", { x: node.x, y: node.y + 15, class: "middle node-title" }),
        text(`m ${fixed(node.state.m)}`, { x: node.x, y: node.y + 30, class: "middle node-value" }),
        text(`l ${fixed(node.state.l)}`, { x: node.x, y: node.y + 44, class: "middle node-value" }),
      ]
    : [];
  return rect(node.x - wide / 2, node.y, wide, BOX, { class: kind, rx: 6 }) + words.join("");
}

function edgeMark(edge: Edge): string {
  const { from, to } = edge;
  const y1 = from.y + BOX, y2 = to.y, rightwards = from.x < to.x;
  const label = to.shown
    ? text(`× ${factor(edge.factor)}`, {
        x: from.x + (rightwards ? -4 : 4),
        y: y1 + 16,
        class: `note ${rightwards ? "end" : ""}`,
      })
    : "";
  return line(from.x, y1, to.x, y2, { class: to.shown ? "edge" : "edge future" }) + label;
}

const NARROWEST = 66; // of a worker; more of them than fit scroll

export function tree(split: Split, step: number, room: number): string {
  const width = Math.max(room, split.parts.length * NARROWEST);
  const { nodes, edges } = layout(split, step, width);
  const levels = Math.max(0, ...split.merges.map((merge) => merge.level + 1));
  const wide = Math.min(width / split.parts.length - 6, 116);
  const label = `${split.parts.length} workers; ${step} of ${split.merges.length} merges done.`;
  return svg(
    width,
    TOP + levels * LEVEL + BOX + 8,
    label,
    element("g", {}, ...edges.map(edgeMark)),
    element("g", {}, ...nodes.map((node) => box(node, wide))),
  );
}

// SVG as text, so that the same function draws at build time and in the browser.

export type Attributes = Record<string, string | number | undefined>;

const ESCAPES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

export const escape = (text: string): string => text.replace(/[&<>"]/g, (c) => ESCAPES[c] ?? c);

const written = (value: string | number): string =>
  typeof value === "number" ? String(Math.round(value * 100) / 100) : escape(value);

/** An element; its children are markup already. */
export function element(name: string, attributes: Attributes, ...children: string[]): string {
  let text = `<${name}`;
  for (const key in attributes) {
    const value = attributes[key];
    if (value !== undefined) text += ` ${key}="${written(value)}"`;
  }
  return `${text}>${children.join("")}</${name}>`;
}

export const text = (content: string, attributes: Attributes): string =>
  element("text", attributes, escape(content));

export const line = (x1: number, y1: number, x2: number, y2: number, attributes: Attributes): string =>
  element("line", { x1, y1, x2, y2, ...attributes });

export const rect = (x: number, y: number, width: number, height: number, a: Attributes): string =>
  element("rect", { x, y, width: Math.max(width, 0), height: Math.max(height, 0), ...a });

export function path(points: readonly (readonly [number, number])[], attributes: Attributes): string {
  const d = points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  return element("path", { d, ...attributes });
}

/** A picture with a description; one user unit is one CSS pixel at this width. */
export function svg(width: number, height: number, label: string, ...children: string[]): string {
  return element(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": label,
      class: "picture",
    },
    ...children,
  );
}

/** Where a value lies between two ends in pixels. */
export interface Scale {
  (value: number): number;
}

export function linear(domain: [number, number], range: [number, number]): Scale {
  const span = domain[1] - domain[0] || 1;
  return (value) => range[0] + ((value - domain[0]) / span) * (range[1] - range[0]);
}

export function logarithmic(domain: [number, number], range: [number, number]): Scale {
  const scale = linear([Math.log(domain[0]), Math.log(domain[1])], range);
  return (value) => scale(Math.log(value));
}

/** Round numbers across a range, about `count` of them. */
export function ticks(low: number, high: number, count: number): number[] {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((s) => s * power >= rough) ?? 10) * power;
  const result: number[] = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; ++i) result.push(i * step);
  return result;
}

/** Powers of a base, thinned out to at most `count`. */
export function powers(base: number, low: number, high: number, count: number): number[] {
  const exponent = (x: number) => Math.log(x) / Math.log(base);
  const first = Math.ceil(exponent(low) - 1e-9), last = Math.floor(exponent(high) + 1e-9);
  const step = Math.max(1, Math.ceil((last - first + 1) / count));
  const result: number[] = [];
  for (let power = Math.ceil(first / step) * step; power <= last; power += step) result.push(base ** power);
  return result;
}

// Numbers as a reader wants them. Nothing is computed here but the choice of a unit.

const MINUS = "−";

function spelled(x: number): string | null {
  if (Number.isNaN(x)) return "NaN";
  if (Number.isFinite(x)) return null;
  return x > 0 ? "∞" : `${MINUS}∞`;
}

const signed = (text: string) => text.replace("-", MINUS);

/** Two decimals: a score, a maximum, an element of O. */
export function fixed(x: number, digits = 2): string {
  return spelled(x) ?? signed((Object.is(x, -0) ? 0 : x).toFixed(digits));
}

/** A positive factor: 0.267, 1, 1.2e−9. */
export function factor(x: number): string {
  const word = spelled(x);
  if (word) return word;
  if (x === 0 || x === 1) return String(x);
  return x < 0.001 ? scientific(x) : significant(x, 3);
}

export function scientific(x: number): string {
  const word = spelled(x);
  if (word) return word;
  if (x === 0) return "0";
  const [mantissa = "", exponent = ""] = x.toExponential(1).split("e");
  return `${signed(mantissa)} × 10${superscript(Number(exponent))}`;
}

/** An error in a sentence: 0.69, 5.8 × 10⁻⁸. */
export const size = (x: number): string => (x >= 0.001 ? significant(x, 2) : scientific(x));

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

export function superscript(n: number): string {
  const digits = [...String(Math.abs(n))].map((digit) => SUPERSCRIPTS[Number(digit)]).join("");
  return n < 0 ? `⁻${digits}` : digits;
}

export function significant(x: number, digits: number): string {
  const word = spelled(x);
  if (word) return word;
  const text = x.toPrecision(digits);
  return signed(text.includes("e") ? String(Number(text)) : text);
}

/** 12 345 with thin spaces. */
export function integer(x: number): string {
  return String(x).replace(/\B(?=(\d{3})+$)/g, " ");
}

function scaled(x: number, step: number, units: readonly string[]): string {
  let unit = 0;
  let value = x;
  while (value >= step * 0.9995 && unit + 1 < units.length) {
    value /= step;
    ++unit;
  }
  const text = Number.isInteger(value) && value < 1000 ? String(value) : value.toPrecision(3);
  return `${text} ${units[unit] ?? ""}`;
}

/** Sizes in binary units, as the command line prints them; rates in decimal ones, as they are sold. */
export const bytes = (x: number): string => scaled(x, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]);
export const byteRate = (x: number): string =>
  `${scaled(x, 1000, ["B", "kB", "MB", "GB", "TB", "PB", "EB"])}/s`;
export const flops = (x: number): string =>
  scaled(x, 1000, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"]);
export const flopRate = (x: number): string => `${flops(x)}/s`;

export function seconds(x: number): string {
  if (x >= 1) return scaled(x, 1000, ["s", "ks"]);
  if (x >= 1e-3) return `${(x * 1e3).toPrecision(3)} ms`;
  if (x >= 1e-6) return `${(x * 1e6).toPrecision(3)} µs`;
  return `${(x * 1e9).toPrecision(3)} ns`;
}

/** 512, 8K, 1M: lengths are powers of two. */
export function length(n: number): string {
  if (n % 1048576 === 0) return `${n / 1048576}M`;
  if (n >= 1024 && n % 1024 === 0) return `${n / 1024}K`;
  return String(n);
}

/** 2.0×, 512×. */
export const times = (x: number): string => `${x >= 100 ? Math.round(x) : significant(x, 2)}×`;

export const percent = (x: number): string => `${significant(x * 100, 3)} %`;

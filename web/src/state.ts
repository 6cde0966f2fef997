// What the page shows, as a part of its address: options by the names of `tessera explain`.

export type Options = Record<string, string>;

export type View = "row" | "split" | "grid";

export interface StreamState {
  options: Options;
  view: View;
  step: number; // -1: the last one
}

export interface TrafficState {
  options: Options;
}

export interface PageState {
  stream: StreamState;
  traffic: TrafficState;
}

export const ROW_OPTIONS = [
  "n", "block", "d", "seed", "dtype", "gain", "ramp", "shift", "hide", "row", "sink",
] as const;
export const SPLIT_OPTIONS = [...ROW_OPTIONS, "workers"] as const;
export const GRID_OPTIONS = ["n", "block", "grid", "queries", "window"] as const;
export const TRAFFIC_OPTIONS = [
  "lengths", "d", "dtype", "tile", "sram", "heads", "batch", "pass", "gpu", "peak", "bandwidth", "cache",
] as const;

/** "--n 16 --block 4": those of the names that have a value. */
export function wordsOf(options: Options, names: readonly string[]): string {
  return names
    .filter((name) => options[name])
    .map((name) => `--${name} ${options[name]}`)
    .join(" ");
}

/** The options in "--n 16 --block 4". */
export function optionsOf(words: string): Options {
  const options: Options = {};
  for (const match of words.matchAll(/--(\S+) (\S+)/g)) options[match[1] ?? ""] = match[2] ?? "";
  return options;
}

const VIEWS: readonly string[] = ["row", "split", "grid"];
const STREAM_NAMES: readonly string[] = [...SPLIT_OPTIONS, "grid", "queries", "window"];
const TRAFFIC_NAMES: readonly string[] = ["n", ...TRAFFIC_OPTIONS.filter((name) => name !== "lengths")];

// Spaces separate options; nobody's address may smuggle in more of them.
const harmless = (value: string) => /^[\w.,+-]{1,64}$/.test(value);

/** "#view=row&n=16&step=2&traffic.n=4096"; null where the address carries no state. */
export function readHash(hash: string, defaults: PageState): PageState | null {
  if (!hash.includes("=")) return null;
  const stream: Options = {};
  const traffic: Options = { ...defaults.traffic.options };
  let { view, step } = defaults.stream;
  for (const [name, value] of new URLSearchParams(hash.slice(1))) {
    if (!harmless(value)) continue;
    const inner = name.startsWith("traffic.") ? name.slice(8) : "";
    if (name === "view" && VIEWS.includes(value)) view = value as View;
    else if (name === "step" && /^-?\d+$/.test(value)) step = Number(value);
    else if (STREAM_NAMES.includes(name)) stream[name] = value;
    else if (TRAFFIC_NAMES.includes(inner)) traffic[inner] = value;
  }
  const given = Object.keys(stream).length > 0;
  return {
    stream: { options: given ? stream : { ...defaults.stream.options }, view, step },
    traffic: { options: traffic },
  };
}

/** The address of a state; what is as by default is left out of the traffic. */
export function writeHash(state: PageState, defaults: PageState): string {
  const parameters = new URLSearchParams();
  parameters.set("view", state.stream.view);
  for (const name of STREAM_NAMES) {
    const value = state.stream.options[name];
    if (value) parameters.set(name, value);
  }
  parameters.set("step", String(state.stream.step));
  for (const name of TRAFFIC_NAMES) {
    const value = state.traffic.options[name];
    if (value && value !== defaults.traffic.options[name]) parameters.set(`traffic.${name}`, value);
  }
  return `#${parameters.toString().replaceAll("%2C", ",")}`;
}

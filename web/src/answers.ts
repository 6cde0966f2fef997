// The JSON of src/core/explain_json.cpp, as types. Infinities and NaN have become numbers.

export type Range = [begin: number, end: number];

export interface RowState {
  m: number;
  l: number;
  o: number[];
  o_over_l: number[];
  lse: number;
}

export interface Step {
  keys: Range;
  skipped: boolean;
  scores: number[];
  m_before: number;
  m: number;
  grew: boolean;
  rescale: number;
  p: number[];
  l: number;
  o: number[];
  o_over_l: number[];
  error: number;
}

export interface Trace {
  options: {
    keys: number;
    block: number;
    dim: number;
    seed: number;
    dtype: string;
    row: number | null;
    left: number | null;
    right: number | null;
    hidden: Range[];
    sink: number | null;
  };
  scores: number[];
  start: RowState;
  steps: Step[];
  out: number[];
  lse: number;
  exact: { m: number; l: number; lse: number; out: number[] };
  naive: number[];
}

export interface Merge {
  level: number;
  into: number;
  from: number;
  rescale_into: number;
  rescale_from: number;
  state: RowState;
}

export interface Split {
  parts: { keys: Range; state: RowState }[];
  merges: Merge[];
  tree: RowState;
  tree_error: number;
  chain: RowState;
  chain_error: number;
}

export interface Grid {
  queries: number;
  keys: number;
  tile: { queries: number; keys: number };
  left: number | null;
  right: number | null;
  offset: number;
  tiles: string[]; // '.' skipped, '/' masked, '#' full
  skipped: number;
  masked: number;
  full: number;
  pairs: number;
  visible_pairs: number;
  computed_pairs: number;
  computed_share: number;
  visible_share: number;
}

export interface Time {
  seconds: number;
  flops_per_second: number;
  bound: "memory" | "compute";
}

export interface Schedule {
  flops: number;
  bytes: number;
  flops_per_byte: number;
  allocated_bytes: number;
  time?: Time;
}

export interface Compared extends Schedule {
  standard_bytes_ratio: number;
  standard_allocated_ratio: number;
  law_ratio: number;
  standard_time_ratio?: number;
}

export interface TrafficRow {
  n: number;
  d: number;
  heads: number;
  element_bytes: number;
  pass: "forward" | "backward";
  sram_bytes: number;
  sram_elements: number;
  tile: { queries: number; keys: number } | null;
  passes: number;
  tile_bytes: number;
  tile_parts: { operands: number; sums: number; statistics: number; scores: number };
  fits: boolean;
  standard: Schedule;
  tiled: Compared | null;
  resident: Compared | null;
  resident_cache_bytes: number;
  law_bytes: number;
  cache_holds?: boolean;
}

export interface Roof {
  flops_per_second: number;
  bytes_per_second: number;
  cache_bytes: number;
  ridge: number;
  line: [intensity: number, flopsPerSecond: number][];
}

export interface Answers {
  trace: { trace: Trace; split?: Split };
  grid: { grid: Grid };
  traffic: { traffic: TrafficRow[]; roof?: Roof };
}

export interface Preset {
  name: string;
  title: string;
  words: string;
  lesson: string;
}

export interface Machine {
  name: string;
  title: string;
  flops_16: number;
  flops_32: number;
  bytes_per_second: number;
  cache_bytes: number;
  sram_bytes: number;
  source: string;
}

export interface Catalogue {
  presets: Preset[];
  machines: Machine[];
}

/** A point of bench/results that the model can be held against. */
export interface Measured {
  machine: string;
  who: string;
  n: number;
  d: number;
  heads: number;
  batch: number;
  dtype: string;
  pass: string;
  seconds: number;
  flops_per_second: number;
  date: string;
}

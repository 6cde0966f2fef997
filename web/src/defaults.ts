// What the page shows before the reader has touched it, in the static pictures too.

import type { PageState } from "./state.ts";

export const DEFAULTS: PageState = {
  stream: {
    options: { n: "16", block: "4", d: "6", seed: "12" },
    view: "row",
    step: 2,
  },
  traffic: {
    options: { n: "8192", gpu: "h100", d: "128", heads: "1", batch: "1", dtype: "bf16", pass: "forward", tile: "128,64" },
  },
};

import { readFileSync } from "node:fs";
import { openCore } from "../src/core.ts";

export const wasmBytes = () => readFileSync(new URL("../.build/core.wasm", import.meta.url));
export const openTestCore = () => openCore(wasmBytes());

import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { explainer } from "./build/plugin.ts";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  base: "./",
  plugins: [
    explainer({ chapters: at("chapters"), wasm: at(".build/core.wasm"), results: at("../bench/results") }),
  ],
  build: {
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsDir: ".",
    rollupOptions: {
      output: { format: "iife", entryFileNames: "explainer.js", assetFileNames: "explainer.[ext]" },
    },
  },
  test: {
    fileParallelism: false, // the speed of the page is measured, so nothing runs beside it
    projects: [
      { extends: true, test: { name: "unit", include: ["test/unit/*.test.ts"] } },
      {
        extends: true,
        test: { name: "browser", include: ["test/browser/*.test.ts"], testTimeout: 60000, hookTimeout: 60000 },
      },
    ],
  },
});

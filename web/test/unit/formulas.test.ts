// The formulas that the page prints, evaluated: they must give what the core counted.

import { beforeAll, expect, test } from "vitest";
import type { Core } from "../../src/core.ts";
import { formulas, typeset, withNumbers } from "../../src/traffic/formulas.ts";
import { openTestCore } from "../wasm.ts";

let core: Core;
beforeAll(async () => {
  core = await openTestCore();
});

function evaluate(formula: string): number {
  if (!/^[\d\s*+()^.-]+$/.test(formula)) throw new Error(`letters are left in ${formula}`);
  return Number(new Function(`return ${formula.replaceAll("^", "**")}`)());
}

for (const pass of ["forward", "backward"]) {
  for (const rest of [
    "--lengths 256,1024,8192 --d 128 --dtype bf16 --tile 128,64 --sram 232448",
    "--lengths 1000 --d 40 --dtype f32 --heads 12 --batch 3",
    "--lengths 100 --d 64 --dtype f16 --sram 4000000",
  ]) {
    test(`${pass}: ${rest}`, () => {
      const { traffic } = core.ask("traffic", `${rest} --pass ${pass}`);
      for (const row of traffic) {
        const all = formulas(row);
        expect(all.length).toBe(8);
        for (const formula of all) {
          expect(evaluate(withNumbers(formula.letters, row)), `${formula.what}: ${formula.letters}`).toBe(formula.value);
        }
      }
    });
  }
}

test("without a tile only standard attention has formulas", () => {
  const [row] = core.ask("traffic", "--n 512 --sram 10").traffic;
  expect(formulas(row!).map((f) => f.what)).toEqual(["standard, bytes", "standard, allocated", "standard, arithmetic"]);
});

test("formulas are set for reading", () => {
  expect(typeset("heads*e*N^2 - 1048576")).toBe("heads · e · N² − 1 048 576");
});

import { expect, test } from "vitest";
import { byteRate, bytes, factor, fixed, flopRate, integer, length, percent, scientific, seconds, significant, times } from "../../src/format.ts";
import { escape, linear, logarithmic, path, powers, ticks } from "../../src/svg.ts";

test("numbers of a row", () => {
  expect(fixed(-1.234)).toBe("−1.23");
  expect(fixed(-0)).toBe("0.00");
  expect(fixed(-Infinity)).toBe("−∞");
  expect(fixed(NaN)).toBe("NaN");
  expect(factor(1)).toBe("1");
  expect(factor(0.58634)).toBe("0.586");
  expect(factor(1.5e-7)).toBe("1.5 × 10⁻⁷");
  expect(scientific(0)).toBe("0");
  expect(scientific(5.96e-8)).toBe("6.0 × 10⁻⁸");
});

test("quantities with units", () => {
  expect(bytes(545259520)).toBe("520 MiB");
  expect(bytes(999)).toBe("999 B");
  expect(bytes(1048500)).toBe("1.00 MiB");
  expect(bytes(232448)).toBe("227 KiB");
  expect(byteRate(3.35e12)).toBe("3.35 TB/s");
  expect(flopRate(989.4e12)).toBe("989 TFLOP/s");
  expect(seconds(0.0026)).toBe("2.60 ms");
  expect(seconds(1234)).toBe("1.23 ks");
  expect(seconds(3e-8)).toBe("30.0 ns");
  expect(length(8192)).toBe("8K");
  expect(length(1048576)).toBe("1M");
  expect(length(1000)).toBe("1000");
  expect(times(64.7)).toBe("65×");
  expect(times(1024.4)).toBe("1024×");
  expect(percent(0.5625)).toBe("56.3 %");
  expect(integer(1048576)).toBe("1 048 576");
  expect(significant(0.00001234, 2)).toBe("0.000012");
});

test("scales", () => {
  expect(linear([0, 10], [0, 100])(2.5)).toBe(25);
  expect(linear([1, 1], [0, 100])(1)).toBe(0);
  expect(logarithmic([1, 100], [0, 100])(10)).toBeCloseTo(50);
  expect(ticks(-1.1, 2.1, 4)).toEqual([-1, 0, 1, 2]);
  expect(powers(10, 0.5, 2000, 10)).toEqual([1, 10, 100, 1000]);
  expect(powers(10, 1, 1e12, 4)).toEqual([1, 1e4, 1e8, 1e12]);
  expect(powers(32, 100, 2 ** 41, 5)).toEqual([2 ** 10, 2 ** 20, 2 ** 30, 2 ** 40]);
});

test("markup", () => {
  expect(escape('<a href="x">&')).toBe("&lt;a href=&quot;x&quot;&gt;&amp;");
  expect(path([[0, 0], [1.25, 2]], { class: "c" })).toBe('<path d="M0.0 0.0L1.3 2.0" class="c"></path>');
});

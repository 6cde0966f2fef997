// The pictures of the README and of docs/start/explainer.md: `npm run pictures` takes them anew.

import { existsSync, mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const page = new URL("../dist/index.html", import.meta.url).href;
const folder = new URL("../../docs/images/", import.meta.url);
const executablePath = [process.env.TESSERA_CHROMIUM, "/usr/bin/chromium"].find((path) => path && existsSync(path));

const stream = "#view=row&n=16&block=4&d=6&seed=12&step=2";
const pictures = [
  { name: "explainer-stream", selector: "[data-widget=stream]", hash: stream, width: 1000, clip: 1054 },
  { name: "explainer-traffic", selector: "[data-widget=traffic]", hash: "", width: 1000, clip: 822 },
  { name: "explainer-dark", selector: "[data-widget=stream]", hash: "#view=grid&n=64&block=8&grid=8&window=-1,0&step=5", width: 1000, dark: true },
];

mkdirSync(folder, { recursive: true });
for (const { name, selector, hash, width, dark, clip } of pictures) {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  const tab = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
  await tab.goto(page + hash);
  await tab.waitForSelector("html[data-ready]");
  const place = tab.locator(selector);
  const box = await place.boundingBox();
  const path = fileURLToPath(new URL(`${name}.png`, folder));
  const height = Math.min(box.height, clip ?? Infinity);
  await tab.screenshot({ path, fullPage: true, clip: { ...box, height } });
  console.log(`${path}: ${Math.round(box.width)} x ${Math.round(height)}`);
  await browser.close();
}

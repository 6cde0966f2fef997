// Debian's Chromium on the built page, opened from its file; whatever it complains of fails a test.

import { existsSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium, type BrowserContext, type Page } from "playwright-core";

const BROWSERS = [process.env["TESSERA_CHROMIUM"] ?? "", "/usr/bin/chromium", "/usr/bin/chromium-browser"];

const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

export const dist = fileURLToPath(new URL("../../dist/", import.meta.url));
const address = pathToFileURL(`${dist}index.html`).href;

export interface Visit {
  hash?: string;
  width?: number;
  height?: number;
  dark?: boolean;
  reducedMotion?: boolean;
  javaScript?: boolean;
  address?: string;
}

export interface Opened {
  page: Page;
  complaints: string[]; // of the console, uncaught errors, and requests that leave the page's folder
  close(): Promise<void>;
}

function watch(context: BrowserContext, page: Page, folder: string, complaints: string[]): void {
  page.on("console", (message) => complaints.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  page.on("requestfailed", (request) => complaints.push(`failed: ${request.url()}`));
  context.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith("data:") && !url.startsWith(folder)) complaints.push(`request: ${url}`);
  });
}

export async function visit(options: Visit = {}): Promise<Opened> {
  const executablePath = BROWSERS.find((path) => path && existsSync(path));
  if (!executablePath) throw new Error("no Chromium: scripts/setup.sh web installs it, TESSERA_CHROMIUM names another");
  const context = await chromium.launchPersistentContext("", {
    executablePath,
    headless: true,
    args: ARGUMENTS,
    viewport: { width: options.width ?? 1280, height: options.height ?? 900 },
    colorScheme: options.dark ? "dark" : "light",
    reducedMotion: options.reducedMotion ? "reduce" : "no-preference",
    javaScriptEnabled: options.javaScript ?? true,
  });
  const page = context.pages()[0] ?? (await context.newPage());
  const complaints: string[] = [];
  const target = options.address ?? address;
  watch(context, page, new URL(".", target).href, complaints);
  await page.goto(target + (options.hash ?? ""));
  if (options.javaScript !== false) await page.waitForSelector("html[data-ready]");
  return { page, complaints, close: () => context.close() };
}

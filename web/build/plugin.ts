// The page: chapters in the order of their file names, static pictures in the places of the widgets,
// the core as base64, and a classic script, since a page from a file may not load modules.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";
import { openCore } from "../src/core.ts";
import { figures } from "./figures.ts";
import { measuredPoints } from "./measured.ts";

export interface Places {
  chapters: string;
  wasm: string;
  results: string;
}

interface Chapter {
  id: string;
  title: string;
  markup: string;
}

function readChapters(folder: string): Chapter[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".html"))
    .sort()
    .map((name) => {
      const markup = readFileSync(join(folder, name), "utf8");
      const id = /<section[^>]* id="([^"]+)"/.exec(markup)?.[1];
      const title = /<h2[^>]*>(.*?)<\/h2>/s.exec(markup)?.[1];
      if (!id || !title) throw new Error(`${name} is no chapter: it needs a section with an id, and an h2`);
      return { id, title, markup };
    });
}

/** Fills the places of the widgets; each must be there once. */
export function withFigures(markup: string, pictures: Record<string, string>): string {
  let page = markup;
  for (const [name, picture] of Object.entries(pictures)) {
    const place = `<div class="widget" data-widget="${name}"></div>`;
    if (page.split(place).length !== 2) throw new Error(`the chapters need one place for the widget ${name}`);
    page = page.replace(place, () => place.replace("></div>", `>${picture}</div>`));
  }
  return page;
}

const contents = (chapters: readonly Chapter[]) =>
  chapters.map(({ id, title }) => `<li><a href="#${id}">${title}</a></li>`).join("");

async function fillPage(template: string, places: Places): Promise<string> {
  const chapters = readChapters(places.chapters);
  const core = await openCore(readFileSync(places.wasm));
  const body = withFigures(chapters.map((chapter) => chapter.markup).join("\n"), figures(core));
  return template
    .replace("<!-- contents -->", () => contents(chapters))
    .replace("<!-- chapters -->", () => body);
}

const MODULE_SCRIPT = /<script type="module"[^>]* src="([^"]+)"[^>]*><\/script>/;

export function explainer(places: Places): Plugin {
  const modules: Record<string, () => unknown> = {
    "virtual:core": () => readFileSync(places.wasm).toString("base64"),
    "virtual:measured": () => measuredPoints(places.results),
  };
  return {
    name: "tessera-explainer",
    resolveId: (id) => (id in modules ? `\0${id}` : undefined),
    load: (id) => {
      const content = modules[id.slice(1)];
      return content && `export default ${JSON.stringify(content())}`;
    },
    transformIndexHtml: {
      order: "pre",
      handler: (template) => fillPage(template, places),
    },
    generateBundle: {
      order: "post",
      handler(_, bundle) {
        const page = bundle["index.html"];
        if (page?.type !== "asset") throw new Error("there is no page in the bundle");
        const markup = String(page.source);
        if (!MODULE_SCRIPT.test(markup)) throw new Error("the page has no script");
        page.source = markup
          .replace(MODULE_SCRIPT, `<script defer src="$1"></script>`)
          .replaceAll(" crossorigin", "");
      },
    },
  };
}

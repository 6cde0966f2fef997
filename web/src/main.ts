import wasm from "virtual:core";
import measured from "virtual:measured";
import { decodeBase64, openCore } from "./core.ts";
import { DEFAULTS } from "./defaults.ts";
import { readHash, writeHash, type PageState } from "./state.ts";
import { makeScrollable } from "./scrollable.ts";
import { streamWidget } from "./stream/widget.ts";
import { trafficWidget } from "./traffic/widget.ts";

const ADDRESS_PAUSE = 200; // milliseconds: browsers refuse a page that rewrites its address all the time

let state: PageState = DEFAULTS;
let timer = 0;

function remember(change: Partial<PageState>): void {
  state = { ...state, ...change };
  window.clearTimeout(timer);
  timer = window.setTimeout(() => history.replaceState(null, "", writeHash(state, DEFAULTS)), ADDRESS_PAUSE);
}

/** The place of a widget, without the picture that stood there for readers without JavaScript. */
function place(name: string): HTMLElement {
  const found = document.querySelector<HTMLElement>(`[data-widget=${name}]`);
  if (!found) throw new Error(`the page has no place for the widget ${name}`);
  found.classList.add("live");
  return found;
}

async function start(): Promise<void> {
  const core = await openCore(decodeBase64(wasm));
  const stream = streamWidget(place("stream"), core, (next) => remember({ stream: next }));
  const traffic = trafficWidget(place("traffic"), core, measured, (next) => remember({ traffic: next }));
  const show = () => {
    const wanted = readHash(location.hash, DEFAULTS);
    if (!wanted && state !== DEFAULTS) return; // a link to a chapter
    state = wanted ?? DEFAULTS;
    stream.show(state.stream);
    traffic.show(state.traffic);
  };
  show();
  // The widgets are taller than the pictures that stood in their places: a link to a chapter has moved.
  if (location.hash && !location.hash.includes("=")) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  window.addEventListener("hashchange", show);
  // For the console and for tests: `explainer.askText("trace", "--n 8")` is the JSON of the core.
  Object.assign(window, { explainer: core });
  document.documentElement.dataset["ready"] = "true";
}

makeScrollable();
void start();

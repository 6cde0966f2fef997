// Step, back, play and scrub, by buttons, a slider and keys.

export interface Player {
  show(step: number, count: number): void;
  stop(): void;
}

const MARKUP = `
<div class="player" role="group" aria-label="Steps">
  <button type="button" data-move="first" aria-label="First step" title="First step (Home)"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M3 3v10M13 3L6 8l7 5z"/></svg></button>
  <button type="button" data-move="back" aria-label="Step back" title="Step back (left arrow)"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M11.5 3L4.5 8l7 5z"/></svg></button>
  <button type="button" data-move="play" class="play" aria-label="Play" title="Play (space)"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M4 2.5l9 5.5l-9 5.5z"/></svg></button>
  <button type="button" data-move="step" aria-label="Step" title="Step (right arrow)"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M4.5 3l7 5l-7 5z"/></svg></button>
  <button type="button" data-move="last" aria-label="Last step" title="Last step (End)"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M13 3v10M3 3l7 5l-7 5z"/></svg></button>
  <input type="range" class="scrub" min="0" value="0" aria-label="Step">
  <output class="count"></output>
</div>`;

const PLAY = "M4 2.5l9 5.5l-9 5.5z", PAUSE = "M4 3h3v10h-3zM9.5 3h3v10h-3z";
const PACE = 1100; // milliseconds from step to step

const KEYS: Record<string, string> = {
  ArrowRight: "step",
  ArrowLeft: "back",
  Home: "first",
  End: "last",
  " ": "play",
};

/** `stage` takes the keys too. `go` is asked for a step; `show` then says which one it is. */
export function player(root: HTMLElement, stage: HTMLElement, go: (step: number) => void): Player {
  root.innerHTML = MARKUP;
  const scrub = root.querySelector<HTMLInputElement>(".scrub");
  const count = root.querySelector<HTMLOutputElement>(".count");
  const button = root.querySelector<HTMLButtonElement>(".play");
  if (!scrub || !count || !button) throw new Error("the player has lost its parts");
  let now = 0, most = 0, timer = 0;

  const showPlaying = (playing: boolean) => {
    button.setAttribute("aria-label", playing ? "Pause" : "Play");
    button.querySelector("path")?.setAttribute("d", playing ? PAUSE : PLAY);
  };
  const stop = () => {
    window.clearInterval(timer);
    timer = 0;
    showPlaying(false);
  };
  const play = () => {
    if (timer) return stop();
    if (now === most) go(0);
    showPlaying(true);
    timer = window.setInterval(() => {
      go(now + 1);
      if (now >= most) stop();
    }, PACE);
  };
  const move = (name: string) => {
    if (name === "play") return play();
    stop();
    const target = { first: 0, back: now - 1, step: now + 1, last: most }[name] ?? now;
    go(Math.min(Math.max(target, 0), most));
  };

  root.addEventListener("click", (event) => {
    const pressed = (event.target as Element).closest<HTMLElement>("[data-move]");
    if (pressed) move(pressed.dataset["move"] ?? "");
  });
  scrub.addEventListener("input", () => {
    stop();
    go(Number(scrub.value));
  });
  stage.addEventListener("keydown", (event) => {
    const name = KEYS[event.key];
    if (!name || event.target !== stage || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move(name);
  });

  return {
    show(step, steps) {
      now = step;
      most = steps;
      scrub.max = String(steps);
      scrub.value = String(step);
      scrub.setAttribute("aria-valuetext", `step ${step} of ${steps}`);
      count.value = `${step} / ${steps}`;
    },
    stop,
  };
}

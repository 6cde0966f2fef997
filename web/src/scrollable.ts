// What is wider than the page scrolls within itself; a keyboard has to reach it to scroll it.

const CANDIDATES = "pre, math[display=block], .chapter table, .scroll";

function mark(element: Element): void {
  const scrolls = element.scrollWidth > element.clientWidth + 1;
  if (scrolls && !element.hasAttribute("tabindex")) element.setAttribute("tabindex", "0");
}

export function makeScrollable(): void {
  const markAll = () => document.querySelectorAll(CANDIDATES).forEach(mark);
  new ResizeObserver(markAll).observe(document.body);
  markAll();
}

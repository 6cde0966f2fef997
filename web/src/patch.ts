// Changes a tree into what markup says, keeping the elements that stay: then focus stays where it
// was, and CSS can move what has moved.

function sameKind(a: Node, b: Node): boolean {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName;
}

function patchAttributes(old: Element, wanted: Element): void {
  for (const { name } of [...old.attributes]) {
    if (!wanted.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

function patchNode(old: Node, wanted: Node): void {
  if (old instanceof Element && wanted instanceof Element) {
    patchAttributes(old, wanted);
    patchChildren(old, wanted);
  } else if (old.nodeValue !== wanted.nodeValue) {
    old.nodeValue = wanted.nodeValue;
  }
}

function patchChildren(old: Node, wanted: Node): void {
  let child = old.firstChild;
  let model = wanted.firstChild;
  while (model) {
    const next = model.nextSibling;
    if (!child) {
      old.appendChild(model);
    } else if (sameKind(child, model)) {
      patchNode(child, model);
      child = child.nextSibling;
    } else {
      const replaced = child;
      child = child.nextSibling;
      old.replaceChild(model, replaced);
    }
    model = next;
  }
  while (child) {
    const surplus = child;
    child = child.nextSibling;
    old.removeChild(surplus);
  }
}

const lastMarkup = new WeakMap<Element, string>();

/** Makes `markup` the content of `target`. */
export function patch(target: Element, markup: string): void {
  if (lastMarkup.get(target) === markup) return;
  lastMarkup.set(target, markup);
  const template = document.createElement("template");
  template.innerHTML = markup;
  patchChildren(target, template.content);
}

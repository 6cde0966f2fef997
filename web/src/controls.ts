// Native inputs with labels: numbers, choices and sliders.

import { element, escape } from "./svg.ts";
import type { Options } from "./state.ts";

export interface Choice {
  value: string;
  label: string;
}

export interface Field {
  name: string; // of the option
  label: string;
  kind: "number" | "choice";
  choices?: readonly Choice[];
  min?: number;
  max?: number;
  step?: number | "any";
  placeholder?: string;
  unit?: string;
}

function input(field: Field, id: string, value: string): string {
  if (field.kind === "choice") {
    const options = (field.choices ?? []).map((choice) =>
      element(
        "option",
        { value: choice.value, selected: choice.value === value ? "selected" : undefined },
        escape(choice.label),
      ),
    );
    return element("select", { id, "data-option": field.name }, ...options);
  }
  const attributes = {
    id, type: "number", inputmode: "decimal", "data-option": field.name, value,
    min: field.min, max: field.max, step: field.step, placeholder: field.placeholder,
  };
  return element("input", attributes);
}

/** The fields of a form; `prefix` keeps the ids of two widgets apart. */
export function fieldsMarkup(fields: readonly Field[], values: Options, prefix: string): string {
  return fields
    .map((field) => {
      const id = `${prefix}-${field.name}`;
      const unit = field.unit ? ` <span class="unit">${escape(field.unit)}</span>` : "";
      return `<div class="field"><label for="${id}">${escape(field.label)}${unit}</label>${input(field, id, values[field.name] ?? "")}</div>`;
    })
    .join("");
}

/** Calls back with the name and the value of a field that the reader has changed. */
export function onFieldChange(root: HTMLElement, changed: (name: string, value: string) => void): void {
  root.addEventListener("input", (event) => {
    const target = event.target;
    if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement) {
      const name = target.dataset["option"];
      if (name) changed(name, target.value.trim());
    }
  });
}

/** Puts values into fields, except into the one that is being typed into. */
export function showValues(root: HTMLElement, values: Options): void {
  for (const node of root.querySelectorAll<HTMLInputElement | HTMLSelectElement>("[data-option]")) {
    if (node === document.activeElement && node instanceof HTMLInputElement) continue;
    const value = values[node.dataset["option"] ?? ""] ?? "";
    if (node.value !== value) node.value = value;
  }
}

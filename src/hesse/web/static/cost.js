// Operations and memory, with a slider for each size.

import { ask } from "./api.js";
import { element, later } from "./dom.js";
import { question, state, toFragment } from "./state.js";

const DEFAULT_SIZE = 100;
const STEPS = 120; // of a slider, from 1 to a million
const DECADES = 6;
const UNITS = ["", "k", "M", "G", "T", "P", "E"];

const toSize = (step) => {
  const exact = 10 ** ((step * DECADES) / STEPS);
  const digits = 10 ** Math.max(0, Math.floor(Math.log10(exact)) - 1);
  return Math.max(1, Math.round(exact / digits) * digits);
};
const toStep = (size) => Math.round((Math.log10(size) * STEPS) / DECADES);

export function scaled(value, unit) {
  const power = value < 1000 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(value) / 3));
  const number = value / 1000 ** power;
  if (power === UNITS.length - 1 && number >= 1000) return `${value.toExponential(1)} ${unit}`;
  return `${number >= 100 || power === 0 ? Math.round(number) : number.toPrecision(3)} ${UNITS[power]}${unit}`;
}

export async function showCost(panel, answer, signal) {
  const sliders = answer.sizes.map((name) => slider(name, () => refresh()));
  const figures = element("div", { className: "figures", "aria-live": "polite" });
  const show = async () => {
    const found = await ask("cost", { ...question(), sizes: sizesOf(answer) }, signal);
    figures.replaceChildren(...figuresOf(found));
  };
  const refresh = later(80, () => {
    history.replaceState(null, "", `#${toFragment()}`);
    show().catch((problem) => {
      if (problem.kind) figures.replaceChildren(element("p", { className: "empty" }, problem.message.split("\n")[0]));
      else if (problem.name !== "AbortError") throw problem;
    });
  });
  await show();
  const heading = sliders.length ? "Sizes" : "There are no sizes to choose.";
  panel.replaceChildren(
    element(
      "div",
      { className: "cost" },
      element("div", { className: "sliders" }, element("p", { className: "caption" }, heading), ...sliders),
      figures,
    ),
  );
}

const factor = (ratio) => (ratio < 10 ? ratio.toPrecision(2) : Number(ratio.toPrecision(2)).toLocaleString("en"));

function sizesOf(answer) {
  return Object.fromEntries(answer.sizes.map((name) => [name, state.sizes[name] ?? DEFAULT_SIZE]));
}

function slider(name, changed) {
  const size = state.sizes[name] ?? DEFAULT_SIZE;
  const range = element("input", { type: "range", id: `size-${name}`, min: "0", max: String(STEPS), step: "1" });
  range.value = String(toStep(size));
  const field = element("input", { type: "number", min: "1", max: "1000000000", "aria-label": `size ${name} as a number` });
  field.value = String(size);
  range.setAttribute("aria-valuetext", `${name} = ${size}`);
  range.addEventListener("input", () => {
    state.sizes[name] = toSize(Number(range.value));
    field.value = String(state.sizes[name]);
    range.setAttribute("aria-valuetext", `${name} = ${state.sizes[name]}`);
    changed();
  });
  field.addEventListener("input", () => {
    const value = Math.trunc(Number(field.value));
    if (value < 1 || value > 1e9) return;
    state.sizes[name] = value;
    range.value = String(toStep(value));
    changed();
  });
  return element("div", { className: "slider" }, element("label", { htmlFor: range.id }, name), range, field);
}

function figuresOf(found) {
  const saving = found.dense_bytes / Math.max(1, found.structured_bytes);
  const work = found.flops / Math.max(1, found.structured_flops);
  return [
    comparison("Memory of the result", "B", found.dense_bytes, found.structured_bytes, saving),
    comparison("Operations", "FLOP", found.flops, found.structured_flops, work),
    element(
      "dl",
      { className: "facts" },
      element("dt", {}, "Peak memory, dense"), element("dd", {}, scaled(found.peak_bytes, "B")),
      element("dt", {}, "Memory traffic, dense"), element("dd", {}, scaled(found.bytes_moved, "B")),
      element("dt", {}, "Shape"), element("dd", {}, found.shape.length ? found.shape.map((size) => size.toLocaleString("en")).join(" × ") : "scalar"),
    ),
    contractions(found.contractions),
  ];
}

function comparison(title, unit, dense, structured, ratio) {
  const note = ratio >= 1.5 ? element("span", { className: "factor" }, `${factor(ratio)}× less in structured form`) : "";
  return element(
    "div",
    { className: "comparison" },
    element("p", {}, title, note),
    bar("dense", dense, Math.max(dense, structured), unit),
    bar("structured", structured, Math.max(dense, structured), unit),
  );
}

// The lengths are logarithmic: otherwise the shorter one would usually not be seen.
function bar(name, value, largest, unit) {
  const filled = element("span", { className: `filled ${name}` });
  filled.style.width = `${(100 * Math.log10(1 + value)) / Math.max(1e-9, Math.log10(1 + largest))}%`;
  return element(
    "div",
    { className: "measure" },
    element("span", { className: "what" }, name),
    element("span", { className: "track" }, filled),
    element("span", { className: "value" }, scaled(value, unit)),
  );
}

function contractions(steps) {
  if (!steps.length) return "";
  const rows = steps.map((step) => element("li", {}, element("code", {}, step)));
  return element("details", { className: "contractions" }, element("summary", {}, `${steps.length} contractions in this order`), element("ol", {}, ...rows));
}

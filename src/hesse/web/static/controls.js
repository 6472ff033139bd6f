// The controls beside the formula: types of the variables, order, and what to differentiate by.

import { element, find } from "./dom.js";
import { highestOrder, state } from "./state.js";

const SYMMETRIC_WORDS = {
  free: "all entries free",
  projected: "projected: (G + G')/2",
  half: "independent entries",
};
const STRUCTURED = /symmetric|psd|diagonal/;

let offers = null;
let changed = () => {};
let shown = ""; // controls that somebody may be using are not replaced by equal ones

export function startControls(offered, onChange) {
  offers = offered;
  changed = onChange;
  const order = find("order");
  for (let k = 1; k <= Math.min(highestOrder, offers.highest_order); k += 1) {
    const input = element("input", { type: "radio", name: "order", id: `order-${k}`, value: String(k) });
    input.addEventListener("change", () => setOrder(k));
    order.append(input, element("label", { htmlFor: input.id }, String(k)));
  }
  const symmetric = find("symmetric");
  for (const mode of offers.symmetric) symmetric.append(element("option", { value: mode }, SYMMETRIC_WORDS[mode] ?? mode));
  symmetric.addEventListener("change", () => {
    state.symmetric = symmetric.value;
    changed();
  });
}

function setOrder(order) {
  const last = state.by.at(-1);
  state.by = Array.from({ length: order }, (_, k) => state.by[k] ?? last);
  changed();
}

export function showControls(reading) {
  const order = document.getElementById(`order-${state.by.length}`);
  if (order) order.checked = true;
  const wanted = JSON.stringify([reading.variables, state.by]);
  if (wanted !== shown) {
    shown = wanted;
    keepingFocus(() => {
      find("types").replaceChildren(...reading.variables.map(typeRow));
      find("by").replaceChildren(...byRow(reading.variables));
    });
  }
  const structured = reading.variables.some((v) => state.by.includes(v.name) && STRUCTURED.test(v.type));
  find("symmetric-row").hidden = !structured;
  find("symmetric").value = state.symmetric;
}

// Replacing a control must not take the focus away from who uses it.
function keepingFocus(replace) {
  const { id } = document.activeElement ?? {};
  replace();
  if (id && document.activeElement?.id !== id) document.getElementById(id)?.focus();
}

function typeRow(variable) {
  const id = `type-${variable.name}`;
  const choices = offers.types.includes(variable.type) ? offers.types : [variable.type, ...offers.types];
  const select = element("select", { id, disabled: variable.declared });
  for (const words of choices) select.append(element("option", { value: words, selected: words === variable.type }, words));
  select.addEventListener("change", () => {
    state.types[variable.name] = select.value;
    changed();
  });
  if (variable.declared) select.title = "declared in the formula";
  const sizes = variable.sizes.length ? variable.sizes.join(" × ") : "1";
  return element(
    "div",
    { className: "type" },
    element("label", { htmlFor: id, className: "variable" }, variable.name),
    select,
    element("span", { className: "sizes", title: "size" }, sizes),
  );
}

function byRow(variables) {
  const names = variables.map((variable) => variable.name);
  const selects = state.by.map((chosen, k) => {
    const select = element("select", { id: `by-${k}`, "aria-label": `variable of differentiation ${k + 1}` });
    for (const name of names) select.append(element("option", { value: name, selected: name === chosen }, name));
    select.addEventListener("change", () => {
      const before = state.by[k];
      // the later ones follow as long as they were the same
      for (let m = k; m < state.by.length && state.by[m] === before; m += 1) state.by[m] = select.value;
      changed();
    });
    return select;
  });
  const caption = element("span", { className: "caption" }, "By");
  return [caption, element("div", { className: "by" }, ...selects)];
}

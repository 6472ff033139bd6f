// What is asked, and the same as the fragment of the address, so that a link shows the same page.

const ORDERS = 4;
const FIRST_CHOICES = ["x", "w", "X", "W", "U", "z", "h"];

export const state = {
  formula: "sum(log(exp(-y.*(X*w)) + vector(1)))",
  by: ["w", "w"],
  types: {},
  symmetric: "free",
  sizes: {},
  panel: "code",
  notation: "numpy",
};

export const highestOrder = ORDERS;

export function question() {
  const { formula, types, by, symmetric } = state;
  return { formula, types, by, symmetric };
}

export function toFragment() {
  const parts = new URLSearchParams();
  parts.set("f", state.formula);
  parts.set("by", state.by.join(","));
  for (const [name, words] of Object.entries(state.types)) parts.append("type", `${name}=${words}`);
  for (const [name, size] of Object.entries(state.sizes)) parts.append("size", `${name}=${size}`);
  if (state.symmetric !== "free") parts.set("symmetric", state.symmetric);
  parts.set("show", state.panel);
  if (state.panel === "code") parts.set("in", state.notation);
  return parts.toString();
}

export function fromFragment(fragment) {
  const parts = new URLSearchParams(fragment);
  if (!parts.has("f")) return;
  const pairs = (name) => parts.getAll(name).map((text) => [text.split("=", 1)[0], text.slice(text.indexOf("=") + 1)]);
  state.formula = parts.get("f");
  state.by = (parts.get("by") ?? "").split(",").filter(Boolean).slice(0, ORDERS);
  state.types = Object.fromEntries(pairs("type"));
  state.sizes = Object.fromEntries(pairs("size").map(([name, size]) => [name, Math.max(1, Math.trunc(Number(size)) || 1)]));
  state.symmetric = parts.get("symmetric") ?? "free";
  state.panel = parts.get("show") ?? state.panel;
  state.notation = parts.get("in") ?? state.notation;
}

// Keep what still fits the variables of the formula; choose what to differentiate by if nothing does.
export function fitTo(reading) {
  const names = reading.variables.map((variable) => variable.name);
  const before = JSON.stringify([state.by, state.types, state.sizes]);
  const free = new Set(reading.variables.filter((variable) => !variable.declared).map((variable) => variable.name));
  const order = Math.max(1, state.by.length);
  const kept = state.by.filter((name) => names.includes(name));
  const choice = kept[0] ?? FIRST_CHOICES.find((name) => names.includes(name)) ?? names[0];
  state.by = choice === undefined ? [] : Array.from({ length: order }, (_, k) => (names.includes(state.by[k]) ? state.by[k] : choice));
  state.types = pick(state.types, (name) => free.has(name));
  state.sizes = pick(state.sizes, (name) => reading.sizes.includes(name));
  return JSON.stringify([state.by, state.types, state.sizes]) !== before;
}

export function pick(table, wanted) {
  return Object.fromEntries(Object.entries(table).filter(([name]) => wanted(name)));
}

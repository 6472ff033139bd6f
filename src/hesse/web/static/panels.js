// The panels below the answer: code, derivation, graph, structure, cost. Only the chosen one is asked for.

import { ask } from "./api.js";
import { showCode, startCode } from "./code.js";
import { showCost } from "./cost.js";
import { element, find } from "./dom.js";
import { showGraph } from "./graph.js";
import { question, state } from "./state.js";
import { showSteps } from "./steps.js";
import { showStructure } from "./structure.js";
import { tabs } from "./tabs.js";

const PANELS = {
  code: { label: "Code", show: showCode },
  steps: { label: "Derivation", show: fromServer("steps", showSteps) },
  structure: { label: "Structure", show: fromServer("structure", showStructure) },
  cost: { label: "Cost", show: showCost },
  graph: { label: "Graph", show: fromServer("graph", showGraph) },
};

let select = () => {};

function fromServer(task, show) {
  return async (panel, answer, signal) => show(panel, await ask(task, question(), signal), answer);
}

export function startPanels(offers, onChange) {
  const items = Object.entries(PANELS).map(([key, panel]) => [key, panel.label]);
  if (!(state.panel in PANELS)) state.panel = items[0][0];
  select = tabs(find("tabs"), items, find("panel"), (key) => {
    state.panel = key;
    onChange();
  });
  select(state.panel);
  startCode(offers, onChange);
}

export async function showPanel(answer, signal) {
  select(state.panel);
  const panel = find("panel");
  try {
    await PANELS[state.panel].show(panel, answer, signal);
  } catch (problem) {
    if (!problem.kind) throw problem;
    panel.replaceChildren(element("p", { className: "empty" }, problem.message.split("\n")[0]));
  }
}

// The derivation, rule by rule.

import { element, typeset } from "./dom.js";

export function showSteps(panel, { steps }) {
  if (!steps.length) {
    panel.replaceChildren(element("p", { className: "empty" }, "There is nothing to derive."));
    return;
  }
  const items = steps.map((step) => {
    const formula = element("div", { className: "line" });
    typeset(formula, step.latex);
    return element("li", {}, element("span", { className: "rule" }, step.rule), formula);
  });
  panel.replaceChildren(element("ol", { className: "steps" }, ...items));
}

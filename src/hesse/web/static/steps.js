// The derivation, rule by rule.

import { element, renderMath } from "./dom.js";

export function showSteps(panel, { steps }) {
  if (!steps.length) {
    panel.replaceChildren(element("p", { className: "empty" }, "There is nothing to derive."));
    return;
  }
  const items = steps.map((step) => {
    const formula = element("div", { className: "math" });
    if (step.latex) renderMath(formula, step.latex);
    else formula.append(element("code", {}, step.formula));
    return element("li", {}, element("span", { className: "rule" }, step.rule), formula);
  });
  panel.replaceChildren(element("ol", { className: "steps" }, ...items));
}

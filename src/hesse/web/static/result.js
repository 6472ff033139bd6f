// The answer itself: typeset, with its shape, the convention of its layout, and what is known about it.

import { element, find, renderMath, typeset } from "./dom.js";

const VERDICT_SIGNS = { convex: "∪", concave: "∩", unknown: "?" };

export function showReading(reading) {
  const target = find("function");
  const formula = element("div", { className: "math" });
  renderMath(formula, `f = ${reading.formula_latex}`);
  target.replaceChildren(formula);
}

export function showResult(answer) {
  find("result-title").textContent = answer.title;
  find("result-shape").textContent = answer.shape.length ? answer.shape.join(" × ") : "scalar";
  typeset(find("result"), answer.derivative_latex);
  for (const id of ["result", "panel"]) find(id).classList.remove("stale");
  const layout = find("layout");
  layout.hidden = !answer.layout;
  layout.textContent = answer.layout ?? "";
  showKronecker(answer.kronecker);
  find("badges").replaceChildren(
    element("span", { className: "badge good" }, "✓ agrees with finite differences"),
    ...answer.convexity.map(convexityBadge),
  );
}

// Derivatives of order 3 and 4 as matrices, if they have such a form.
function showKronecker(form) {
  find("kronecker").hidden = !form;
  if (!form) return;
  typeset(find("kronecker-matrix"), `${form.name} = ${form.matrix_latex}`);
  find("kronecker-note").textContent = `As a matrix: ${form.note}.`;
}

function convexityBadge({ variable, verdict, reason }) {
  const words = verdict === "unknown" ? `convexity in ${variable} unknown` : `${verdict} in ${variable}`;
  return element(
    "details",
    { className: `badge ${verdict}` },
    element("summary", {}, `${VERDICT_SIGNS[verdict] ?? ""} ${words}`, element("span", { className: "why" }, "why?")),
    element("span", { className: "reason" }, reason),
  );
}

export function clearResult() {
  showProblem(null);
  find("function").replaceChildren();
  find("result").replaceChildren(element("p", { className: "empty" }, "Type a formula, or choose an example."));
  find("badges").replaceChildren();
  showKronecker(null);
  find("result-title").textContent = "Derivative";
  find("result-shape").textContent = "";
}

// The message, and the text with carets under the place if there is one.
export function showProblem(problem) {
  const box = find("problem");
  find("formula").setAttribute("aria-invalid", String(Boolean(problem)));
  box.hidden = !problem;
  if (!problem) {
    box.replaceChildren();
    return;
  }
  const [message, ...picture] = problem.message.split("\n");
  box.replaceChildren(element("p", {}, message));
  if (picture.length) box.append(element("pre", {}, picture.map((line) => line.slice(2)).join("\n")));
  for (const id of ["result", "panel"]) find(id).classList.add("stale");
}

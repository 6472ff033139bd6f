// The answer itself: typeset, with its shape, the convention of its layout, and what is known about it.

import { element, find, renderMath, typeset } from "./dom.js";

const VERDICT_SIGNS = { convex: "∪", concave: "∩", unknown: "?" };

// What the page has to show: "waiting" for the first answer, an answer that is "current", a "stale" one of another
// formula, or "none", which hides the cards.
function setState(name) {
  find("answers").dataset.state = name;
}

// No answer, because of an error.
export function hideResult() {
  empty();
  setState("none");
}

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
  setState("current");
  const layout = find("layout");
  layout.hidden = !answer.layout;
  layout.textContent = answer.layout ?? "";
  showKronecker(answer.kronecker, answer.kronecker_problem);
  find("badges").replaceChildren(
    element("span", { className: "badge good" }, "✓ agrees with finite differences"),
    ...answer.convexity.map(convexityBadge),
  );
}

// Derivatives of order 3 and 4 as matrices, if they have such a form; or why it is not shown.
function showKronecker(form, problem) {
  find("kronecker").hidden = !form && !problem;
  find("kronecker-matrix").hidden = !form;
  find("kronecker-note").textContent = problem;
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

// No answer, because nothing was asked.
export function clearResult() {
  showProblem(null);
  empty();
  setState("waiting");
  find("function").replaceChildren();
  find("result").replaceChildren(element("p", { className: "empty" }, "Type a formula, or choose an example."));
}

function empty() {
  find("result").replaceChildren();
  find("badges").replaceChildren();
  find("layout").hidden = true;
  showKronecker(null);
  find("result-title").textContent = "Derivative";
  find("result-shape").textContent = "";
}

// The message, and the text with carets under the place if there is one.
export function showProblem(problem) {
  const box = find("problem");
  find("formula").setAttribute("aria-invalid", String(Boolean(problem)));
  box.hidden = !problem;
  const { state } = find("answers").dataset;
  if (!problem) {
    box.replaceChildren();
    if (state === "none") setState("waiting");
    return;
  }
  const [message, ...picture] = problem.message.split("\n");
  box.replaceChildren(element("p", {}, message));
  if (picture.length) box.append(element("pre", {}, picture.map((line) => line.slice(2)).join("\n")));
  setState(state === "current" || state === "stale" ? "stale" : "none");
}

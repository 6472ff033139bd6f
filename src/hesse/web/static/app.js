// The page: asks the server whenever something changed, and shows what it answers.

import { about, ask } from "./api.js";
import { copy, element, find, later, toast } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { showPanel, startPanels } from "./panels.js";
import { showControls, startControls } from "./controls.js";
import { clearResult, hideResult, showProblem, showReading, showResult } from "./result.js";
import { fitTo, fromFragment, pick, question, state, toFragment } from "./state.js";

let running = new AbortController();
let answer = null;

async function update() {
  running.abort();
  running = new AbortController();
  const { signal } = running;
  history.replaceState(null, "", `#${toFragment()}`);
  if (!state.formula.trim()) {
    clearResult();
    return;
  }
  let understood = false;
  const waiting = setTimeout(() => (find("busy").hidden = false), 250);
  try {
    const reading = await readFormula(signal);
    if (fitTo(reading)) history.replaceState(null, "", `#${toFragment()}`);
    showProblem(null);
    showControls(reading);
    showReading(reading);
    understood = true;
    answer = await ask("derive", question(), signal);
    showResult(answer);
    await showPanel(answer, signal);
  } catch (problem) {
    if (problem.name === "AbortError") return;
    if (!problem.kind) throw problem;
    showProblem(problem);
    if (understood) hideResult(); // what is shown would not be the derivative of this formula
  } finally {
    clearTimeout(waiting);
    if (!signal.aborted) find("busy").hidden = true;
  }
}

// Types that were chosen for variables which the formula no longer has are left out.
async function readFormula(signal) {
  const { formula } = state;
  const names = new Set(formula.match(/[A-Za-z][A-Za-z0-9_]*/g) ?? []);
  const types = pick(state.types, (name) => names.has(name));
  return ask("read", { formula, types }, signal);
}

function start(offers) {
  fromFragment(location.hash.slice(1));
  find("about").textContent = `hesse ${offers.version}`;
  const formula = find("formula");
  formula.maxLength = offers.longest_formula;
  formula.value = state.formula;
  fitHeight(formula);
  const soon = later(250, update);
  formula.addEventListener("input", () => {
    state.formula = formula.value;
    fitHeight(formula);
    soon();
  });
  formula.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      update();
    }
  });
  startControls(offers, update);
  startPanels(offers, update);
  startExamples(formula);
  startButtons();
  addEventListener("hashchange", () => {
    fromFragment(location.hash.slice(1));
    formula.value = state.formula;
    update();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") formula.focus();
  });
  update();
}

function startExamples(formula) {
  for (const example of EXAMPLES) {
    const chip = element("button", { type: "button", className: "chip", title: example.formula }, example.name);
    chip.addEventListener("click", () => {
      Object.assign(state, { formula: example.formula, by: [...example.by], types: { ...example.types }, sizes: {}, symmetric: "free" });
      formula.value = state.formula;
      fitHeight(formula);
      update();
    });
    find("examples").append(chip);
  }
}

function startButtons() {
  find("copy-text").addEventListener("click", () => answer && copy(answer.derivative, "Text"));
  find("copy-latex").addEventListener("click", () => answer && copy(answer.derivative_latex, "LaTeX"));
  find("share").addEventListener("click", () => copy(location.href, "Link"));
  find("theme").addEventListener("click", () => {
    const root = document.documentElement;
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
  });
}

function fitHeight(field) {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + 2}px`;
}

about().then(start, (problem) => toast(problem.message));

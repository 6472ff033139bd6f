// The derivative in every notation and language, with colours, to copy or to save.

import { ask } from "./api.js";
import { copy, download, element } from "./dom.js";
import { highlighted } from "./highlight.js";
import { question, state } from "./state.js";
import { tabs } from "./tabs.js";

const LANGUAGES = {
  numpy: { label: "NumPy", file: "derivative.py" },
  torch: { label: "PyTorch", file: "derivative_torch.py" },
  jax: { label: "JAX", file: "derivative_jax.py" },
  matlab: { label: "MATLAB", file: "derivative.m" },
  julia: { label: "Julia", file: "derivative.jl" },
  cpp: { label: "C++", file: "derivative.hpp" },
  latex: { label: "LaTeX", file: "derivative.tex" },
  matrix: { label: "Text", file: "derivative.txt" },
  index: { label: "Index", file: "derivative_index.txt" },
  kronecker: { label: "Kron", file: "derivative_kronecker.txt" },
  einsum: { label: "Einsum", file: "derivative_einsum.txt" },
};

const PROSE = ["latex", "matrix", "index", "kronecker"];

let languages = [];
let changed = () => {};

export function startCode(offers, onChange) {
  languages = Object.keys(LANGUAGES).filter((key) => offers.notations.includes(key));
  changed = onChange;
  if (!languages.includes(state.notation)) [state.notation] = languages;
}

export async function showCode(panel, answer, signal) {
  const offered = languages.filter((key) => key !== "kronecker" || answer.kronecker);
  const notation = offered.includes(state.notation) ? state.notation : "matrix";
  const { label, file } = LANGUAGES[notation];
  const { text } = await ask("render", { ...question(), notation }, signal);
  const copyButton = element("button", { type: "button", className: "quiet small", id: "copy-code" }, "Copy");
  copyButton.addEventListener("click", () => copy(text, `${label} code`));
  const saveButton = element("button", { type: "button", className: "quiet small" }, "Save");
  saveButton.addEventListener("click", () => download(text, file, "text/plain"));
  const list = element("div", { className: "subtabs", role: "tablist", "aria-label": "Language" });
  const code = element("code", { id: "code" });
  code.append(...highlighted(text, notation));
  const listing = element("pre", { className: PROSE.includes(notation) ? "listing wrapped" : "listing", tabIndex: 0, id: "listing", "aria-label": `${label} code` }, code);
  const choose = tabs(list, offered.map((key) => [key, LANGUAGES[key].label]), null, (key) => {
    state.notation = key;
    changed();
  });
  choose(notation);
  const focused = document.activeElement?.id;
  panel.replaceChildren(
    element("div", { className: "bar" }, list, element("div", { className: "buttons" }, copyButton, saveButton)),
    listing,
  );
  if (focused?.startsWith("tab-") && !document.getElementById(focused)?.matches(":focus")) {
    document.getElementById(`tab-${notation}`)?.focus();
  }
}

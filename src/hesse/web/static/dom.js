// Small helpers: elements, typeset formulas, the clipboard.

export const find = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in node && name !== "list") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const WHERE = "\\quad\\text{where}\\quad ";

// A formula with its definitions on lines of their own.
export function typeset(target, latex) {
  const [main, definitions] = latex.split(WHERE, 2);
  const lines = [element("div", { className: "math main" })];
  renderMath(lines[0], main);
  if (definitions) {
    const where = element("div", { className: "where" }, element("span", { className: "word" }, "where"));
    for (const definition of definitions.split(",\\quad ")) {
      const line = element("div", { className: "math" });
      renderMath(line, definition);
      where.append(line);
    }
    lines.push(where);
  }
  target.replaceChildren(...lines);
}

export function renderMath(target, latex) {
  window.katex.render(latex, target, { displayMode: true, throwOnError: false, strict: "ignore", maxSize: 40 });
}

let timer = 0;

export function toast(message) {
  const box = find("toast");
  box.textContent = message;
  box.classList.add("shown");
  clearTimeout(timer);
  timer = setTimeout(() => box.classList.remove("shown"), 1800);
}

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // no permission for the clipboard: the older way, through a selection
    const field = element("textarea", { value: text, className: "offscreen" });
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  toast(`${what} copied`);
}

export function download(text, name, type) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

export function later(milliseconds, action) {
  let waiting = 0;
  return (...values) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => action(...values), milliseconds);
  };
}

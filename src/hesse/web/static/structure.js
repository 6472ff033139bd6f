// Which entries of the derivative are zero and which come from which term, drawn at small sizes.

import { element } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";

function shape(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

export function showStructure(panel, { structure }) {
  if (!structure) {
    const words = "There is no matrix to draw here. Take a second derivative, or the derivative of a vector.";
    panel.replaceChildren(element("p", { className: "empty" }, words));
    return;
  }
  const legend = structure.patterns.map((pattern, k) =>
    element(
      "li",
      {},
      element("span", { className: `swatch term-${k % 9}` }),
      element("code", {}, pattern),
      element("span", {}, meaning(pattern)),
    ),
  );
  const sizes = Object.entries(structure.sizes).map(([name, size]) => `${name} = ${size}`).join(", ");
  const caption = `${structure.rows} × ${structure.columns} entries${sizes ? `, drawn for ${sizes}` : ""}`;
  panel.replaceChildren(
    element(
      "div",
      { className: "structure" },
      element("figure", {}, drawing(structure), element("figcaption", {}, caption)),
      element(
        "div",
        {},
        element("p", { className: "summary" }, capital(structure.summary)),
        element("ul", { className: "legend" }, ...legend),
        element("p", { className: "note" }, "Each row of the list is a pattern of axes; equal letters mean equal indices. Empty cells are exact zeros, which are never computed."),
      ),
    ),
  );
}

function meaning(pattern) {
  const letters = pattern.startsWith("[") ? pattern.slice(1, -1).split(",") : [...pattern];
  if (letters.some((letter) => letter.length > 1)) return "only where the axes fit this pattern";
  const repeated = [...new Set(letters.filter((letter, k) => letters.indexOf(letter) !== k))];
  if (!repeated.length) return "all entries";
  return repeated
    .map((letter) => {
      const places = letters.flatMap((other, k) => (other === letter ? [k + 1] : []));
      return `only where axes ${places.join(" and ")} agree`;
    })
    .join(", ");
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

function drawing({ cells, rows, columns, summary }) {
  const height = cells.length;
  const width = cells[0]?.length ?? 0;
  const picture = shape("svg", {
    viewBox: `-0.1 -0.1 ${width + 0.2} ${height + 0.2}`,
    role: "img",
    "aria-label": `Structure of the ${rows} by ${columns} result: ${summary}`,
    class: "cells",
  });
  picture.append(shape("rect", { x: 0, y: 0, width, height, class: "zeros" }));
  cells.forEach((row, y) =>
    row.forEach((term, x) => {
      if (term >= 0) picture.append(shape("rect", { x: x + 0.04, y: y + 0.04, width: 0.92, height: 0.92, rx: 0.12, class: `term-${term % 9}` }));
    }),
  );
  return picture;
}

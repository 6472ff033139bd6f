// The picture of the expression graph. Its colours come from the style sheet, so that it fits light and dark.

import { download, element } from "./dom.js";

const counted = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

export function showGraph(panel, { svg, nodes, edges }) {
  const plain = svg.replace(/<style>[^<]*<\/style>/, "");
  const picture = document.importNode(new DOMParser().parseFromString(plain, "image/svg+xml").documentElement, true);
  picture.querySelector(":scope > rect").remove();
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", `Expression graph with ${counted(nodes, "node")} and ${counted(edges, "edge")}`);
  const save = element("button", { type: "button", className: "quiet small" }, "Save SVG");
  save.addEventListener("click", () => download(svg, "graph.svg", "image/svg+xml"));
  const count = element("p", { className: "note" }, `${counted(nodes, "node")}, ${counted(edges, "edge")}; operands above, the result at the bottom`);
  panel.replaceChildren(
    element("div", { className: "bar" }, count, element("div", { className: "buttons" }, save)),
    element("div", { className: "graph", tabIndex: 0 }, picture),
  );
}

// A row of tabs: one is chosen; arrow keys, Home and End move between them.

import { element } from "./dom.js";

const MOVES = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

export function tabs(list, items, panel, onChoose) {
  const buttons = items.map(([key, label]) => {
    const button = element("button", { type: "button", className: "tab", id: `tab-${key}`, role: "tab" }, label);
    button.dataset.key = key;
    if (panel) button.setAttribute("aria-controls", panel.id);
    button.addEventListener("click", () => onChoose(key));
    return button;
  });
  list.onkeydown = (event) => {
    const place = buttons.indexOf(document.activeElement);
    if (place < 0) return;
    let next = null;
    if (event.key in MOVES) next = (place + MOVES[event.key] + buttons.length) % buttons.length;
    if (event.key === "Home") next = 0;
    if (event.key === "End") next = buttons.length - 1;
    if (next === null) return;
    event.preventDefault();
    buttons[next].focus();
    buttons[next].click();
  };
  list.replaceChildren(...buttons);
  return (chosen) => {
    for (const button of buttons) {
      const selected = button.dataset.key === chosen;
      button.setAttribute("aria-selected", String(selected));
      button.tabIndex = selected ? 0 : -1;
      if (selected && panel) panel.setAttribute("aria-labelledby", button.id);
    }
  };
}

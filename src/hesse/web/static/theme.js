// Light or dark before anything is drawn: what was chosen on this page, or else what the system prefers.
(() => {
  const chosen = localStorage.getItem("theme");
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
    if (!localStorage.getItem("theme")) {
      document.documentElement.dataset.theme = event.matches ? "dark" : "light";
    }
  });
})();

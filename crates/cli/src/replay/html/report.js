"use strict";
// A click on a head sorts by its column, the highest or first letter first, then the other way round.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
    const isNumber = head.classList.contains("num");
    const first = isNumber ? "descending" : "ascending";
    const second = isNumber ? "ascending" : "descending";
    const order = head.getAttribute("aria-sort") === first ? second : first;
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", order);
    const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const compare = (a, b) => value(a).localeCompare(value(b), "en", { numeric: true });
    const rows = [...table.tBodies[0].rows].sort((a, b) => (order === "ascending" ? compare(a, b) : compare(b, a)));
    table.tBodies[0].append(...rows);
  }));
}
// Light or dark as the system says, until somebody chooses.
const button = document.getElementById("theme");
const show = (theme) => {
  document.documentElement.dataset.theme = theme;
  button.textContent = theme === "dark" ? "Light theme" : "Dark theme";
};
show(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
button.addEventListener("click", () => show(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));

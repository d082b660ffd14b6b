// SPDX-License-Identifier: Apache-2.0
// Colours come as custom properties, once for light and once for dark screens; the first eight of
// parts are those of Okabe and Ito, which colour-blind readers tell from each other. Text is ink or
// quiet or mark on paper or shade; on a part (class on) it has a rim of paper.
#include "report/page/style.hpp"

namespace plansearch::page {

const std::string_view kStyle = R"css(:root {
  --paper: #ffffff; --ink: #1b1f24; --quiet: #57606a; --line: #d0d7de; --shade: #f6f8fa; --mark: #0550ae;
  --c0: #0072b2; --c1: #e69f00; --c2: #009e73; --c3: #cc79a7; --c4: #56b4e9; --c5: #d55e00; --c6: #8c7a00; --c7: #7f7f7f; --c8: #5e4fa2; --c9: #a65628; --c10: #66c2a5; --c11: #b2182b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #0d1117; --ink: #e6edf3; --quiet: #9da7b3; --line: #30363d; --shade: #161b22; --mark: #79c0ff;
    --c0: #3a9bdc; --c1: #f0b429; --c2: #2fbf8f; --c3: #dd93bd; --c4: #7cc8f2; --c5: #f08050; --c6: #cbb62a; --c7: #a0a0a0; --c8: #a99be0; --c9: #d08a5a; --c10: #8fdcc4; --c11: #f07a8a;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 86rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); padding-bottom: .25rem; }
p { margin: .4rem 0; overflow-wrap: anywhere; white-space: pre-line; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: .75rem 0; }
a { color: var(--mark); }
.quiet, caption, figcaption { color: var(--quiet); font-size: .9rem; }
.facts { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; }
.facts div { border: 1px solid var(--line); border-radius: 6px; background: var(--shade); padding: .5rem .9rem; }
.facts b { display: block; font-size: 1.25rem; font-weight: 600; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
caption { text-align: left; padding-bottom: .25rem; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; white-space: nowrap; }
.number { text-align: right; }
.sortable th, .sortable td { padding: .25rem .45rem; }
.sortable td:not(.number):not(:last-child) { min-width: 7rem; max-width: 18rem; white-space: normal; overflow-wrap: anywhere; }
thead th { background: var(--shade); }
.sortable th button { all: unset; cursor: pointer; font: inherit; }
.sortable th button:focus-visible { outline: 2px solid var(--mark); }
.filter { margin: .5rem 0; }
.filter input { font: inherit; padding: .25rem .5rem; border: 1px solid var(--line); border-radius: 4px; background: var(--paper); color: var(--ink); }
figure { margin: .75rem 0; overflow-x: auto; }
svg { display: block; width: 100%; min-width: 40rem; height: auto; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .quiet { fill: var(--quiet); font-size: 12px; }
svg .on { stroke: var(--paper); stroke-width: 3px; paint-order: stroke; font-weight: 600; }
svg .line { stroke: var(--line); }
@page { size: landscape; margin: 12mm; }
@media print {
  nav, .filter { display: none; }
  main { max-width: none; padding: 0; }
  figure, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
  .scroll, figure { overflow: visible; }
  table { font-size: .7rem; }
  thead { display: table-row-group; }
  th, td { padding: .15rem .3rem; white-space: normal; }
  .number { white-space: nowrap; }
  .sortable td:not(.number):not(:last-child) { min-width: 0; overflow-wrap: normal; }
  .sortable td:last-child { min-width: 12rem; }
}
)css";

const std::string_view kScript = R"js("use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const value = (row, column) => {
    const cell = row.cells[column];
    const number = Number(cell.dataset.value ?? cell.textContent.replace(/[^0-9.eE+-].*$/, ""));
    return cell.textContent.trim() !== "" && Number.isFinite(number) ? number : cell.textContent;
  };
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a, column), value(b, column)];
        const order = typeof x === typeof y ? (x < y ? -1 : x > y ? 1 : 0) : typeof x === "number" ? -1 : 1;
        return down ? -order : order;
      });
      body.append(...rows);
    });
  });
  const label = document.createElement("label");
  label.className = "filter";
  const input = document.createElement("input");
  input.type = "search";
  label.append("filter ", input);
  table.parentElement.before(label);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}
)js";

}  // namespace plansearch::page

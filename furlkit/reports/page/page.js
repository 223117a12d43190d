"use strict";
// Sorting: a button in every heading; numbers are in data-v, or in the text.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  if (body.rows.length < 2) continue;
  const key = (row, k) => {
    const cell = row.cells[k], shown = cell.textContent.replaceAll(",", "");
    const number = cell.dataset.v ?? (shown.trim() === "" ? NaN : shown);
    return [Number(number), cell.textContent];
  };
  heads.forEach((head, k) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      const rows = [...body.rows].map((row) => [key(row, k), row]);
      rows.sort(([[a, s]], [[b, t]]) => {
        if (Number.isNaN(a) && Number.isNaN(b)) return sign * s.localeCompare(t);
        if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) ? 1 : -1;
        return sign * (a - b);
      });
      body.append(...rows.map(([, row]) => row));
    });
  });
}
for (const chart of document.querySelectorAll("figure.chart")) {
  const svg = chart.querySelector("svg");
  const series = [...svg.querySelectorAll(".series")];
  // Hiding: the entries of the legend are switches.
  for (const item of chart.querySelectorAll(".legend li")) {
    const line = series[item.dataset.series];
    const toggle = () => {
      const hidden = line.classList.toggle("hidden");
      item.setAttribute("aria-pressed", String(!hidden));
    };
    item.tabIndex = 0;
    item.setAttribute("role", "button");
    item.setAttribute("aria-pressed", "true");
    item.addEventListener("click", toggle);
    item.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        toggle();
      }
    });
  }
  // Hovering: the values of the lines at the nearest round.
  const [left, right, first, last, width] = JSON.parse(chart.dataset.frame);
  const lines = series.map((line) => JSON.parse(line.dataset.points));
  const rounds = [...new Set(lines.flatMap((line) => line.x))];
  const tip = document.createElement("div");
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
  tip.className = "tip";
  cursor.setAttribute("class", "cursor");
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * width;
    const wanted = first + ((place - left) / (right - left)) * (last - first);
    const x = rounds.reduce((a, b) => (Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a));
    const at = left + ((x - first) / (last - first)) * (right - left);
    for (const [name, value] of [["x1", at], ["x2", at], ["y1", 10], ["y2", 216]]) {
      cursor.setAttribute(name, value);
    }
    const shown = [];
    lines.forEach((line, k) => {
      const i = line.x.indexOf(x);
      if (i >= 0 && !series[k].classList.contains("hidden")) {
        shown.push(`${line.y[i].toPrecision(4)}  ${series[k].dataset.label}`);
      }
    });
    const more = shown.length > 12 ? `\n${shown.length - 12} more` : "";
    tip.textContent = `${x}\n${shown.slice(0, 12).join("\n")}${more}`;
    svg.append(cursor);
    chart.append(tip);
    const spot = event.clientX - box.left;
    const flip = spot > box.width / 2;
    tip.style.left = flip ? "" : `${spot + 14}px`;
    tip.style.right = flip ? `${box.width - spot + 14}px` : "";
    tip.style.top = `${event.clientY - chart.getBoundingClientRect().top + 10}px`;
  });
  svg.addEventListener("pointerleave", () => {
    cursor.remove();
    tip.remove();
  });
}
// Printing shows everything.
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
});

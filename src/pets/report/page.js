// Hover for the charts; sorting, filtering and searching for the tables. Without it every figure is there all the same.
document.documentElement.classList.add("scripted");

// A chart is drawn as wide as its place: on a phone its letters stay as large as they are.
const NARROW_PX = 480;
const dark = matchMedia("(prefers-color-scheme: dark)");

async function draw(figure) {
  const width = figure.clientWidth;
  const text = document.getElementById(figure.dataset.chart).textContent;
  const chart = JSON.parse(text, (key, value) => (key === "columns" && width < NARROW_PX ? Math.min(value, 2) : value));
  const place = document.createElement("div");
  place.ariaHidden = "true"; // the figure's label says it in words
  const options = { actions: false, renderer: "svg", tooltip: { theme: dark.matches ? "dark" : "light" } };
  await vegaEmbed(place, { ...chart, width, autosize: { type: "fit-x", contains: "padding" } }, options);
  figure.dataset.drawn = width;
  figure.replaceChildren(place);
}

const figures = [...document.querySelectorAll("figure[data-chart]")];
async function drawAll() {
  for (const figure of figures) if (Number(figure.dataset.drawn) !== figure.clientWidth) await draw(figure);
}
drawAll();
let resized;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(drawAll, 150);
});

for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const tools = document.querySelector(`.tools[data-for="${table.id}"]`);
  const show = () => {
    const words = tools?.querySelector("input")?.value.trim().toLowerCase() ?? "";
    const kind = tools?.querySelector("select")?.value ?? "";
    let shown = 0;
    for (const row of rows) {
      row.hidden = !(row.textContent.toLowerCase().includes(words) && (!kind || row.dataset.kinds.split(" ").includes(kind)));
      shown += !row.hidden;
    }
    const count = tools?.querySelector("output");
    if (count) count.textContent = `${shown} of ${rows.length}`;
  };
  tools?.addEventListener("input", show);
  if (tools) show();
  for (const [column, head] of [...table.tHead.rows[0].cells].entries()) {
    const button = head.querySelector("button");
    button?.addEventListener("click", () => {
      const falling = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const number = (row) => (key(row) === "" ? NaN : Number(key(row)));
      rows.sort((a, b) => {
        const [x, y] = [number(a), number(b)];
        if (Number.isNaN(x) && Number.isNaN(y)) return key(a).localeCompare(key(b));
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
        return x - y;
      });
      if (falling) rows.reverse();
      body.append(...rows);
    });
  }
}

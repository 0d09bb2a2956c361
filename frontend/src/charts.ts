import { all, one, onClick } from "./dom";

/** Charts are drawn by a chunk that loads only where a page has one. */
async function draw(root: ParentNode): Promise<void> {
  const figures = all("[data-chart]", root);
  if (!figures.length) return;
  const { drawChart } = await import("./chart-draw");
  figures.forEach(drawChart);
}

function show(button: HTMLElement): void {
  const figure = button.closest<HTMLElement>("[data-chart]");
  if (!figure) return;
  const part = button.dataset["chartShow"];
  all("[data-chart-show]", figure).forEach((other) =>
    other.setAttribute("aria-pressed", String(other === button)),
  );
  for (const name of ["chart", "table"])
    one(`[data-chart-part="${name}"]`, figure)?.toggleAttribute("hidden", name !== part);
  if (part === "chart") void draw(figure.parentElement ?? document);
}

export function startCharts(): void {
  onClick("[data-chart-show]", show);
  void draw(document);
  document.addEventListener(
    "htmx:afterSettle",
    (event) => void draw((event.target as Element).parentElement ?? document),
  );
  document.addEventListener("theme", () => void draw(document));
}

import { all, one, onClick } from "./dom";

/** Charts are drawn by a chunk that loads only where a page has one. */
async function draw(root: ParentNode): Promise<void> {
  const figures = all("[data-chart]", root);
  if (!figures.length) return;
  const { drawChart } = await import("./chart-draw");
  figures.forEach(drawChart);
}

const shown = new Map<string, string | undefined>();

function show(button: HTMLElement): void {
  const figure = button.closest<HTMLElement>("[data-chart]");
  if (!figure) return;
  const part = button.dataset["chartShow"];
  shown.set(figure.id, part);
  all("[data-chart-show]", figure).forEach((other) =>
    other.setAttribute("aria-pressed", String(other === button)),
  );
  for (const name of ["chart", "table"])
    one(`[data-chart-part="${name}"]`, figure)?.toggleAttribute("hidden", name !== part);
  if (part === "chart") void draw(figure.parentElement ?? document);
}

/** A chart whose part of the page was fetched again stands as the reader had it. */
function restoreShown(): void {
  for (const button of all("[data-chart-show][aria-pressed=false]"))
    if (shown.get(button.closest("[data-chart]")?.id ?? "") === button.dataset["chartShow"]) show(button);
}

export function startCharts(): void {
  onClick("[data-chart-show]", show);
  void draw(document);
  document.addEventListener("htmx:afterSwap", restoreShown);
  document.addEventListener(
    "htmx:afterSettle",
    (event) => void draw((event.target as Element).parentElement ?? document),
  );
  document.addEventListener("theme", () => void draw(document));
}

import { all, one } from "./dom";

const STEPS: Record<string, [number, number]> = {
  ArrowRight: [0, 1],
  ArrowLeft: [0, -1],
  ArrowDown: [1, 0],
  ArrowUp: [-1, 0],
};

/** Arrow keys walk the cells of a `[data-matrix]`; a cell is one `[data-cell]`. */
function walk(event: KeyboardEvent): void {
  const cell = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-cell]") : null;
  const matrix = cell?.closest<HTMLElement>("[data-matrix]");
  const step = STEPS[event.key];
  if (!cell || !matrix || !step || event.altKey || event.ctrlKey || event.metaKey) return;
  const rows = all("tbody tr", matrix).filter((row) => row.offsetParent !== null && one("[data-cell]", row));
  const place = rows.findIndex((row) => row.contains(cell));
  const here = all("[data-cell]", rows[place]).indexOf(cell);
  const next = all("[data-cell]", rows[place + step[0]] ?? document.createElement("tr"))[here + step[1]];
  event.preventDefault();
  next?.focus();
}

/** Escape leaves the open cell as it was, from wherever in its row. */
function leave(event: KeyboardEvent): void {
  if (event.key !== "Escape" || !(event.target instanceof Element)) return;
  const open = event.target.closest("tbody");
  const cancel = open && one("[data-limit-cancel]", open);
  if (!cancel) return;
  event.preventDefault();
  cancel.click();
}

/** A refusal is drawn where the answer would have been, when its target says so with `data-refusals`. */
function drawRefusal(event: Event): void {
  const { detail } = event as CustomEvent<{
    xhr: XMLHttpRequest;
    target: Element | null;
    shouldSwap: boolean;
    isError: boolean;
  }>;
  const refused = [409, 412, 422].includes(detail.xhr.status);
  if (!refused || !detail.target?.hasAttribute("data-refusals")) return;
  detail.shouldSwap = true;
  detail.isError = false;
}

/** Only one cell is open at a time: opening another closes this one as it was. */
function closeOthers(event: Event): void {
  const body = (event.target as Element).closest("[data-matrix] > tbody") ?? (event.target as Element);
  if (!one("[data-limit-input]", body)) return;
  for (const other of all("[data-limit-cancel]")) {
    if (!body.contains(other)) other.click();
  }
}

function submitOnChange(event: Event): void {
  if (event.target instanceof Element && event.target.matches("[data-submit]")) {
    (event.target as HTMLSelectElement).form?.requestSubmit();
  }
}

export function startMatrix(): void {
  document.addEventListener("keydown", walk);
  document.addEventListener("keydown", leave);
  document.addEventListener("htmx:beforeSwap", drawRefusal);
  document.addEventListener("htmx:afterSettle", closeOthers);
  document.addEventListener("change", submitOnChange);
}

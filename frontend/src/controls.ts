import { all, one, onClick } from "./dom";

function step(button: HTMLElement): void {
  const input = button.closest("[data-stepper]")?.querySelector<HTMLInputElement>("input");
  if (!input) return;
  const by = Number(button.dataset["step"]) * (Number(input.step) || 1);
  const low = input.min === "" ? -Infinity : Number(input.min);
  const high = input.max === "" ? Infinity : Number(input.max);
  input.value = String(Math.min(high, Math.max(low, (Number(input.value) || 0) + by)));
  input.dispatchEvent(new Event("input", { bubbles: true }));
  input.dispatchEvent(new Event("change", { bubbles: true }));
}

/** Which node of each map was read, by the row and its name: it stands in the row of every kind of GPU that it has. */
const read = new Map<string, string>();

const rowAndName = (node: HTMLElement): string =>
  `${node.parentElement?.getAttribute("aria-label")} ${node.dataset["name"]}`;

function readNode(node: HTMLElement): void {
  const map = node.closest<HTMLElement>("[data-map]");
  const readout = map && one("[data-map-readout]", map);
  if (!map || !readout) return;
  read.set(map.id, rowAndName(node));
  all(".g-node[aria-pressed=true]", map).forEach((other) => other.setAttribute("aria-pressed", "false"));
  node.setAttribute("aria-pressed", "true");
  const { name = "", counts = "", detail = "" } = node.dataset;
  const url = node.getAttribute("href");
  const parts: Node[] = [Object.assign(document.createElement("b"), { textContent: name })];
  for (const text of [counts, detail].filter(Boolean)) {
    parts.push(Object.assign(document.createElement("span"), { textContent: text }));
  }
  if (url) parts.push(Object.assign(document.createElement("a"), { href: url, textContent: "Open node" }));
  readout.replaceChildren(...parts);
}

function makeStop(node: HTMLElement): void {
  all(".g-node", node.parentElement ?? document).forEach(
    (other) => (other.tabIndex = other === node ? 0 : -1),
  );
}

function focusNode(node: HTMLElement | undefined): void {
  if (!node) return;
  makeStop(node);
  node.focus();
}

function restoreRead(): void {
  for (const map of all("[data-map]")) {
    const node = all(".g-node", map).find((each) => rowAndName(each) === read.get(map.id));
    if (!node || node.getAttribute("aria-pressed") === "true") continue;
    readNode(node);
    makeStop(node);
  }
}

function walkMap(event: KeyboardEvent): void {
  const node = event.target instanceof Element ? event.target.closest<HTMLElement>(".g-node") : null;
  const map = node?.closest<HTMLElement>("[data-map]");
  if (!node || !map) return;
  const row = all(".g-node", node.parentElement ?? map);
  const groups = all(".g-map__nodes", map);
  const place = row.indexOf(node);
  const group = groups.indexOf(node.parentElement as HTMLElement);
  const beside = (step: number): HTMLElement | undefined => {
    const other = groups[group + step];
    const nodes = other ? all(".g-node", other) : [];
    return nodes[Math.min(place, nodes.length - 1)];
  };
  const moves: Record<string, () => HTMLElement | undefined> = {
    ArrowRight: () => row[place + 1],
    ArrowLeft: () => row[place - 1],
    ArrowDown: () => beside(1),
    ArrowUp: () => beside(-1),
    Home: () => row[0],
    End: () => row[row.length - 1],
  };
  const move = moves[event.key];
  if (!move) return;
  focusNode(move());
  event.preventDefault();
}

/** `<div data-bulk hidden>` above a table shows while rows are chosen; `[data-bulk-count]` says how many. */
function countChosen(event: Event): void {
  const box = event.target;
  if (!(box instanceof HTMLInputElement) || !box.closest(".g-check")) return;
  const table = box.closest<HTMLElement>("[data-rows]");
  if (!table) return;
  const boxes = all<HTMLInputElement>("tbody .g-check input", table);
  if (box.closest("thead")) boxes.forEach((other) => (other.checked = box.checked));
  const chosen = boxes.filter((other) => other.checked).length;
  const head = one<HTMLInputElement>("thead .g-check input", table);
  if (head) {
    head.checked = chosen === boxes.length;
    head.indeterminate = chosen > 0 && chosen < boxes.length;
  }
  const bar = one("[data-bulk]", table.closest(".card") ?? document);
  bar?.toggleAttribute("hidden", chosen === 0);
  const count = bar && one("[data-bulk-count]", bar);
  if (count) count.textContent = `${chosen} selected`;
}

const opened = new Map<string, boolean>();

/** What the reader has opened or closed stays so when the page fetches itself: `<details id=…>`. */
function rememberOpened(event: Event): void {
  if (event.target instanceof HTMLDetailsElement && event.target.id)
    opened.set(event.target.id, event.target.open);
}

function restoreOpened(): void {
  for (const element of all<HTMLDetailsElement>("details[id]")) {
    const open = opened.get(element.id);
    if (open !== undefined && element.open !== open) element.open = open;
  }
}

export function startControls(): void {
  document.addEventListener("toggle", rememberOpened, true);
  document.addEventListener("htmx:afterSwap", restoreOpened);
  document.addEventListener("htmx:afterSwap", restoreRead);
  onClick("[data-step]", step);
  onClick(".g-node", (node, event) => {
    event.preventDefault();
    readNode(node);
    focusNode(node);
  });
  onClick("[data-print-page]", () => window.print());
  document.addEventListener("keydown", walkMap);
  document.addEventListener("change", countChosen);
}

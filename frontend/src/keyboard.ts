import { all, isTyping, kept, one } from "./dom";
import { openDialog } from "./overlays";
import { openPalette } from "./palette";
import { toggleTheme } from "./theme";

const OFF = "single-keys-off";
let goUntil = 0;

function rows(): HTMLElement[] {
  return all("[data-rows] tbody tr").filter(
    (row) => !row.matches(".g-why, .g-group") && row.offsetParent !== null,
  );
}

function moveCursor(step: number): void {
  const list = rows();
  const here = list.findIndex((row) => row.classList.contains("g-cursor"));
  const next =
    list[here < 0 ? (step > 0 ? 0 : list.length - 1) : Math.min(Math.max(here + step, 0), list.length - 1)];
  if (!next) return;
  list[here]?.classList.remove("g-cursor");
  next.classList.add("g-cursor");
  next.scrollIntoView({ block: "nearest" });
  one<HTMLElement>("a, button, input", next)?.focus({ preventScroll: true });
}

const cursor = (): HTMLElement | null => one("[data-rows] tr.g-cursor");

function openRow(): boolean {
  const link = cursor() && one<HTMLAnchorElement>("th a, td a:not([role=button])", cursor()!);
  link?.click();
  return link !== null;
}

function selectRow(): void {
  const row = cursor();
  const box = row && one<HTMLInputElement>(".g-check input", row);
  box?.click();
}

function go(key: string): boolean {
  const link = one<HTMLAnchorElement>(`[data-go="${CSS.escape(key)}"]`);
  link?.click();
  return link !== null;
}

const KEYS: Record<string, () => void> = {
  j: () => moveCursor(1),
  k: () => moveCursor(-1),
  x: selectRow,
  t: toggleTheme,
  "?": () => openDialog("shortcuts"),
  "/": () => one<HTMLInputElement>(".g-toolbar input[type=search]")?.focus(),
};

function single(event: KeyboardEvent): boolean {
  const key = event.key.toLowerCase();
  if (performance.now() < goUntil) {
    goUntil = 0;
    return go(key);
  }
  if (key === "g") {
    goUntil = performance.now() + 1500;
    return true;
  }
  const own = one(`[data-key="${CSS.escape(key)}"]:not(:disabled)`);
  if (own) {
    own.click();
    return true;
  }
  KEYS[key]?.();
  return key in KEYS;
}

function onKey(event: KeyboardEvent): void {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
    return;
  }
  const busy =
    event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || one("dialog[open]") !== null;
  if (busy || kept.get(OFF)) return;
  if (event.key === "Enter") {
    // Enter on a focused control does what the control does.
    if (event.target === document.body && openRow()) event.preventDefault();
    return;
  }
  if (single(event)) event.preventDefault();
}

function followFocus(event: FocusEvent): void {
  const row = event.target instanceof Element ? event.target.closest("[data-rows] tbody tr") : null;
  if (!row) return;
  all("[data-rows] tr.g-cursor").forEach((other) => other.classList.toggle("g-cursor", other === row));
}

export function startKeyboard(): void {
  document.addEventListener("keydown", onKey);
  document.addEventListener("focusin", followFocus);
  const toggle = one<HTMLInputElement>("[data-keys-toggle]");
  if (!toggle) return;
  toggle.checked = !kept.get(OFF);
  toggle.addEventListener("change", () => kept.set(OFF, toggle.checked ? "" : "1"));
}

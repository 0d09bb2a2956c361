import { all, icon, one, onClick } from "./dom";
import { openDialog } from "./overlays";

interface Entry {
  label: string;
  note: string;
  group: string;
  icon: string;
  keys: string[];
  run: () => void;
}

/** What the search view answers: `[{"label", "note", "group", "icon", "url"}]`. */
interface Found {
  label: string;
  note?: string;
  group?: string;
  icon?: string;
  url: string;
}

const LIMIT = 12; // before anything is typed; what the portal finds is at most eight of each kind
let entries: Entry[] = [];
let chosen = 0;
let asked = 0;

const dialog = (): HTMLDialogElement | null => one<HTMLDialogElement>("#palette");

function iconName(element: Element): string {
  return one("use", element)?.getAttribute("href")?.split("#")[1] ?? "chevron-right";
}

function places(): Entry[] {
  return [...all<HTMLAnchorElement>(".g-nav a"), ...all<HTMLAnchorElement>("#switcher a")].map((link) => ({
    label: link.querySelector("span")?.firstChild?.textContent?.trim() ?? "",
    note: link.closest("#switcher")
      ? "project"
      : (link.closest(".g-nav")?.querySelector("h2")?.textContent ?? ""),
    group: "Places",
    icon: link.closest("#switcher") ? "folder" : iconName(link),
    keys: link.dataset["go"] ? ["G", link.dataset["go"].toUpperCase()] : [],
    run: () => link.click(),
  }));
}

function actions(): Entry[] {
  const found = all<HTMLElement>(".g-head__actions .btn:not(:disabled), [data-theme-toggle].btn-icon").map(
    (button) => ({
      label:
        button.getAttribute("aria-label") ??
        [...button.childNodes]
          .find((node) => node.nodeType === 3 && node.textContent?.trim())
          ?.textContent?.trim() ??
        "",
      note: "",
      group: "Actions",
      icon: iconName(button),
      keys: button.matches("[data-theme-toggle]")
        ? ["T"]
        : button.dataset["key"]
          ? [button.dataset["key"].toUpperCase()]
          : [],
      run: () => button.click(),
    }),
  );
  const own = found.filter((entry) => entry.label !== "Shortcuts");
  return [
    ...own,
    {
      label: "Shortcuts",
      note: "",
      group: "Actions",
      icon: "keyboard",
      keys: ["?"],
      run: () => openDialog("shortcuts"),
    },
  ];
}

/** Throws where the portal does not answer. */
async function search(text: string): Promise<Entry[]> {
  const url = dialog()?.dataset["search"];
  if (!url || text.length < 2) return [];
  const response = await fetch(`${url}?q=${encodeURIComponent(text)}`, {
    headers: { Accept: "application/json" },
  });
  const door = response.headers.get("HX-Redirect");
  if (door) location.assign(door);
  if (!response.ok) throw new Error(`${response.status}`);
  const found = (await response.json()) as Found[];
  return found.map((item) => ({
    label: item.label,
    note: item.note ?? "",
    group: item.group ?? "Found",
    icon: item.icon ?? "chevron-right",
    keys: [],
    run: () => location.assign(item.url),
  }));
}

function matches(entry: Entry, text: string): boolean {
  const where = `${entry.label} ${entry.note}`.toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => where.includes(word));
}

function option(entry: Entry, place: number): HTMLLIElement {
  const item = document.createElement("li");
  item.id = `palette-${place}`;
  item.setAttribute("role", "option");
  item.append(icon(entry.icon), Object.assign(document.createElement("span"), { textContent: entry.label }));
  if (entry.note) item.append(Object.assign(document.createElement("small"), { textContent: entry.note }));
  const keys = Object.assign(document.createElement("span"), { className: "g-palette__keys" });
  for (const key of entry.keys)
    keys.append(Object.assign(document.createElement("kbd"), { textContent: key }), " ");
  item.append(keys);
  item.addEventListener("click", () => run(place));
  return item;
}

/** What is chosen stays so when the portal's answer joins it: Enter may be on its way. */
function draw(found: Entry[], away = false): void {
  const before = entries[chosen];
  entries = found;
  const list = one("#palette-list");
  if (!list) return;
  const items: HTMLLIElement[] = [];
  let group = "";
  entries.forEach((entry, place) => {
    if (entry.group !== group) {
      group = entry.group;
      items.push(Object.assign(document.createElement("li"), { textContent: group, role: "presentation" }));
    }
    items.push(option(entry, place));
  });
  list.replaceChildren(...items);
  one(".g-palette__none")?.toggleAttribute("hidden", away || entries.length > 0);
  one(".g-palette__away")?.toggleAttribute("hidden", !away);
  choose(before ? Math.max(entries.indexOf(before), 0) : 0);
}

function choose(place: number): void {
  chosen = entries.length ? (place + entries.length) % entries.length : 0;
  all("#palette-list [role=option]").forEach((item) =>
    item.setAttribute("aria-selected", String(item.id === `palette-${chosen}`)),
  );
  const item = document.getElementById(`palette-${chosen}`);
  item?.scrollIntoView({ block: "nearest" });
  const input = one(".g-palette__input");
  if (item) input?.setAttribute("aria-activedescendant", item.id);
  else input?.removeAttribute("aria-activedescendant");
}

function run(place: number): void {
  const entry = entries[place];
  if (!entry) return;
  dialog()?.close();
  entry.run();
}

async function update(text: string): Promise<void> {
  const mine = ++asked;
  const local = [...places(), ...actions()].filter((entry) => entry.label && matches(entry, text));
  draw(text ? local : local.slice(0, LIMIT));
  const found = await search(text).catch(() => null);
  if (mine !== asked || found?.length === 0) return;
  if (!found) return draw(local, true);
  const shown = new Set(local.map((entry) => `${entry.label} ${entry.note}`));
  const more = found.filter((entry) => !shown.has(`${entry.label} ${entry.note}`));
  const pages = more.filter((entry) => entry.group === "Places"); // of the menu that is not shown
  draw([...more.filter((entry) => !pages.includes(entry)), ...local, ...pages]);
}

export function openPalette(): void {
  const input = one<HTMLInputElement>(".g-palette__input");
  if (!input || one("dialog[open]")) return;
  input.value = "";
  void update("");
  openDialog("palette");
}

export function startPalette(): void {
  onClick("[data-palette-open]", openPalette);
  const input = one<HTMLInputElement>(".g-palette__input");
  let timer = 0;
  const answer = (): void => {
    window.clearTimeout(timer);
    timer = 0;
    void update(input?.value.trim() ?? "");
  };
  input?.addEventListener("input", () => {
    window.clearTimeout(timer);
    timer = window.setTimeout(answer, 90);
  });
  input?.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen - 1);
    else if (event.key === "Enter") {
      if (timer) answer(); // what is shown is of another text
      run(chosen);
    } else return;
    event.preventDefault();
  });
}

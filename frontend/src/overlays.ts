import { all, focusHeading, one, onClick } from "./dom";

let opener: HTMLElement | null = null;

export function openDialog(id: string): void {
  const dialog = document.getElementById(id);
  if (!(dialog instanceof HTMLDialogElement) || dialog.open) return;
  dialog.showModal();
  askName(dialog);
  one<HTMLInputElement>("input:not([type=hidden]):not([type=checkbox])", dialog)?.focus();
}

/** What opened it may be in a menu that is closed by now, or was fetched again since. */
function giveBack(dialog: string): void {
  const from = opener && !opener.isConnected ? one(`[data-dialog="${CSS.escape(dialog)}"]`) : opener;
  const menu = from?.closest<HTMLElement>("[hidden]");
  const back = menu ? one(`[data-menu-open="${menu.id}"]`) : from;
  if (back) back.focus();
  else if (document.activeElement === document.body) focusHeading();
  opener = null;
}

const isNamed = (dialog: HTMLDialogElement): boolean =>
  one<HTMLInputElement>("input[name=confirm_name]", dialog)?.value === dialog.dataset["confirmName"];

/** The button is disabled until the name is typed, and says so beside it. */
function askName(dialog: HTMLDialogElement): void {
  const submit = one<HTMLButtonElement>("button[type=submit]", dialog);
  if (!submit || !dialog.dataset["confirmName"]) return;
  submit.disabled = !isNamed(dialog);
  one(".g-reason", submit.parentElement ?? dialog)?.toggleAttribute("hidden", !submit.disabled);
}

/** What came open with the page, or was opened by its link before scripts ran, is now opened by them. */
function takeOver(): void {
  const named = document.getElementById(location.hash.slice(1));
  if (named?.matches("dialog.g-dialog"))
    history.replaceState(history.state, "", location.pathname + location.search);
  for (const dialog of all<HTMLDialogElement>("dialog.g-dialog")) {
    if (!dialog.open && dialog !== named) continue;
    dialog.open = false;
    openDialog(dialog.id);
  }
}

/** A link that opens something is a button to whoever presses it: by the space bar too. */
function pressLink(event: KeyboardEvent): void {
  if (event.key !== " " || !(event.target instanceof HTMLAnchorElement) || event.target.role !== "button")
    return;
  event.preventDefault();
  event.target.click();
}

function closeMenus(except?: Element): void {
  for (const button of all("[data-menu-open][aria-expanded=true]")) {
    if (button === except) continue;
    button.setAttribute("aria-expanded", "false");
    document.getElementById(button.dataset["menuOpen"] ?? "")?.setAttribute("hidden", "");
  }
}

function toggleMenu(button: HTMLElement): void {
  const menu = document.getElementById(button.dataset["menuOpen"] ?? "");
  if (!menu) return;
  const open = menu.hidden;
  closeMenus(button);
  menu.hidden = !open;
  button.setAttribute("aria-expanded", String(open));
  if (open) one("a, button", menu)?.focus();
}

function moveInMenu(event: KeyboardEvent): void {
  const menu =
    event.target instanceof Element
      ? event.target.closest<HTMLElement>(".dropdown-menu:not(.dropdown-menu--shown)")
      : null;
  if (!menu || (event.key !== "ArrowDown" && event.key !== "ArrowUp")) return;
  const items = all(".dropdown-item", menu);
  const here = items.indexOf(document.activeElement as HTMLElement);
  const step = event.key === "ArrowDown" ? 1 : -1;
  items[(here + step + items.length) % items.length]?.focus();
  event.preventDefault();
}

function setDrawer(open: boolean): void {
  const side = document.getElementById("side");
  const button = one("[data-drawer-open]");
  if (!side || !button) return;
  const inside = side.contains(document.activeElement);
  side.toggleAttribute("data-open", open);
  // What lies under the scrim is out of reach of Tab too.
  for (const part of all(".g-skip, .g-page")) part.inert = open;
  button.setAttribute("aria-expanded", String(open));
  if (open) one("a", side)?.focus();
  else if (inside) button.focus();
}

function checkName(event: Event): void {
  const input = event.target;
  if (!(input instanceof HTMLInputElement) || input.name !== "confirm_name") return;
  const dialog = input.closest<HTMLDialogElement>("dialog[data-confirm-name]");
  if (dialog) askName(dialog);
}

export function startOverlays(): void {
  onClick("a[role=button][href^='#']", (_, event) => event.preventDefault());
  onClick("[data-drawer-close]", (_, event) => event.preventDefault());
  document.addEventListener("keydown", pressLink);
  onClick("[data-dialog]", (button) => {
    opener = button;
    closeMenus();
    openDialog(button.dataset["dialog"] ?? "");
  });
  onClick("[data-dialog-close]", (button) => button.closest("dialog")?.close());
  // A text that is selected beyond the edge of its dialog ends there with a click, too.
  let pressed: EventTarget | null = null;
  document.addEventListener("pointerdown", ({ target }) => {
    pressed = target;
  });
  onClick("dialog", (dialog, event) => {
    if (event.target === dialog && pressed === dialog) (dialog as HTMLDialogElement).close();
  });
  onClick("[data-menu-open]", toggleMenu);
  onClick("[data-drawer-open]", () => setDrawer(true));
  onClick("[data-drawer-close]", () => setDrawer(false));
  window.addEventListener("resize", () => {
    if (!one("[data-drawer-open]")?.offsetParent) setDrawer(false);
  });
  for (const leaving of ["click", "focusin"])
    document.addEventListener(leaving, ({ target }) => {
      if (target instanceof Element && !target.closest("[data-menu-open], .dropdown-menu")) closeMenus();
    });
  document.addEventListener("close", (event) => giveBack((event.target as Element).id), true);
  document.addEventListener("input", checkName);
  document.addEventListener("keydown", (event) => {
    moveInMenu(event);
    if (event.key !== "Escape") return;
    const button = one("[data-menu-open][aria-expanded=true]");
    closeMenus();
    button?.focus();
    setDrawer(false);
  });
  // A dialog's own htmx form closes it when the server took it.
  document.addEventListener("htmx:afterRequest", (event) => {
    const { successful } = (event as CustomEvent<{ successful: boolean }>).detail;
    if (successful && event.target instanceof HTMLFormElement)
      event.target.closest<HTMLDialogElement>("dialog.g-dialog")?.close();
  });
  // A row asks for its drawer with hx-target="#drawer-body"; what arrives opens it.
  document.addEventListener("htmx:afterSwap", (event) => {
    if ((event.target as Element).id === "drawer-body") openDialog("drawer");
  });
  takeOver();
}

import htmx from "htmx.org";
import { all, focusHeading, one } from "./dom";

/** A message of the socket: something of this kind changed. The page fetches it, so rights are checked there. */
interface Change {
  kind: string;
  id: string;
  /** The same in every group that hears of one change. */
  mark: string;
}

const POLL_MS = 30_000;
const WAIT_MAX_MS = 30_000;
const LEAVING_MS = 5_000;
const seen = new Map<string, string>();
/** Parts with a request under way, and those of them that changed again since: their answer may be out of date. */
const asking = new Set<string>();
const outdated = new Set<string>();
let failures = 0;
let leaving = false;

function showState(state: "on" | "lost"): void {
  for (const mark of all("[data-live-state]")) {
    mark.dataset["liveState"] = state;
    if (mark.hasAttribute("data-live-words"))
      mark.textContent = state === "on" ? "live" : "reconnecting, checked every 30 s";
  }
}

function partOf(element: HTMLElement): string {
  return element.id || element.dataset["live"] || "";
}

/** htmx would keep a second question for the element that the first answer replaces, and lose it. */
function refresh(element: HTMLElement): void {
  const part = partOf(element);
  if (leaving) return;
  if (asking.has(part)) outdated.add(part);
  else htmx.trigger(element, "live");
}

/** What a form changes is not fetched for the page that the browser leaves by it: it may have removed what the page shows. */
function left(event: SubmitEvent): void {
  const form = event.target;
  if (event.defaultPrevented || !(form instanceof HTMLFormElement) || form.method !== "post") return;
  leaving = true;
  window.setTimeout(() => {
    leaving = false;
    refreshAll();
  }, LEAVING_MS);
}

function began(event: Event): void {
  const { elt } = (event as CustomEvent<{ elt: Element }>).detail;
  if (elt instanceof HTMLElement && elt.matches("[data-live]")) asking.add(partOf(elt));
}

function ended(event: Event): void {
  const { elt } = (event as CustomEvent<{ requestConfig: { elt: Element } }>).detail.requestConfig;
  if (!(elt instanceof HTMLElement)) return;
  const part = partOf(elt);
  if (!asking.delete(part) || !outdated.delete(part)) return;
  // Only when htmx has put the answer in its place.
  window.setTimeout(() =>
    all("[data-live]")
      .filter((one) => partOf(one) === part)
      .forEach(refresh),
  );
}

/** Parts that changed while a dialog in them was open. */
const kept = new Set<string>();

/** Whether a refresh would take away an open dialog, and what is entered in it: in the part itself, or in what is selected beside it. */
function holdsDialog(element: HTMLElement): boolean {
  const beside = element.getAttribute("hx-select-oob")?.split(",") ?? [];
  const parts = [element, ...beside.map((each) => one(each.trim()))];
  return parts.some((part) => part?.querySelector("dialog[open]"));
}

/** The answer of a part is not put in its place while a dialog in it is open: it is fetched again when that is closed. */
function keep(event: Event): void {
  const { detail } = event as CustomEvent<{ requestConfig: { elt: Element }; shouldSwap: boolean }>;
  const { elt } = detail.requestConfig;
  if (!(elt instanceof HTMLElement) || !elt.matches("[data-live]") || !holdsDialog(elt)) return;
  detail.shouldSwap = false;
  kept.add(partOf(elt));
}

function fetchKept(): void {
  const parts = all("[data-live]").filter((part) => kept.has(partOf(part)));
  kept.clear();
  parts.forEach(refresh);
}

const CONTROLS = "a, button, input, select, textarea, summary, [tabindex]";
let held: { part: string; control: string; place: number } | null = null;

const NAMES = ["href", "data-copy", "aria-label", "name"];

const nameOf = (control: Element): string => {
  const names = NAMES.map((each) => control.getAttribute(each));
  return `${control.tagName} ${names.find(Boolean) ?? control.textContent?.trim()}`;
};

const namesakes = (control: string, part: ParentNode): HTMLElement[] =>
  all(CONTROLS, part).filter((each) => nameOf(each) === control);

/**
 * The focus stays where it is when its part is fetched again, or is on the part's heading where what had it is gone, such as a
 * row that was deleted. htmx itself does so only for what has an id.
 */
function hold(event: Event): void {
  const { target } = (event as CustomEvent<{ target: Element }>).detail;
  const here = document.activeElement;
  held = null;
  if (!(here instanceof HTMLElement) || !target?.id || !target.contains(here)) return;
  const control = nameOf(here);
  held = { part: target.id, control, place: namesakes(control, target).indexOf(here) };
}

function giveFocus(): void {
  const part = held && document.getElementById(held.part);
  if (held && part && document.activeElement === document.body) {
    const again = namesakes(held.control, part)[held.place];
    if (again) again.focus({ preventScroll: true });
    else focusHeading(one("h1, h2, h3", part) ? part : document);
  }
  held = null;
}

/** Elements name what they show: data-live="workspace:7f3a workspace:8c21", or "workspace:*" for a list. */
function apply(change: Change): void {
  const name = `${change.kind}:${change.id}`;
  if (seen.get(name) === change.mark) return;
  seen.set(name, change.mark);
  for (const element of all("[data-live]")) {
    const names = element.dataset["live"]?.split(/\s+/) ?? [];
    if (names.includes(name) || names.includes(`${change.kind}:*`)) refresh(element);
  }
}

export function refreshAll(): void {
  if (!document.hidden) all("[data-live]").forEach(refresh);
}

function isChange(value: unknown): value is Change {
  return typeof value === "object" && value !== null && "kind" in value && "id" in value && "mark" in value;
}

function connect(topics: string): void {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(`${scheme}//${location.host}/ws/live/?topics=${encodeURIComponent(topics)}`);
  socket.addEventListener("open", () => {
    // Also the first time: nobody was connected when something changed since the page was drawn.
    refreshAll();
    failures = 0;
    showState("on");
  });
  socket.addEventListener("message", (event: MessageEvent<string>) => {
    const message: unknown = JSON.parse(event.data);
    if (isChange(message)) apply(message);
  });
  socket.addEventListener("close", (event) => {
    showState("lost");
    // 4401 and 4403: not signed in or not a member; asking again would not help. What the page asks now leads to the sign-in.
    if (event.code === 4401 || event.code === 4403) return refreshAll();
    const wait = Math.min(WAIT_MAX_MS, 500 * 2 ** failures++);
    window.setTimeout(() => connect(topics), wait * (0.5 + Math.random() / 2));
  });
}

export function startLive(): void {
  const topics = document.body.dataset["topics"];
  if (topics) connect(topics);
  document.addEventListener("submit", left);
  document.addEventListener("htmx:beforeSend", began);
  document.addEventListener("htmx:afterRequest", ended);
  document.addEventListener("htmx:beforeSwap", keep);
  document.addEventListener("htmx:beforeSwap", hold);
  document.addEventListener("close", fetchKept, true);
  document.addEventListener("htmx:afterSettle", giveFocus);
  // Heals what was lost: an event is a hint, the page's own question is the truth.
  window.setInterval(refreshAll, POLL_MS);
  document.addEventListener("visibilitychange", refreshAll);
}

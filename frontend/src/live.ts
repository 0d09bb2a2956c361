import htmx from "htmx.org";
import { all, focusHeading, one } from "./dom";
import { holdsTyped, isText, markSent, type Text, typedSince, typeOn } from "./typed";

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
/** Where the answer of each other request under way will be put, such as that of a filter. */
const awaited = new Map<XMLHttpRequest, Element>();
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

interface Asked {
  elt: Element;
  requestConfig: { elt: Element };
  target: Element;
  xhr: XMLHttpRequest;
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
  const { elt, xhr, target } = (event as CustomEvent<Asked>).detail;
  if (elt instanceof HTMLElement && elt.matches("[data-live]")) asking.add(partOf(elt));
  else awaited.set(xhr, target);
}

function ended(event: Event): void {
  const { xhr, requestConfig } = (event as CustomEvent<Asked>).detail;
  const { elt } = requestConfig;
  awaited.delete(xhr);
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

/** Parts that changed while a dialog in them was open, text in them was not sent, or a filter of them was being answered. */
const kept = new Set<string>();

/**
 * Whether htmx will put an answer into this part, which it would lose with the element that it has chosen for it. htmx does not say
 * of every request that it is over: not when what asked is no longer in the page.
 */
const awaits = (part: Element): boolean =>
  [...awaited].some(([xhr, target]) => isUnderWay(xhr) && part.contains(target));

const isUnderWay = (xhr: XMLHttpRequest): boolean =>
  xhr.readyState !== XMLHttpRequest.UNSENT && xhr.readyState !== XMLHttpRequest.DONE;

/** Whether a refresh would take away what somebody has begun: in the part itself, or in what is selected beside it. */
function isHeld(element: HTMLElement): boolean {
  const beside = element.getAttribute("hx-select-oob")?.split(",") ?? [];
  const parts = [element, ...beside.map((each) => one(each.trim()))];
  return parts.some((part) => part && (one("dialog[open]", part) || holdsTyped(part) || awaits(part)));
}

interface Answer {
  requestConfig: { elt: Element; verb: string; formData: FormData; triggeringEvent?: Event };
  target: Element;
  shouldSwap: boolean;
  successful: boolean;
}

/**
 * The answer of a part that fetches itself is not put in its place while something in it has been begun: it is fetched again
 * later. Nor is the answer of a filter that was typed in since: its next question is on its way.
 */
function keep(event: Event): void {
  const { detail } = event as CustomEvent<Answer>;
  const { elt, verb, formData } = detail.requestConfig;
  if (elt instanceof HTMLFormElement && verb === "get" && detail.target.contains(elt)) {
    if (typedSince(elt, formData)) detail.shouldSwap = false;
    else kept.delete(detail.target.id);
  }
  if (elt instanceof HTMLFormElement && verb === "get" && isUnder(elt, detail.target)) {
    detail.shouldSwap = false;
    filters.set(elt, detail.target);
  }
  if (!(elt instanceof HTMLElement) || elt !== detail.target || elt instanceof HTMLFormElement) return;
  if (isHeld(elt)) {
    detail.shouldSwap = false;
    kept.add(partOf(elt));
  } else kept.delete(partOf(elt));
}

/** Filters whose answer came while a dialog was open in what it would have replaced, with that. */
const filters = new Map<HTMLFormElement, Element>();

/** A click that opens the dialog of a row leaves the field of the filter, which asks once more. */
const isUnder = (filter: HTMLFormElement, list: Element): boolean =>
  all("dialog[open]", list).some((dialog) => !dialog.contains(filter));

function fetchKept(): void {
  for (const [filter, list] of filters) {
    if (filter.isConnected && isUnder(filter, list)) continue;
    filters.delete(filter);
    if (filter.isConnected) htmx.trigger(filter, "change");
  }
  if (!kept.size) return;
  for (const part of all("[data-live]"))
    if (kept.has(partOf(part)) && !isHeld(part) && kept.delete(partOf(part))) refresh(part);
}

/** A form that is only tried while it is typed in has sent nothing. */
function answered(event: Event): void {
  const { requestConfig, successful } = (event as CustomEvent<Answer>).detail;
  const { elt, verb, formData, triggeringEvent } = requestConfig;
  const isSent = verb === "get" || triggeringEvent?.type === "submit";
  if (successful && isSent && elt instanceof HTMLFormElement) markSent(elt, formData);
  fetchKept();
}

const CONTROLS = "a, button, input, select, textarea, summary, [tabindex]";
interface Held {
  part: string;
  control: string;
  place: number;
  text: Text | null;
}
let held: Held | null = null;

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
  const text = isText(here) ? here : null;
  held = { part: target.id, control, place: namesakes(control, target).indexOf(here), text };
}

function giveFocus(): void {
  const part = held && document.getElementById(held.part);
  if (held && part) {
    const again = namesakes(held.control, part)[held.place];
    if (document.activeElement === document.body) {
      if (again) again.focus({ preventScroll: true });
      else focusHeading(one("h1, h2, h3", part) ? part : document);
    }
    if (held.text && isText(again) && again !== held.text) typeOn(again, held.text);
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
  document.addEventListener("htmx:afterRequest", answered);
  document.addEventListener("close", fetchKept, true);
  document.addEventListener("input", fetchKept);
  document.addEventListener("htmx:afterSettle", giveFocus);
  // Heals what was lost: an event is a hint, the page's own question is the truth.
  window.setInterval(refreshAll, POLL_MS);
  document.addEventListener("visibilitychange", refreshAll);
}

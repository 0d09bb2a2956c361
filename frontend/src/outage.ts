import { all, one } from "./dom";
import { savesItself } from "./inline";
import { refreshAll } from "./live";
import { showToast } from "./toasts";

const READY = "/health/ready";
const EVERY_MS = 5000;
let away = false;
const asking = new WeakSet<HTMLFormElement>();
const passed = new WeakSet<HTMLFormElement>();
const SENT_MS = 60_000;
const SLOW_MS = 2000;
/** On their way since, until the answer is the next page. A second press meanwhile would be a second payment. */
let sent = new WeakMap<HTMLFormElement, number>();

const TITLES = {
  database: "The portal cannot reach its database",
  silent: "The portal does not answer",
};
type Trouble = keyof typeof TITLES;

/** What a proxy says of this address counts for nothing: only that nobody answers, or that the portal itself says no. */
async function trouble(): Promise<Trouble | null> {
  try {
    return (await fetch(READY, { cache: "no-store", redirect: "manual" })).status === 503 ? "database" : null;
  } catch {
    return "silent";
  }
}

function wait(): void {
  window.setTimeout(() => {
    void trouble().then((found) => {
      if (found) return wait();
      away = false;
      for (const toast of all("[data-outage]")) toast.remove();
      refreshAll();
    });
  }, EVERY_MS);
}

/** Said once, until the portal answers again; meanwhile everything stays as it is. */
function say(found: Trouble): void {
  if (away) return;
  away = true;
  showToast({
    tone: "bad",
    title: TITLES[found],
    text: "What is shown and what you typed stays here. The portal is asked again every 5 seconds; send it again then.",
    mark: "outage",
  });
  wait();
}

function failed(event: Event): void {
  const { xhr } = (event as CustomEvent<{ xhr: XMLHttpRequest }>).detail;
  if (unanswered(xhr)) say(xhr.status === 0 ? "silent" : "database");
}

/** No answer at all, or one that says nothing but 503. */
export function unanswered(xhr: XMLHttpRequest): boolean {
  return xhr.status === 0 || (xhr.status === 503 && !xhr.getResponseHeader("HX-Trigger"));
}

/** Others post only what is typed meanwhile, for an answer beside it; the browser sends them. */
function sentByHtmx(form: HTMLFormElement): boolean {
  const trigger = form.getAttribute("hx-trigger");
  return form.hasAttribute("hx-post") && (trigger === null || trigger.includes("submit"));
}

/** Pressed again: what takes longer than a double click does is said, as the press itself shows nothing. */
function sayUnderWay(since: number): void {
  if (Date.now() - since < SLOW_MS || one("[data-under-way]")) return;
  showToast({ tone: "busy", title: "This was sent and is not answered yet", mark: "underWay" });
}

/** A form that the browser would send itself, and with it leave the page: first the portal has to be there. */
function guard(event: SubmitEvent): void {
  const form = event.target;
  if (!(form instanceof HTMLFormElement) || form.getAttribute("method")?.toLowerCase() !== "post") return;
  if (sentByHtmx(form) || form.hasAttribute("target") || passed.delete(form)) return;
  if (savesItself(form)) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const since = sent.get(form);
  if (since !== undefined) sayUnderWay(since);
  if (asking.has(form) || since !== undefined) return;
  asking.add(form);
  const by = event.submitter;
  void trouble().then((found) => {
    asking.delete(form);
    if (found) return say(found);
    passed.add(form);
    // A part of the page that was drawn anew meanwhile has taken it away.
    if (!form.isConnected) {
      form.hidden = true;
      document.body.append(form);
    }
    form.requestSubmit(by && form.contains(by) ? by : null);
    if (passed.delete(form)) return; // it was not complete
    sent.set(form, Date.now());
    window.setTimeout(() => sent.delete(form), SENT_MS);
  });
}

export function startOutage(): void {
  // What answers a form is no place to come back to: the browser would ask whether to send it once more.
  if ("posted" in document.documentElement.dataset) history.replaceState(history.state, "", location.href);
  document.addEventListener("submit", guard, true);
  const again = (): void => void (sent = new WeakMap());
  window.addEventListener("pageshow", again); // back again
  // The browser was stopped; not every one says so.
  (window as { navigation?: EventTarget }).navigation?.addEventListener("navigateerror", again);
  document.addEventListener("htmx:responseError", failed);
  document.addEventListener("htmx:sendError", failed);
}

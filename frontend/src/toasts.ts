import htmx from "htmx.org";
import { all, one, onClick } from "./dom";
import { unanswered } from "./outage";

/** What a response says in `HX-Trigger: {"toast": {"tone": "ok", "title": "…", "undo": "/…"}}`. */
export interface Toast {
  tone?: string;
  title?: string;
  text?: string;
  undo?: string;
  /** Opened in another tab. */
  link?: string;
  label?: string;
  value?: string;
  /** Stays until whoever showed it takes it away by `[data-<mark>]`. */
  mark?: string;
}

const SECONDS = 8;

function startClock(toast: HTMLElement): void {
  if (toast.hasAttribute("data-sticky") || toast.hasAttribute("data-timed")) return;
  toast.setAttribute("data-timed", "");
  let timer = 0;
  const run = (): void => {
    timer = window.setTimeout(() => toast.remove(), SECONDS * 1000);
  };
  const hold = (): void => window.clearTimeout(timer);
  toast.addEventListener("pointerenter", hold);
  toast.addEventListener("focusin", hold);
  toast.addEventListener("pointerleave", run);
  toast.addEventListener("focusout", run);
  run();
}

function glyph(tone: string): Node | null {
  const template = one<HTMLTemplateElement>(`template[data-glyph="${CSS.escape(tone)}"]`);
  return template?.content.firstElementChild?.cloneNode(true) ?? null;
}

function fill(element: HTMLElement, toast: Toast): void {
  const tone = toast.tone ?? "ok";
  element.dataset["tone"] = tone;
  element.setAttribute("role", tone === "bad" ? "alert" : "status");
  element.toggleAttribute("data-sticky", tone === "bad");
  if (toast.mark) element.dataset[toast.mark] = "";
  const mark = glyph(tone);
  if (mark) one(".g-glyph", element)?.replaceWith(mark);
  const title = one(".toast__title", element);
  if (title) title.textContent = toast.title ?? toast.value ?? "";
  if (toast.text) {
    const text = document.createElement("p");
    text.textContent = toast.text;
    title?.after(text);
  }
  if (toast.link) {
    const link = document.createElement("a");
    Object.assign(link, { href: toast.link, target: "_blank", textContent: toast.label ?? "Open" });
    title?.parentElement?.append(link);
  }
  const undo = one("form", element);
  const button = undo && one("button", undo);
  if (button && toast.undo) {
    undo.setAttribute("hx-post", toast.undo);
    button.textContent = toast.label ?? "Undo";
  } else undo?.remove();
}

export function showToast(toast: Toast): void {
  const region = document.getElementById("toasts");
  const template = one<HTMLTemplateElement>("#toast-template");
  const element = template?.content.firstElementChild?.cloneNode(true);
  if (!region || !(element instanceof HTMLElement)) return;
  fill(element, toast);
  region.append(element);
  htmx.process(element);
  startClock(element);
}

function explainFailure(event: Event): void {
  const { xhr } = (event as CustomEvent<{ xhr: XMLHttpRequest }>).detail;
  if (unanswered(xhr) || xhr.getResponseHeader("HX-Trigger")?.includes("toast")) return;
  const text =
    xhr.status === 403
      ? "You do not have permission, or the page is out of date."
      : "Try again. If the problem persists, contact your operator.";
  showToast({ tone: "bad", title: `The request failed (${xhr.status})`, text });
}

export function startToasts(): void {
  document.addEventListener("toast", (event) => showToast((event as CustomEvent<Toast>).detail));
  document.addEventListener("htmx:responseError", explainFailure);
  onClick("[data-toast-close]", (button) => button.closest(".toast")?.remove());
  document.addEventListener("submit", (event) =>
    (event.target as Element).closest(".toast")?.setAttribute("hidden", ""),
  );
  all("#toasts > .toast").forEach(startClock);
}

import { all, one } from "./dom";
import { refreshAll } from "./live";
import { showToast } from "./toasts";

const ENTERED = "form[method=post] :is(input:not([type=hidden]), textarea)";
const WARNING = "[data-signed-out]";

const hasEntries = (): boolean =>
  all<HTMLInputElement | HTMLTextAreaElement>(ENTERED).some((field) => field.value !== field.defaultValue);

/** The window is not led to the sign-in while it has what leaving would lose: that is done in another one. */
function stay(event: Event): void {
  const { xhr } = (event as CustomEvent<{ xhr: XMLHttpRequest }>).detail;
  const door = xhr.getResponseHeader("HX-Redirect");
  if (xhr.status !== 401 || !door || !(one(WARNING) || hasEntries())) return;
  event.preventDefault();
  if (one(WARNING)) return;
  showToast({
    tone: "bad",
    title: "You are signed out",
    text: "What you entered stays here. Sign in in another tab, and return to this one.",
    link: door,
    label: "Sign in",
    mark: "signedOut",
  });
}

/** Sent now, it would be lost at the sign-in. */
function hold(event: SubmitEvent): void {
  if (!one(WARNING) || (event.target as HTMLFormElement).method !== "post") return;
  event.preventDefault();
  event.stopImmediatePropagation();
}

/** Tokens of forms are of the session: those of the new one are on the page as it is now. */
async function goOn(): Promise<void> {
  if (document.hidden || !one(WARNING)) return;
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const headers = fresh.body.getAttribute("hx-headers");
  const token = one<HTMLInputElement>("[name=csrfmiddlewaretoken]", fresh)?.value;
  if (!headers || !token) return;
  document.body.setAttribute("hx-headers", headers);
  for (const field of all<HTMLInputElement>("[name=csrfmiddlewaretoken]")) field.value = token;
  one(WARNING)?.remove();
  refreshAll();
}

export function startSession(): void {
  document.addEventListener("htmx:beforeOnLoad", stay);
  document.addEventListener("submit", hold, true);
  document.addEventListener("visibilitychange", () => void goOn());
  window.addEventListener("focus", () => void goOn());
}

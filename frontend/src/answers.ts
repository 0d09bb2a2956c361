import { all, one } from "./dom";

/**
 * What the server says of a form while it is typed. `data-blocked` is a button that would be refused now: the markup leaves it
 * enabled, so that without scripts the server says why beside the fields.
 */
function block(): void {
  for (const button of all<HTMLButtonElement>("button[data-blocked]")) button.disabled = true;
}

/** A help text that came back as an error marks its field, and the other way round. */
function mark(): void {
  for (const help of all("p[id$='-help']")) {
    const field = document.getElementById(help.id.slice(0, -"-help".length));
    if (!field) continue;
    if (!help.matches(".invalid-feedback")) {
      field.removeAttribute("aria-invalid");
      continue;
    }
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", help.id);
  }
}

/**
 * `data-why`: what would be refused of the form around it, as the server answers while it is typed. `data-anytime` is a button that
 * only draws the form again, such as with more rows.
 */
function blockWhy(event: Event): void {
  const why = event.target;
  if (!(why instanceof HTMLElement) || !("why" in why.dataset)) return;
  for (const button of all<HTMLButtonElement>(
    "button[type=submit]:not([data-anytime])",
    why.closest("form") ?? why,
  )) {
    button.disabled = why.textContent?.trim() !== "";
    if (button.disabled) button.setAttribute("aria-describedby", why.id);
    else button.removeAttribute("aria-describedby");
  }
}

/** Without an answer nothing is refused: what was refused before was of another text. */
function unblock(event: Event): void {
  const why = event.target;
  if (!(why instanceof HTMLElement) || !("why" in why.dataset)) return;
  why.replaceChildren();
  blockWhy(event);
}

/** Forms that were typed in since the server last answered for them. */
const changed = new WeakSet<HTMLFormElement>();

function typed(event: Event): void {
  if (event.target instanceof HTMLInputElement && event.target.form) changed.add(event.target.form);
}

function answered(event: Event): void {
  const form = (event as CustomEvent<{ elt: Element }>).detail.elt.closest("form");
  if (form) changed.delete(form);
}

/**
 * Enter sends what was typed this moment, although the button is still disabled by the answer of what stood there before. A name
 * that has to be typed is no answer: without it, nothing is sent.
 */
function sendTyped(event: KeyboardEvent): void {
  const input = event.target;
  if (event.key !== "Enter" || !(input instanceof HTMLInputElement) || !input.form) return;
  if (input.closest("[data-confirm-name]")) return;
  const button = one<HTMLButtonElement>("button[type=submit]", input.form);
  if (!button?.disabled || !changed.has(input.form)) return;
  event.preventDefault();
  button.disabled = false;
  input.form.requestSubmit(button);
}

/** What each field was answered for by `catchUp`: an answer that keeps its field would ask for the next one without end. */
const caughtUp = new WeakMap<HTMLInputElement, string>();

/**
 * What was typed before this script ran, or before htmx knew what it has just put in its place, is answered as if it were typed
 * now.
 */
function catchUp(event: Event): void {
  if (!(event.target instanceof HTMLElement)) return;
  for (const input of all<HTMLInputElement>(
    "form[hx-trigger] input, form:has([data-why]) input",
    event.target,
  )) {
    if (!input.matches("[type=text], [type=search], :not([type])")) continue;
    if (input.value === (caughtUp.get(input) ?? input.defaultValue)) continue;
    caughtUp.set(input, input.value);
    for (const kind of ["input", "change"]) input.dispatchEvent(new Event(kind, { bubbles: true }));
  }
}

/** Fields that arrive later, such as choices that a site had to be asked for, are answered as if they were typed now. */
function arrived(event: Event): void {
  const part = event.target;
  if (!(part instanceof HTMLElement) || !one("input, select, textarea", part)) return;
  if (part.closest("form:has([data-why])")) part.dispatchEvent(new Event("input", { bubbles: true }));
}

/** A question that the next key overtakes is no error; htmx would write one to the console. */
function overtake(event: Event): void {
  const { detail } = event as CustomEvent<{ xhr: XMLHttpRequest; error?: string }>;
  const { xhr } = detail;
  const ended = xhr.onabort;
  xhr.onabort = (aborted) => {
    detail.error = "";
    ended?.call(xhr, aborted);
  };
}

const remembered = new WeakMap<Element, string>();

/** `[data-moment]`: a date that is typed is the choice; another choice puts it aside until the one of a date is made again. */
function chooseMoment(event: Event): void {
  const input = event.target;
  const group = input instanceof HTMLInputElement ? input.closest("[data-moment]") : null;
  const day = group && one<HTMLInputElement>("input[type=datetime-local]", group);
  const onDate = group && one<HTMLInputElement>("input[type=radio][value=date]", group);
  if (!(input instanceof HTMLInputElement) || !group || !day || !onDate) return;
  if (input === day) {
    if (!day.value && !day.validity.badInput) return;
    const half = !onDate.checked && !day.value;
    onDate.checked = true;
    if (half) day.dispatchEvent(new Event("input", { bubbles: true }));
  } else if (input === onDate) {
    if (!day.value) day.value = remembered.get(group) ?? "";
  } else if (day.value) {
    remembered.set(group, day.value);
    day.value = "";
  }
}

export function startAnswers(): void {
  block();
  document.addEventListener("htmx:beforeSend", overtake);
  document.addEventListener("htmx:afterSwap", block);
  document.addEventListener("htmx:afterSwap", blockWhy);
  document.addEventListener("htmx:responseError", unblock);
  document.addEventListener("htmx:sendError", unblock);
  document.addEventListener("htmx:afterSwap", answered);
  document.addEventListener("htmx:afterSwap", arrived);
  document.addEventListener("htmx:load", catchUp);
  document.addEventListener("input", typed);
  document.addEventListener("keydown", sendTyped);
  document.addEventListener("htmx:oobAfterSwap", block);
  document.addEventListener("htmx:afterSettle", mark);
  document.addEventListener("input", chooseMoment);
  document.addEventListener("keyup", chooseMoment);
}

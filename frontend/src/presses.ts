/**
 * What a press sends by htmx is sent once while it is under way with the same entries; where only a message answers, also until
 * the part around it has fetched itself. htmx would send the second press after the first, and its answer would be that there is
 * nothing left to do.
 */
const sent = new WeakMap<Element, string>();
const KEPT_MS = 10_000;

interface Press {
  elt: Element;
  verb: string;
  triggeringEvent?: Event;
}

const isPress = ({ verb, triggeringEvent }: Press): boolean =>
  verb === "post" && /^(submit|click)$/.test(triggeringEvent?.type ?? "");

function entries(element: Element): string {
  const form = element.closest("form");
  return form ? JSON.stringify([...new FormData(form)].map(([name, value]) => [name, String(value)])) : "";
}

function drop(event: Event): void {
  const { detail } = event as CustomEvent<Press>;
  if (isPress(detail) && sent.get(detail.elt) === entries(detail.elt)) event.preventDefault();
}

function began(event: Event): void {
  const { requestConfig } = (event as CustomEvent<{ requestConfig: Press }>).detail;
  if (isPress(requestConfig)) sent.set(requestConfig.elt, entries(requestConfig.elt));
}

function ended(event: Event): void {
  const { requestConfig, successful } = (event as CustomEvent<{ requestConfig: Press; successful: boolean }>)
    .detail;
  const { elt } = requestConfig;
  if (!isPress(requestConfig)) return;
  if (successful && elt.getAttribute("hx-swap") === "none")
    window.setTimeout(() => sent.delete(elt), KEPT_MS);
  else sent.delete(elt);
}

export function startPresses(): void {
  document.addEventListener("htmx:confirm", drop);
  document.addEventListener("htmx:beforeSend", began);
  document.addEventListener("htmx:afterRequest", ended);
}

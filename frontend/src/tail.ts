import { all, one } from "./dom";

/** Where the reader of each log is; null at its end, which is followed as it grows. */
const places = new Map<string, number | null>();
const NEAR = 8;

function eachLog(act: (text: HTMLElement, log: string) => void): void {
  for (const log of all("[data-tail]")) {
    const text = one("pre", log);
    if (text) act(text, log.id);
  }
}

function remember(): void {
  eachLog((text, log) => {
    const isEnd = text.scrollTop + text.clientHeight > text.scrollHeight - NEAR;
    places.set(log, isEnd ? null : text.scrollTop);
  });
}

function restore(): void {
  eachLog((text, log) => {
    text.scrollTop = places.get(log) ?? text.scrollHeight;
  });
}

export function startTail(): void {
  document.addEventListener("htmx:beforeSwap", remember);
  document.addEventListener("htmx:afterSettle", restore);
  restore();
}

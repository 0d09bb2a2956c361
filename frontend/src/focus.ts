import { focusHeading, one } from "./dom";

/**
 * Where a page begins for whoever uses keys: a link or a form of the page before leads to its heading, a refused form to the
 * first field that is wrong. A page that was entered by its address, or by Back, stays as the browser has it.
 */
export function startFocus(): void {
  const [entry] = performance.getEntriesByType("navigation");
  const came = entry instanceof PerformanceNavigationTiming ? entry.type : "navigate";
  const within = document.referrer.startsWith(`${location.origin}/`);
  if (came !== "navigate" || !within || location.hash || document.activeElement !== document.body) return;
  const wrong = "posted" in document.documentElement.dataset && one("main [aria-invalid=true]");
  if (wrong) wrong.focus();
  else focusHeading();
}

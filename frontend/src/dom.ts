/** Typed queries; everything is delegated from the document, so swapped-in markup needs no wiring. */
export function one<T extends Element = HTMLElement>(
  selector: string,
  root: ParentNode = document,
): T | null {
  return root.querySelector<T>(selector);
}

export function all<T extends Element = HTMLElement>(selector: string, root: ParentNode = document): T[] {
  return [...root.querySelectorAll<T>(selector)];
}

/** The handler gets the matching ancestor of what was clicked. */
export function onClick(selector: string, handler: (element: HTMLElement, event: MouseEvent) => void): void {
  document.addEventListener("click", (event) => {
    const element = event.target instanceof Element ? event.target.closest<HTMLElement>(selector) : null;
    if (element) handler(element, event);
  });
}

/** Of the page or of one of its parts: from there Tab leads to what stands below it. */
export function focusHeading(root: ParentNode = document): void {
  const heading = one(root === document ? "main h1" : "h1, h2, h3", root);
  if (!heading) return;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}

export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable ||
      /^(TEXTAREA|SELECT)$/.test(target.tagName) ||
      (target instanceof HTMLInputElement && !/^(checkbox|radio|button|submit)$/.test(target.type)))
  );
}

export function icon(name: string): SVGSVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("class", "g-icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `${document.body.dataset["sprite"] ?? ""}#${name}`);
  svg.append(use);
  return svg;
}

/** Storage can be refused by the browser; a preference is then simply not kept. */
export const kept = {
  get(key: string): string | null {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  },
  set(key: string, value: string): void {
    try {
      localStorage.setItem(key, value);
    } catch {
      /* not kept */
    }
  },
};

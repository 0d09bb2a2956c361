import { all, isTyping } from "./dom";

export type Text = HTMLInputElement | HTMLTextAreaElement;

/** What was last sent of a field that the answer left in its place. */
const sent = new WeakMap<Text, string>();

export const isText = (element: Element | null | undefined): element is Text =>
  (element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement) && isTyping(element);

const texts = (root: ParentNode): Text[] => all("input, textarea", root).filter(isText);

const isUnsent = (text: Text): boolean =>
  text.checkVisibility() &&
  (text.validity.badInput || text.value.trim() !== (sent.get(text) ?? text.defaultValue).trim());

/** Whether something that one sees in this part was typed and not sent yet. */
export const holdsTyped = (part: ParentNode): boolean => texts(part).some(isUnsent);

export const typedSince = (form: HTMLFormElement, data: FormData): boolean =>
  texts(form).some((text) => text.name && text.value !== (data.get(text.name) ?? ""));

export function markSent(form: HTMLFormElement, data: FormData): void {
  for (const text of texts(form)) {
    const value = text.name ? data.get(text.name) : null;
    if (typeof value === "string") sent.set(text, value);
  }
}

/** The caret stays where it is, and so does a space at the end of a text, which the portal does not send back. */
export function typeOn(text: Text, before: Text): void {
  if (text.value === before.value.trim()) text.value = before.value;
  if (before.selectionStart !== null && text === document.activeElement)
    text.setSelectionRange(before.selectionStart, before.selectionEnd);
}

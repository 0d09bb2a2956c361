/**
 * `[data-inline]` is an editor that stands where its value stood: what is typed takes the place of the old value, Enter saves
 * it (by its form, or as a change), Escape puts the old value back.
 */
const inline = (target: EventTarget | null): HTMLInputElement | null =>
  target instanceof HTMLInputElement && target.matches("[data-inline]") ? target : null;

let entered: HTMLInputElement | null = null;

/** Not where something was typed already: a window that comes back to the front must not select it. */
function open(event: FocusEvent): void {
  const input = inline(event.target);
  if (!input || input.value !== input.defaultValue) return;
  input.select();
  entered = input;
}

/** The click that brought the focus has put a caret where the selection was. */
function keepSelected(event: MouseEvent): void {
  const input = inline(event.target);
  if (input && input === entered && input.selectionStart === input.selectionEnd) input.select();
  entered = null;
}

function restore(event: KeyboardEvent): void {
  const input = inline(event.target);
  if (event.key !== "Escape" || !input || input.value === input.defaultValue) return;
  input.value = input.defaultValue;
  input.select();
  event.preventDefault();
}

/** Enter has saved it as a change; its form is sent only where no script does. */
export const savesItself = (form: Element): boolean => form.querySelector("[data-inline][hx-post]") !== null;

function keepPage(event: SubmitEvent): void {
  if (event.target instanceof Element && savesItself(event.target)) event.preventDefault();
}

export function startInline(): void {
  document.addEventListener("submit", keepPage);
  document.addEventListener("focusin", open);
  document.addEventListener("click", keepSelected);
  document.addEventListener("keydown", restore);
}

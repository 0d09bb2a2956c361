import { onClick } from "./dom";
import { showToast } from "./toasts";

async function copyText(button: HTMLElement): Promise<void> {
  const label = button.getAttribute("aria-label") ?? "Copy";
  try {
    await navigator.clipboard.writeText(button.dataset["copy"] ?? "");
  } catch {
    showToast({
      tone: "bad",
      title: "Copying failed",
      text: "The browser did not allow it. Select the text and copy it yourself.",
    });
    return;
  }
  button.setAttribute("data-copied", "");
  button.setAttribute("aria-label", "Copied");
  window.setTimeout(() => {
    button.removeAttribute("data-copied");
    button.setAttribute("aria-label", label);
  }, 1600);
}

export function startCopy(): void {
  onClick("[data-copy]", (button) => void copyText(button));
}

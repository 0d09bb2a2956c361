import { onClick } from "./dom";

const dark = matchMedia("(prefers-color-scheme: dark)");

function current(): "light" | "dark" {
  const chosen = document.documentElement.dataset["bsTheme"];
  return chosen === "light" || chosen === "dark" ? chosen : dark.matches ? "dark" : "light";
}

function announce(): void {
  document.dispatchEvent(new CustomEvent("theme"));
}

/** A cookie, so that the server draws the next page in it: no flash and no script in the head. */
export function toggleTheme(): void {
  const next = current() === "dark" ? "light" : "dark";
  document.documentElement.dataset["bsTheme"] = next;
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `theme=${next}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  announce();
}

export function startTheme(): void {
  onClick("[data-theme-toggle]", toggleTheme);
  dark.addEventListener("change", announce);
}

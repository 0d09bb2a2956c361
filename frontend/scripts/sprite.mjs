// Builds one SVG sprite from the icons the console names. Add a name here to use it in a template.
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const icons = join(root, "node_modules/@tabler/icons/icons/outline");
const names = readFileSync(join(root, "icons.txt"), "utf8").split(/\s+/).filter(Boolean).sort();

const symbols = names.map((name) => {
  const svg = readFileSync(join(icons, `${name}.svg`), "utf8");
  const inner = svg.slice(svg.indexOf(">", svg.indexOf("<svg")) + 1, svg.lastIndexOf("</svg>"));
  return `<symbol id="${name}" viewBox="0 0 24 24">${inner.replace(/\s*\n\s*/g, "")}</symbol>`;
});
writeFileSync(
  join(root, "src/sprite.svg"),
  `<svg xmlns="http://www.w3.org/2000/svg">${symbols.join("")}</svg>\n`,
);

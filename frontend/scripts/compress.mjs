// Beside each built text file its .br and .gz, which the server sends to whoever takes them.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const assets = join(dirname(dirname(fileURLToPath(import.meta.url))), "static/frontend/assets");
for (const name of readdirSync(assets).filter((file) => /\.(js|css|svg)$/.test(file))) {
  const file = join(assets, name);
  const text = readFileSync(file);
  const smaller = {
    br: brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: text.length } }),
    gz: gzipSync(text, { level: 9 }),
  };
  for (const [ending, found] of Object.entries(smaller))
    if (found.length < text.length) writeFileSync(`${file}.${ending}`, found);
}

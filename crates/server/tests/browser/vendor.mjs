// Copies the page's libraries from node_modules into `page/vendor` and writes `VERSIONS` with their checksums.
//
// Run after changing a version in package.json: `npm ci && node vendor.mjs`. `--check` only compares what lies in
// `page/vendor` with `VERSIONS`. The one edit made to any file is the import of preact in hooks.js, because a page
// without inline scripts can have no import map.

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const vendor = join(here, "../../page/vendor");
const languages = [
  "cmake",
  "dockerfile",
  "elixir",
  "glsl",
  "haskell",
  "julia",
  "latex",
  "nginx",
  "nix",
  "powershell",
  "scala",
];

/** Package, file in it, name in `vendor`. */
const files = [
  ["preact", "dist/preact.mjs", "preact.js"],
  ["preact", "hooks/dist/hooks.mjs", "hooks.js"],
  ["preact", "LICENSE", "licenses/preact.txt"],
  ["htm", "dist/htm.mjs", "htm.js"],
  ["htm", "LICENSE", "licenses/htm.txt"],
  ["marked", "lib/marked.esm.js", "marked.js"],
  ["marked", "LICENSE", "licenses/marked.txt"],
  ["dompurify", "dist/purify.min.js", "purify.js"],
  ["dompurify", "LICENSE", "licenses/dompurify.txt"],
  ["@highlightjs/cdn-assets", "es/highlight.min.js", "highlight/highlight.js"],
  ...languages.map((l) => ["@highlightjs/cdn-assets", `es/languages/${l}.min.js`, `highlight/${l}.js`]),
  ["@highlightjs/cdn-assets", "LICENSE", "licenses/highlight.txt"],
  ["katex", "dist/katex.min.js", "katex/katex.js"],
  ["katex", "dist/katex.min.css", "katex/katex.css"],
  ["katex", "LICENSE", "licenses/katex.txt"],
  ["@fontsource-variable/ibm-plex-sans", "files/ibm-plex-sans-latin-wght-normal.woff2", "fonts/plex-sans.woff2"],
  ["@fontsource-variable/ibm-plex-sans", "files/ibm-plex-sans-latin-wght-italic.woff2", "fonts/plex-sans-italic.woff2"],
  ["@fontsource-variable/ibm-plex-sans", "LICENSE", "licenses/ibm-plex-sans.txt"],
  ["@fontsource/ibm-plex-mono", "files/ibm-plex-mono-latin-400-normal.woff2", "fonts/plex-mono.woff2"],
  ["@fontsource/ibm-plex-mono", "files/ibm-plex-mono-latin-600-normal.woff2", "fonts/plex-mono-600.woff2"],
  ["@fontsource/ibm-plex-mono", "LICENSE", "licenses/ibm-plex-mono.txt"],
];

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

function copy() {
  rmSync(vendor, { recursive: true, force: true });
  const modules = join(here, "node_modules");
  const fonts = readdirSync(join(modules, "katex/dist/fonts")).filter((f) => f.endsWith(".woff2"));
  const all = [...files, ...fonts.map((f) => ["katex", `dist/fonts/${f}`, `katex/fonts/${f}`])];
  const lines = all.map(([name, from, to]) => {
    let bytes = readFileSync(join(modules, name, from));
    if (to === "hooks.js") bytes = Buffer.from(bytes.toString().replace('from"preact"', 'from"./preact.js"'));
    mkdirSync(dirname(join(vendor, to)), { recursive: true });
    writeFileSync(join(vendor, to), bytes);
    const { version } = JSON.parse(readFileSync(join(modules, name, "package.json")));
    return `${sha256(bytes)}  ${to}  ${name}@${version}`;
  });
  writeFileSync(join(vendor, "VERSIONS"), lines.join("\n") + "\n");
}

/** Files that differ from `VERSIONS`, are missing, or are not in it. */
export function check() {
  const listed = readFileSync(join(vendor, "VERSIONS"), "utf8")
    .trim()
    .split("\n")
    .map((line) => line.split(/ +/));
  const wrong = listed.filter(([sum, path]) => {
    try {
      return sha256(readFileSync(join(vendor, path))) !== sum;
    } catch {
      return true;
    }
  });
  const known = new Set(listed.map(([, path]) => path));
  const present = readdirSync(vendor, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(vendor.length + 1))
    .filter((path) => path !== "VERSIONS" && !known.has(path));
  return [...wrong.map(([, path]) => path), ...present];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (!process.argv.includes("--check")) copy();
  const wrong = check();
  console.log(wrong.length === 0 ? "vendored files match VERSIONS" : `differ from VERSIONS: ${wrong.join(", ")}`);
  process.exitCode = wrong.length === 0 ? 0 : 1;
}

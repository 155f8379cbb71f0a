// Colours for code: highlight.js, loaded when the first code block appears; less common languages on demand.

import { safeCode } from "./sanitise.js";

/** Beyond this, colouring costs more than it gives. */
const CODE_CHARS_MAX = 60_000;
const MORE = {
  cmake: "cmake",
  docker: "dockerfile",
  dockerfile: "dockerfile",
  elixir: "elixir",
  ex: "elixir",
  glsl: "glsl",
  comp: "glsl",
  haskell: "haskell",
  hs: "haskell",
  julia: "julia",
  jl: "julia",
  latex: "latex",
  tex: "latex",
  nginx: "nginx",
  nix: "nix",
  powershell: "powershell",
  ps1: "powershell",
  scala: "scala",
};
/** Names that highlight.js does not know for languages close to ones that it does. */
const ALIASES = {
  metal: "cpp",
  cuda: "cpp",
  hlsl: "glsl",
  wgsl: "rust",
  vue: "xml",
  svelte: "xml",
  jsonc: "json",
  zig: "rust",
};

let hljs = null;
let loading = null;

/** The first word of a fence's info string, as a language. */
export function languageOf(info) {
  const word = (info ?? "")
    .trim()
    .split(/[\s,{]/)[0]
    .toLowerCase();
  return ALIASES[word] ?? word;
}

/** Coloured nodes of `code`, or null if it has no known language, is too long, or the library is still loading. */
export function highlighted(code, language, whenReady) {
  if (!language || code.length > CODE_CHARS_MAX) return null;
  if (!hljs || (!hljs.getLanguage(language) && MORE[language])) {
    load(language).then(
      (ready) => ready && whenReady?.(),
      () => {},
    );
    return null;
  }
  if (!hljs.getLanguage(language)) return null;
  return safeCode(hljs.highlight(code, { language, ignoreIllegals: true }).value);
}

async function load(language) {
  loading ??= import("../vendor/highlight/highlight.js");
  hljs = (await loading).default;
  const file = MORE[language];
  if (file && !hljs.getLanguage(file)) {
    const grammar = await import(`../vendor/highlight/${file}.js`);
    hljs.registerLanguage(file, grammar.default);
  }
  return Boolean(hljs.getLanguage(language));
}

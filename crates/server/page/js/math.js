// Formulas: KaTeX, loaded when the first one appears, writing nodes and never markup.

const OPTIONS = {
  throwOnError: false,
  strict: "ignore",
  trust: false,
  maxSize: 20,
  maxExpand: 200,
  errorColor: "var(--bad)",
};
/** Longest formula that is typeset. */
const TEX_CHARS_MAX = 10_000;
const CACHED_MAX = 500;

let katex = null;
let loading = null;
/** Typeset formulas by display mode and source, so that a growing paragraph clones instead of typesetting again. */
const cache = new Map();

/** Typesets the placeholders below `root`; those that wait for the library are typeset when it has come. */
export function typeset(root) {
  const places = [...root.querySelectorAll(".math[data-tex]")].filter(
    (place) => place.dataset.tex.length <= TEX_CHARS_MAX,
  );
  if (places.length === 0) return;
  if (katex) places.forEach(fill);
  else
    load().then(
      () => places.forEach(fill),
      () => {},
    );
}

function load() {
  loading ??= import("../vendor/katex/katex.js").then(() => {
    katex = window.katex;
    const sheet = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "vendor/katex/katex.css" });
    document.head.append(sheet);
  });
  return loading;
}

function fill(place) {
  const { tex, display } = place.dataset;
  const key = `${display ?? ""}:${tex}`;
  let made = cache.get(key);
  if (!made) {
    made = document.createElement("span");
    try {
      made.append(nodesFrom(katex.__renderToDomTree(tex, { ...OPTIONS, displayMode: Boolean(display) })));
    } catch {
      // Not a TeX error (those are shown in place): leave the source as it is.
      made.append(tex);
    }
    if (cache.size >= CACHED_MAX) cache.delete(cache.keys().next().value);
    cache.set(key, made);
  }
  place.replaceChildren(...made.cloneNode(true).childNodes);
}

/**
 * KaTeX's tree as nodes. A few of its nodes (wide arrows, rules) carry a `style` attribute as text, which a policy
 * without inline styles refuses; they travel under another name and are then set as styles, which it allows.
 */
function nodesFrom(tree) {
  renameStyles(tree);
  const root = document.createElement("span");
  root.append(tree.toNode());
  for (const node of root.querySelectorAll("[data-style]")) {
    node.style.cssText = node.getAttribute("data-style");
    node.removeAttribute("data-style");
  }
  return root.firstChild;
}

function renameStyles(node) {
  if (node.attributes?.style) {
    node.attributes["data-style"] = node.attributes.style;
    delete node.attributes.style;
  }
  for (const child of node.children ?? []) renameStyles(child);
}

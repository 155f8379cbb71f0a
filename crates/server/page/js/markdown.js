// Markdown to safe nodes: GFM by marked, mathematics as placeholders that math.js fills, no images.

import { Marked } from "../vendor/marked.js";
import { safeFragment } from "./sanitise.js";

const escape = (text) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

/** Opening and closing of block mathematics, at the start of a line. */
const BLOCK_MATH = /^ {0,3}(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\]) *(?:\n|$)/;
/** Inline: `\(x\)`, `\[x\]`, `$$x$$`, and `$x$` where the dollars hug and no digit follows, so that prices stay prices. */
const INLINE_MATH =
  /^(?:\\\(([\s\S]+?)\\\)|\\\[([\s\S]+?)\\\]|\$\$([^$]+?)\$\$|\$(?!\s)((?:\\.|[^$\\\n])+?)(?<!\s)\$(?!\d))/;

const math = (level, name, start, rule) => ({
  name,
  level,
  start: (text) => {
    const at = text.search(start);
    return at < 0 ? undefined : at;
  },
  tokenizer(text) {
    const match = rule.exec(text);
    if (!match) return undefined;
    const tex = match
      .slice(1)
      .find((group) => group !== undefined)
      .trim();
    const display = level === "block" || /^(\$\$|\\\[)/.test(match[0]);
    return { type: name, raw: match[0], tex, display };
  },
  renderer({ tex, display, raw }) {
    const tag = level === "block" ? "div" : "span";
    return `<${tag} class="math" data-tex="${escape(tex)}"${display ? ' data-display="1"' : ""}>${escape(raw.trim())}</${tag}>`;
  },
});

const marked = new Marked({
  gfm: true,
  extensions: [
    math("block", "blockMath", /(?:^|\n) {0,3}(?:\$\$|\\\[)/, BLOCK_MATH),
    math("inline", "inlineMath", /\$|\\\(|\\\[/, INLINE_MATH),
  ],
  renderer: {
    // An image would let the answer call out to another host: show where it points instead.
    image({ href, text, tokens }) {
      const label = (tokens ? this.parser.parseInline(tokens, this.parser.textRenderer) : text) || "image";
      const title = escape(`Images are not loaded. Open ${href}`);
      return `<a class="remote-image" href="${escape(href)}" title="${title}">${escape(label)}</a>`;
    },
    code({ text, lang }) {
      return `<pre data-language="${escape(lang ?? "")}"><code>${escape(text)}\n</code></pre>`;
    },
  },
});

/** Top-level tokens of a text; `links` are its reference definitions. */
export function lex(text) {
  return marked.lexer(text);
}

/** The nodes of one top-level token. */
export function nodesOf(token, links) {
  const tokens = [token];
  tokens.links = links;
  return safeFragment(marked.parser(tokens));
}

/**
 * Closes what an unfinished paragraph has left open (`**bold`, a code span), so that the markers do not flash while the
 * rest is on its way.
 */
export function completed(text) {
  const ticks = text.match(/(?<!`)`(?!`)/g)?.length ?? 0;
  if (ticks % 2 === 1) return text.endsWith("`") ? text.slice(0, -1) : `${text}\``;
  const bare = text.replace(/`[^`]*`/g, "");
  const stars = bare.match(/\*\*/g)?.length ?? 0;
  if (stars % 2 === 1)
    return /\*\*\s*$/.test(text) ? text.replace(/\*\*\s*$/, "") : `${text.replace(/\*$/, "").trimEnd()}**`;
  return text.replace(/(^|\s)\*{1,2}$/, "$1");
}

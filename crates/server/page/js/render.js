// Markdown that grows: only the end of the text is parsed and drawn again.
//
// A text is a row of top-level blocks. What is appended can change only the last of them (a paragraph becomes a table, a
// list goes on after a blank line), so all but the last two are settled: they are neither lexed nor touched again until
// the text is complete. Then the whole is lexed once more, because a link may be defined after its use.

import { CodeBlock, dressCode } from "./codeblock.js";
import { completed, lex, nodesOf } from "./markdown.js";
import { typeset } from "./math.js";
import { morph } from "./morph.js";

export class MarkdownView {
  constructor(element) {
    this.element = element;
    this.text = "";
    this.final = false;
    /** Blocks on screen: `{ raw, element, code }`. */
    this.blocks = [];
    /** How many of them are settled, and how many characters they cover. */
    this.settled = 0;
    this.settledChars = 0;
  }

  /** Shows `text`; `final` when no more will come. */
  update(text, final) {
    if (text === this.text && final === this.final) return;
    if (final || !text.startsWith(this.text)) {
      this.settled = 0;
      this.settledChars = 0;
    }
    this.text = text;
    this.final = final;
    const tokens = lex(text.slice(this.settledChars));
    const shown = tokens.filter((token) => token.type !== "space" && token.type !== "def");
    shown.forEach((token, i) => this.draw(this.settled + i, token, tokens.links, final || i < shown.length - 1));
    for (const block of this.blocks.splice(this.settled + shown.length)) block.element.remove();
    if (!final) this.settle(tokens);
  }

  draw(i, token, links, closed) {
    const old = this.blocks[i];
    const isCode = token.type === "code";
    if (old && old.raw === token.raw && old.closed === closed && !closed) return;
    if (old && old.raw === token.raw && old.closed && old.links === linksKey(links)) return;
    const block =
      old && Boolean(old.code) === isCode && old.info === token.lang ? old : this.place(i, isCode, token.lang);
    Object.assign(block, { raw: token.raw, closed, links: linksKey(links) });
    if (isCode) {
      block.code.update(token.text, closed);
      return;
    }
    const nodes = document.createElement("div");
    nodes.append(nodesOf(closed ? token : this.preview(token), links));
    dressCode(nodes);
    typeset(nodes);
    wrapTables(nodes);
    morph(block.element, nodes);
  }

  /** A fresh element for block `i`. */
  place(i, isCode, info) {
    const block = { code: isCode ? new CodeBlock(info) : null, info };
    block.element = block.code?.element ?? document.createElement("div");
    block.element.classList.add("block");
    if (this.blocks[i]) this.blocks[i].element.replaceWith(block.element);
    else this.element.append(block.element);
    this.blocks[i] = block;
    return block;
  }

  /** The last paragraph as it will probably read. */
  preview(token) {
    if (token.type !== "paragraph") return token;
    const raw = completed(token.raw);
    return raw === token.raw ? token : (lex(raw)[0] ?? token);
  }

  settle(tokens) {
    const solid = tokens
      .map((token, i) => ({ token, i }))
      .filter(({ token }) => token.type !== "space" && token.type !== "def");
    if (solid.length < 3) return;
    const from = solid[solid.length - 2].i;
    this.settledChars += tokens.slice(0, from).reduce((sum, token) => sum + token.raw.length, 0);
    this.settled += solid.length - 2;
  }
}

function linksKey(links) {
  return Object.keys(links ?? {}).join("\n");
}

/** Wide tables scroll by themselves, not the page. */
function wrapTables(root) {
  for (const table of root.querySelectorAll("table")) {
    const frame = document.createElement("div");
    frame.className = "table";
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", "Table");
    table.replaceWith(frame);
    frame.append(table);
  }
}

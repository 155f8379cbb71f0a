// A block of code: its language, a copy button, colours that follow while it streams.

import { highlighted, languageOf } from "./highlight.js";

/** How often a growing block is coloured anew; between, new text is appended plain. */
const RECOLOUR_MS = 160;

export class CodeBlock {
  constructor(info) {
    this.language = languageOf(info);
    this.text = "";
    this.coloured = 0;
    this.colouredAt = 0;
    this.code = document.createElement("code");
    const pre = document.createElement("pre");
    pre.tabIndex = 0;
    pre.append(this.code);
    this.element = document.createElement("div");
    this.element.className = "code";
    this.element.append(head((info ?? "").trim().split(/\s/)[0]), pre);
  }

  /** Shows `text`; `final` when no more will come. */
  update(text, final) {
    const grown = text.startsWith(this.text);
    const before = this.text.length;
    this.text = text;
    const due = final ? this.coloured !== text.length : performance.now() - this.colouredAt > RECOLOUR_MS;
    if (due || !grown) {
      if (this.colour()) return;
    }
    if (!grown) this.code.textContent = text;
    else if (text.length > before) appendText(this.code, text.slice(before));
  }

  colour() {
    const nodes = highlighted(this.text, this.language, () => this.colour());
    this.colouredAt = performance.now();
    if (!nodes) return false;
    this.code.replaceChildren(nodes);
    this.coloured = this.text.length;
    return true;
  }
}

/** Gives code blocks inside other blocks (lists, quotes) the same dress. */
export function dressCode(root) {
  for (const pre of root.querySelectorAll("pre")) {
    const block = new CodeBlock(pre.dataset.language);
    block.update(pre.textContent.replace(/\n$/, ""), true);
    pre.replaceWith(block.element);
  }
}

function appendText(code, text) {
  if (code.lastChild?.nodeType === Node.TEXT_NODE) code.lastChild.appendData(text);
  else code.append(text);
}

function head(name) {
  const bar = document.createElement("div");
  bar.className = "code-head";
  const label = document.createElement("span");
  label.textContent = name || "text";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet small";
  button.dataset.copyCode = "";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy code");
  bar.append(label, button);
  return bar;
}

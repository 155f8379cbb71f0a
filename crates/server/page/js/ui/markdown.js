// A growing Markdown text as a view: the nodes below it belong to render.js alone.

import { html, useLayoutEffect, useRef } from "./base.js";
import { MarkdownView } from "../render.js";

export function Markdown({ text, final }) {
  const element = useRef(null);
  const view = useRef(null);
  useLayoutEffect(() => {
    view.current ??= new MarkdownView(element.current);
    view.current.update(text, final);
  }, [text, final]);
  return html`<div class=${final ? "prose" : "prose growing"} ref=${element}></div>`;
}

// A modal panel: the browser's own dialog, so that focus stays inside, Escape closes, and focus returns.

import { html, useLayoutEffect, useRef } from "./base.js";
import { closePanel } from "../store.js";
import { IconButton } from "./icons.js";

export function Panel({ title, kind = "", children }) {
  const dialog = useRef(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    const element = dialog.current;
    if (!element.open) element.showModal();
    return () => {
      element.close();
      before?.focus?.();
    };
  }, []);
  // A click on the dialog itself, not on what it holds, is one on the backdrop.
  const outside = (event) => {
    if (event.target === dialog.current) closePanel();
  };
  return html`<dialog ref=${dialog} class=${`panel ${kind}`} aria-labelledby="panel-title" onMouseDown=${outside}
    onCancel=${(e) => {
      e.preventDefault();
      closePanel();
    }}>
    <div class="panel-inner">
      <header class="panel-head">
        <h2 id="panel-title">${title}</h2><${IconButton} icon="close" label="Close" onClick=${closePanel} />
      </header>
      <div class="panel-body">${children}</div>
    </div>
  </dialog>`;
}

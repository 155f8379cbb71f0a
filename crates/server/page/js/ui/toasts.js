// Short messages at the bottom; each can carry one action.

import { html } from "./base.js";
import { dismiss } from "../store.js";
import { IconButton } from "./icons.js";

export function Toasts({ toasts }) {
  return html`<div class="toasts" role="region" aria-label="Messages" aria-live="polite">
    ${toasts.map(
      ({ id, text, action, kind }) => html`<div key=${id} class=${`toast ${kind}`}>
      <span>${text}</span>
      ${
        action &&
        html`<button type="button" class="quiet" onClick=${() => {
          dismiss(id);
          action.run();
        }}>${action.label}</button>`
      }
      <${IconButton} icon="close" label="Dismiss" onClick=${() => dismiss(id)} />
    </div>`,
    )}
  </div>`;
}

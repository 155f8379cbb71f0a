// What went wrong with an answer, and the buttons that help.

import { html, useEffect, useState } from "./base.js";
import { regenerate, trimAndRetry } from "../generate.js";
import { openPanel } from "../store.js";
import { Icon } from "./icons.js";

/** After so many refusals in a row the page waits to be told. */
const TRIES_MAX = 8;

export function Fault({ conversation, message, last }) {
  const { title, detail, actions, wait, at } = message.error;
  // Only the end of the branch tries by itself: an older message would move the reader to another branch.
  const until = wait && last && (message.tries ?? 0) < TRIES_MAX ? at + wait * 1000 : 0;
  const buttons = {
    retry: () => html`<${Retry} key=${until} until=${until} run=${() => regenerate(conversation, message)} />`,
    key: () => html`<button type="button" onClick=${() => openPanel("key")}>Enter key</button>`,
    models: () => html`<button type="button" onClick=${() => openPanel("models")}>Choose a model</button>`,
    trim: () =>
      html`<button type="button" onClick=${() => trimAndRetry(conversation, message)}>Leave out the oldest turns</button>`,
    settings: () => html`<button type="button" onClick=${() => openPanel("settings")}>Settings</button>`,
  };
  return html`<div class="fault" role="group" aria-label="Error">
    <${Icon} name="warning" />
    <div>
      <p class="fault-title">${title}</p>
      <p>${detail}</p>
      ${actions.length > 0 && html`<p class="fault-actions">${actions.map((name) => buttons[name]?.())}</p>`}
    </div>
  </div>`;
}

/** Tries again when pressed; if the server has named a time, by itself when that has passed. */
function Retry({ until, run }) {
  const [left, setLeft] = useState(Math.max(0, Math.ceil((until - Date.now()) / 1000)));
  const [waiting, setWaiting] = useState(left > 0);
  useEffect(() => {
    if (!waiting) return undefined;
    const timer = setInterval(() => {
      const seconds = Math.ceil((until - Date.now()) / 1000);
      setLeft(Math.max(0, seconds));
      if (seconds <= 0) {
        setWaiting(false);
        run();
      }
    }, 250);
    return () => clearInterval(timer);
  }, [waiting]);
  return html`<span class="retry">
    <button type="button" onClick=${run}>${waiting ? "Try now" : "Try again"}</button>
    ${
      waiting &&
      html`<span class="faint tabular">again in ${left} s</span>
      <button type="button" class="quiet" onClick=${() => setWaiting(false)}>Don’t</button>`
    }
  </span>`;
}

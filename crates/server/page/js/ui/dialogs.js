// The help sheet and the question for an API key.

import { html, useRef } from "./base.js";
import { SHORTCUTS, shown } from "../keys.js";
import { refresh } from "../models.js";
import { apiKey, setApiKey } from "../settings.js";
import { closePanel } from "../store.js";
import { Panel } from "./panel.js";

export function HelpPanel({ state }) {
  return html`<${Panel} title="Keyboard">
    <dl class="shortcuts">${SHORTCUTS.map(
      ({ keys, label }) => html`<div key=${label}>
      <dt>${label}</dt><dd>${shown(keys).map((key) => html`<kbd key=${key}>${key}</kbd>`)}</dd></div>`,
    )}
    </dl>
    <p class="faint">ZINC${state.server.version ? ` ${state.server.version}` : ""}. Chats are kept in this browser only.</p>
  <//>`;
}

export function KeyPanel() {
  const key = useRef(null);
  const remember = useRef(null);
  const save = (event) => {
    event.preventDefault();
    setApiKey(key.current.value.trim(), remember.current.checked);
    closePanel();
    refresh();
  };
  return html`<${Panel} title="API key">
    <form class="stack" onSubmit=${save}>
      <p>This server was started with API keys. Enter one of them; it is sent to this server only.</p>
      <label class="field"><span>Key</span>
        <input ref=${key} type="password" autocomplete="off" spellcheck=${false} autofocus
          defaultValue=${apiKey() ?? ""} /></label>
      <label class="check"><input ref=${remember} type="checkbox" /> Remember in this browser</label>
      <div class="buttons">
        ${
          apiKey() &&
          html`<button type="button" class="quiet" onClick=${() => {
            setApiKey("", false);
            closePanel();
            refresh();
          }}>Forget key</button>`
        }
        <button type="submit" class="primary">Use key</button>
      </div>
    </form>
  <//>`;
}

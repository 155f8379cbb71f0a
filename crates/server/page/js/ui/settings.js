// The drawer: this chat's system prompt, thinking and sampling; and the page's own matters.

import { html, useRef } from "./base.js";
import { discardAll, keepSoon } from "../conversations.js";
import { find, modelFor } from "../models.js";
import { SAMPLING } from "../request.js";
import { apiKey, set, settings } from "../settings.js";
import { changed, openPanel, toast } from "../store.js";
import { exportChats, exportMarkdown, importChats } from "../transfer.js";
import { ToolsField } from "./calls.js";
import { Button, IconButton } from "./icons.js";
import { Panel } from "./panel.js";

export function SettingsPanel({ state }) {
  const conversation = state.current;
  const model = find(modelFor(conversation));
  const update = (changes) => {
    Object.assign(conversation, changes);
    if (conversation.leaf) keepSoon(conversation);
    changed();
  };
  return html`<${Panel} title="Chat settings" kind="drawer">
    <label class="field"><span>System prompt</span>
      <textarea rows="5" placeholder="How the model should behave in this chat" value=${conversation.system}
        onInput=${(e) => update({ system: e.target.value })}></textarea></label>
    ${
      model?.reasoning &&
      html`<label class="field"><span>Thinking</span>
      <select value=${conversation.thinking} onChange=${(e) => update({ thinking: e.target.value })}>
        <option value="default">As the model likes</option><option value="on">On</option><option value="off">Off</option>
      </select></label>`
    }
    <${ToolsField} key=${conversation.id} conversation=${conversation} update=${update} />
    <${Sampling} conversation=${conversation} defaults=${model?.default_sampling ?? {}} update=${update} />
    <div class="buttons start">
      <button type="button" class="small" onClick=${() => {
        set({ system: conversation.system, sampling: { ...conversation.sampling } });
        toast("New chats begin with this system prompt and sampling.");
      }}>Use for new chats</button>
    </div>
    <${Page} state=${state} conversation=${conversation} />
  <//>`;
}

function Sampling({ conversation, defaults, update }) {
  const { sampling } = conversation;
  const change = (name, value) => {
    const next = { ...sampling };
    if (value === null) delete next[name];
    else next[name] = value;
    update({ sampling: next });
  };
  return html`<section aria-labelledby="sampling-title">
    <div class="section-head">
      <h3 id="sampling-title">Sampling</h3>
      <${Button} class="quiet small" disabled=${Object.keys(sampling).length === 0} onClick=${() => update({ sampling: {} })}>
        Reset all<//>
    </div>
    ${SAMPLING.map(
      (field) => html`<${Setting} key=${field.name} field=${field} value=${sampling[field.name]}
      fallback=${defaults[field.name]} change=${(value) => change(field.name, value)} />`,
    )}
  </section>`;
}

/** One number: unset means that the server decides. */
function Setting({ field, value, fallback, change }) {
  const { name, label, min, max, step, box, hint } = field;
  const id = `sampling-${name}`;
  const parse = (event) => {
    const number = event.target.valueAsNumber;
    change(Number.isFinite(number) ? Math.min(max, Math.max(min, number)) : null);
  };
  return html`<div class=${value === undefined ? "setting" : "setting changed"}>
    <label for=${id} title=${hint}>${label}</label>
    ${
      value !== undefined &&
      html`<${IconButton} icon="retry" class="reset" label=${`Reset ${label.toLowerCase()}`}
      onClick=${() => change(null)} />`
    }
    <input id=${id} type="number" inputmode="decimal" min=${min} max=${max} step=${step} value=${value ?? ""}
      placeholder=${fallback ?? "default"} aria-describedby=${`${id}-hint`} onChange=${parse} />
    ${
      !box &&
      html`<input type="range" aria-label=${`${label}, slider`} min=${min} max=${max} step=${step}
      value=${value ?? fallback ?? min} onInput=${parse} />`
    }
    <p id=${`${id}-hint`} class="hint">${hint}</p>
  </div>`;
}

function Page({ state, conversation }) {
  const picker = useRef(null);
  const any = state.conversations.size > 0;
  return html`<section class="page-section" aria-labelledby="page-title">
    <h3 id="page-title">This page</h3>
    <label class="field"><span>Theme</span>
      <select value=${settings.theme} onChange=${(e) => {
        set({ theme: e.target.value });
        changed();
      }}>
        <option value="system">As the system</option><option value="light">Light</option><option value="dark">Dark</option>
      </select></label>
    <div class="buttons start">
      ${
        conversation.leaf &&
        html`<${Button} icon="download" onClick=${() => exportChats([conversation])}>
          Export this chat<//>
        <${Button} icon="file" onClick=${() => exportMarkdown(conversation)}>
          As Markdown<//>`
      }
      <${Button} icon="download" disabled=${!any} onClick=${() => exportChats([...state.conversations.values()])}>
          Export all<//>
      <${Button} icon="upload" onClick=${() => picker.current.click()}>Import<//>
      <input ref=${picker} id="import-file" type="file" accept="application/json,.json" hidden
        onChange=${(e) => {
          if (e.target.files[0]) importChats(e.target.files[0]);
          e.target.value = "";
        }} />
      <button type="button" class="small" onClick=${() => openPanel("key")}>${apiKey() ? "Change API key" : "API key"}</button>
      <${Button} icon="trash" class="small danger" disabled=${!any} onClick=${discardAll}>Delete all chats<//>
    </div>
  </section>`;
}

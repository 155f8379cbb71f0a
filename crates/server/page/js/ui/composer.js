// Where a message is written: text, files, thinking, send or stop, and how full the context is.

import { html, names, useLayoutEffect, useRef, useState } from "./base.js";
import { keep } from "../conversations.js";
import { draftFiles, draftText, setDraftFiles, setDraftText, takeFiles } from "../drafts.js";
import { bytes, count, short } from "../format.js";
import { send, stop } from "../generate.js";
import { find, modelFor } from "../models.js";
import { changed, openPanel } from "../store.js";
import { path } from "../tree.js";
import { fit } from "./editor.js";
import { Icon, IconButton } from "./icons.js";

const touchScreen = matchMedia("(pointer: coarse)");

export function Composer({ state, conversation }) {
  const box = useRef(null);
  const picker = useRef(null);
  const [text, setText] = useState(() => draftText(conversation));
  // Sent before the server has said what it can run: it goes out when that is known, unless it is changed before.
  const [isEarly, setEarly] = useState(false);
  const files = draftFiles(conversation);
  const branch = path(conversation);
  const streaming = branch.find((m) => state.live.has(m.id));
  const model = find(modelFor(conversation));
  const ready = (text.trim() || files.length > 0) && !streaming && modelFor(conversation);

  useLayoutEffect(() => fit(box.current), [text]);
  useLayoutEffect(() => {
    if (!touchScreen.matches) box.current.focus();
  }, []);

  const write = (value) => {
    setText(value);
    setEarly(false);
    setDraftText(conversation, value);
  };
  const submit = () => {
    if (streaming || (!text.trim() && files.length === 0)) return;
    if (!modelFor(conversation)) {
      if (state.models.loaded || state.models.error) openPanel("models");
      else setEarly(true);
      return;
    }
    write("");
    setDraftFiles(conversation, []);
    send(conversation, text.trim(), files);
  };
  useLayoutEffect(() => {
    if (!isEarly || !state.models.loaded) return;
    setEarly(false);
    submit();
  });
  const keys = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !touchScreen.matches) {
      event.preventDefault();
      submit();
    }
  };
  const paste = (event) => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    takeFiles(event.clipboardData.files);
  };
  return html`<div class="composer-wrap"><form class="composer" aria-label="Message" onSubmit=${(e) => {
    e.preventDefault();
    submit();
  }}>
    ${
      files.length > 0 &&
      html`<ul class="files">${files.map(
        (file) => html`<li class="file" key=${file.name}>
      <${Icon} name="file" /><span class="clip">${file.name}</span><span class="faint">${bytes(file.bytes)}</span>
      <${IconButton} icon="close" label=${`Remove ${file.name}`} onClick=${() =>
        setDraftFiles(
          conversation,
          files.filter((f) => f !== file),
        )} />
    </li>`,
      )}</ul>`
    }
    <textarea id="composer-text" ref=${box} rows="1" placeholder="Write a message" aria-label="Message"
      enterkeyhint=${touchScreen.matches ? "enter" : "send"}
      value=${text} onInput=${(e) => write(e.target.value)} onKeyDown=${keys} onPaste=${paste}></textarea>
    <div class="composer-foot">
      <${IconButton} icon="clip" label="Attach text files" onClick=${() => picker.current.click()} />
      <input ref=${picker} type="file" multiple hidden onChange=${(e) => {
        takeFiles(e.target.files);
        e.target.value = "";
      }} />
      ${model?.reasoning && html`<${ThinkingSwitch} conversation=${conversation} />`}
      <span class="spacer"></span>
      <${ContextMeter} branch=${branch} live=${streaming && state.live.get(streaming.id)} model=${model} />
      ${
        streaming
          ? html`<${IconButton} icon="stop" label="Stop" class="send stop" onClick=${() => stop(streaming.id)} />`
          : html`<${IconButton} icon="send" label="Send" class="send" type="submit" disabled=${!ready} />`
      }
    </div>
  </form></div>`;
}

const THINKING = { default: "Auto", on: "On", off: "Off" };

function ThinkingSwitch({ conversation }) {
  const order = Object.keys(THINKING);
  const turn = () => {
    conversation.thinking = order[(order.indexOf(conversation.thinking) + 1) % order.length];
    if (conversation.leaf) keep(conversation);
    changed();
  };
  const { thinking } = conversation;
  return html`<button type="button" class=${names({ quiet: true, pill: true, on: thinking === "on", off: thinking === "off" })}
    title="Thinking: let the model decide, always, or never" onClick=${turn}>
    <${Icon} name="thought" /><span><span class="visually-hidden">Thinking: </span>${THINKING[thinking]}</span>
  </button>`;
}

/** How much of the model's context the chat fills, by the last count of the server. */
function ContextMeter({ branch, live, model }) {
  const counted = branch.findLast((m) => m.usage);
  const before = live?.promptTokens ?? (counted ? counted.usage.prompt_tokens + counted.usage.completion_tokens : null);
  const used = before === null ? 0 : before + (live?.tokens ?? 0);
  const limit = model?.context_length;
  if (!limit || used === 0) return null;
  const share = Math.min(1, used / limit);
  const words = `${count(used)} of ${count(limit)} tokens of context used`;
  const tight = share > 0.85;
  const title = tight ? `${words}. Soon the oldest turns must be left out.` : words;
  return html`<span class=${names({ context: true, tight })} title=${title}>
    <meter min="0" max="1" high="0.85" value=${share} aria-label=${words}></meter>
    <span class="tabular" aria-hidden="true">${short(used)} / ${short(limit)}</span>
  </span>`;
}

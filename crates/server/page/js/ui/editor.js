// A message in the course of being changed.

import { html, useLayoutEffect, useRef, useState } from "./base.js";

/** Makes a text box as tall as its text, up to what the style sheet allows. */
export function fit(box) {
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight + 2}px`;
}

export function Editor({ text, role, finish }) {
  const box = useRef(null);
  const [value, setValue] = useState(text);
  useLayoutEffect(() => {
    box.current.focus();
    box.current.setSelectionRange(text.length, text.length);
  }, []);
  useLayoutEffect(() => fit(box.current), [value]);
  const user = role === "user";
  const save = () => value.trim() && finish(value);
  const keys = (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      finish(null);
    }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save();
  };
  return html`<form class="editor" onSubmit=${(e) => {
    e.preventDefault();
    save();
  }}>
    <textarea ref=${box} aria-label=${user ? "Edit message" : "Edit answer"} value=${value}
      onInput=${(e) => setValue(e.target.value)} onKeyDown=${keys}></textarea>
    <div class="editor-foot">
      <span class="faint">${user ? "The old version stays, one click away." : "Saved as another version of the answer."}</span>
      <button type="button" class="quiet" onClick=${() => finish(null)}>Cancel</button>
      <button type="submit" class="primary" disabled=${!value.trim()}>${user ? "Send" : "Save"}</button>
    </div>
  </form>`;
}

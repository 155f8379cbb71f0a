// The list of chats: new, search, open, rename, export, delete.

import { html, Fragment, names, useLayoutEffect, useRef, useState } from "./base.js";
import { discard, isBusy, rename, search, show, startNew } from "../conversations.js";
import { day } from "../format.js";
import { settings } from "../settings.js";
import { changed, openPanel } from "../store.js";
import { exportChats, exportMarkdown } from "../transfer.js";
import { nextTheme, toggleSidebar } from "./app.js";
import { Button, Icon, IconButton } from "./icons.js";

/** More rows than this are found by searching. */
const ROWS_MAX = 300;
const THEMES = { system: "system", light: "sun", dark: "moon" };

export function Sidebar({ state }) {
  const [words, setWords] = useState("");
  if (!state.sidebar) return null;
  const found = search(words);
  const hide = () => toggleSidebar(state);
  return html`<${Fragment}>
    <div class="scrim" onClick=${hide}></div>
    <nav class="sidebar" aria-label="Chats">
      <div class="brand">
        <span class="mark" aria-hidden="true"><sup>30</sup>Zn</span><span class="word">ZINC</span>
        <span class="spacer"></span>
        <${IconButton} icon="menu" label="Hide chats" onClick=${hide} />
      </div>
      <button type="button" class="new-chat" onClick=${startNew}><${Icon} name="plus" /> New chat</button>
      <label class="search">
        <${Icon} name="search" /><span class="visually-hidden">Search chats</span>
        <input id="search" type="search" placeholder="Search" autocomplete="off" value=${words}
          onInput=${(e) => setWords(e.target.value)}
          onKeyDown=${(e) => e.key === "Escape" && words && (e.stopPropagation(), setWords(""))} />
      </label>
      <div class="chats">
        ${
          found.length === 0 &&
          html`<p class="faint pad">
          ${words ? "No chat holds these words." : "Chats you start are listed here. They stay in this browser."}</p>`
        }
        <${Groups} found=${found.slice(0, ROWS_MAX)} current=${state.current.id} words=${words} />
        ${found.length > ROWS_MAX && html`<p class="faint pad">${found.length - ROWS_MAX} older chats: search for them.</p>`}
      </div>
      <div class="sidebar-foot">
        <${IconButton} icon=${THEMES[settings.theme]} label=${`Theme: ${settings.theme}`} onClick=${nextTheme} />
        <${IconButton} icon="keyboard" label="Keyboard shortcuts" onClick=${() => openPanel("help")} />
        <span class="spacer"></span>
        ${state.server.version && html`<span class="faint">${state.server.version}</span>`}
      </div>
    </nav>
  <//>`;
}

function Groups({ found, current }) {
  const groups = [];
  for (const conversation of found) {
    const name = day(conversation.updated);
    if (groups.at(-1)?.name !== name) groups.push({ name, rows: [] });
    groups.at(-1).rows.push(conversation);
  }
  return groups.map(
    ({ name, rows }) => html`<section key=${name} aria-label=${name}>
    <h2>${name}</h2>
    <ul>${rows.map((c) => html`<${Row} key=${c.id} conversation=${c} current=${c.id === current} />`)}</ul>
  </section>`,
  );
}

function Row({ conversation, current }) {
  const [renaming, setRenaming] = useState(false);
  const [menu, setMenu] = useState(false);
  const line = useRef(null);
  const open = () => {
    show(conversation.id);
    closeOnPhone();
  };
  const renamed = (byKey) => {
    setRenaming(false);
    if (byKey) setTimeout(() => line.current?.querySelector("button")?.focus());
  };
  if (renaming) return html`<li ref=${line}><${Rename} conversation=${conversation} done=${renamed} /></li>`;
  const act = (work) => () => {
    setMenu(false);
    work();
  };
  return html`<li ref=${line} class=${names({ row: true, current, "menu-open": menu })}>
    <button type="button" class="row-title" aria-current=${current ? "page" : undefined} title=${conversation.title}
      onClick=${open} onDblClick=${() => setRenaming(true)} onKeyDown=${(e) => {
        if (e.key === "F2") setRenaming(true);
        if (e.key === "Delete") discard(conversation);
      }}>
      ${isBusy(conversation) && html`<span class="spinner" role="img" aria-label="answering"></span>`}
      <span class="clip">${conversation.title}</span>
    </button>
    <${Menu} open=${menu} setOpen=${setMenu} label=${`More for ${conversation.title}`}>
      <${Item} icon="edit" run=${act(() => setRenaming(true))}>Rename<//>
      <${Item} icon="download" run=${act(() => exportChats([conversation]))}>Export as JSON<//>
      <${Item} icon="file" run=${act(() => exportMarkdown(conversation))}>Export as Markdown<//>
      <${Item} icon="trash" class="danger" run=${act(() => discard(conversation))}>Delete<//>
    <//>
  </li>`;
}

function Item({ run, class: look = "", ...rest }) {
  return html`<${Button} role="menuitem" class=${look} onClick=${run} ...${rest} />`;
}

/** A button with a small menu; arrows move, Escape closes. */
function Menu({ open, setOpen, label, children }) {
  const root = useRef(null);
  useLayoutEffect(() => {
    if (!open) return undefined;
    root.current.querySelector("[role=menuitem]").focus();
    const outside = (event) => !root.current.contains(event.target) && setOpen(false);
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);
  const keys = (event) => {
    const items = [...root.current.querySelectorAll("[role=menuitem]")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape" && open) {
      event.stopPropagation();
      setOpen(false);
      root.current.querySelector("button").focus();
    } else if (event.key === "Tab") {
      setOpen(false);
    } else if (step && open) {
      event.preventDefault();
      items[(items.indexOf(document.activeElement) + step + items.length) % items.length].focus();
    }
  };
  return html`<div class="menu-root" ref=${root} onKeyDown=${keys}>
    <${IconButton} icon="more" label=${label} aria-haspopup="menu" aria-expanded=${open} onClick=${() => setOpen(!open)} />
    ${open && html`<div class="menu" role="menu">${children}</div>`}
  </div>`;
}

function Rename({ conversation, done }) {
  const input = useRef(null);
  useLayoutEffect(() => {
    input.current.focus();
    input.current.select();
  }, []);
  // Leaving by a key also blurs the field, after it has gone.
  const finish = (save, byKey = true) => {
    if (!input.current) return;
    if (save) rename(conversation, input.current.value);
    input.current = null;
    done(byKey);
  };
  return html`<input ref=${input} class="rename" aria-label="Chat title" maxlength="200" defaultValue=${conversation.title}
    onBlur=${() => finish(true, false)}
    onKeyDown=${(e) => {
      if (e.key === "Enter") finish(true);
      if (e.key === "Escape") {
        e.stopPropagation();
        finish(false);
      }
    }} />`;
}

export function closeOnPhone() {
  if (!matchMedia("(max-width: 800px)").matches) return;
  document.querySelector(".scrim")?.click();
  changed();
}

// The frame: sidebar, header, thread, composer, and whatever panel is open.

import { html, names, useEffect, useStore } from "./base.js";
import { startNew } from "../conversations.js";
import { takeFiles } from "../drafts.js";
import { displayName, find, modelFor } from "../models.js";
import { set, settings } from "../settings.js";
import { sentence } from "../explain.js";
import { changed, openPanel } from "../store.js";
import { Composer } from "./composer.js";
import { HelpPanel, KeyPanel } from "./dialogs.js";
import { Icon, IconButton } from "./icons.js";
import { ModelsPanel } from "./picker.js";
import { SettingsPanel } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { Thread } from "./thread.js";
import { Toasts } from "./toasts.js";

const PANELS = { models: ModelsPanel, settings: SettingsPanel, help: HelpPanel, key: KeyPanel };

export function App() {
  const state = useStore();
  useEffect(dropAnywhere, []);
  const Panel = PANELS[state.panel];
  return html`<div class=${names({ app: true, "with-sidebar": state.sidebar })}>
    <${Sidebar} state=${state} />
    <main class="main">
      <${Header} state=${state} />
      <${Notices} state=${state} />
      <${Thread} key=${state.current.id} state=${state} conversation=${state.current} />
      <${Composer} key=${`c-${state.current.id}`} state=${state} conversation=${state.current} />
    </main>
    ${Panel && html`<${Panel} state=${state} />`}
    <${Toasts} toasts=${state.toasts} />
    <div class="visually-hidden" role="status" aria-live="polite">${state.announcement}</div>
    <div class="drop-hint" aria-hidden="true"><${Icon} name="file" /> Drop text files to attach them</div>
  </div>`;
}

export function toggleSidebar(state) {
  state.sidebar = !state.sidebar;
  if (!matchMedia("(max-width: 800px)").matches) set({ sidebar: state.sidebar });
  changed();
  // What had the focus may have gone, as the button that was pressed has; then its counterpart takes it.
  setTimeout(() => {
    if (document.activeElement === document.body) {
      document.querySelector('[aria-label$="chats"].icon-button')?.focus();
    }
  });
}

function Header({ state }) {
  const id = modelFor(state.current);
  const { status: server } = state.server;
  const status = ["ready", "idle"].includes(server) ? (find(id)?.state ?? "loaded") : server;
  const job = state.jobs.get(id);
  return html`<header class="header">
    ${!state.sidebar && html`<${IconButton} icon="menu" label="Show chats" onClick=${() => toggleSidebar(state)} />`}
    <button type="button" class="model-button quiet" aria-haspopup="dialog" onClick=${() => openPanel("models")}>
      <span class=${`dot dot-${job ? "loading" : status}`} aria-hidden="true"></span>
      <span class="model-name">${id ? displayName(id) : state.models.loaded ? "No model" : "Choose a model"}</span>
      <span class="visually-hidden">, change model</span>
      <${Icon} name="down" />
    </button>
    ${state.current.leaf && html`<h1 class="visually-hidden">${state.current.title}</h1>`}
    <span class="spacer"></span>
    <${IconButton} icon="sliders" label="Chat settings" aria-haspopup="dialog" onClick=${() => openPanel("settings")} />
    ${!state.sidebar && html`<${IconButton} icon="plus" label="New chat" onClick=${startNew} />`}
  </header>`;
}

/** What is wrong with the whole page, above the thread. */
function Notices({ state }) {
  const { status, message, progress } = state.server;
  const loading = `${sentence(message) || "The server is loading a model."}${progress ? ` ${Math.round(progress * 100)} %` : ""}`;
  return html`<div class="notices">
    ${
      status === "unreachable" &&
      html`<${Warning}><b>The server cannot be reached.</b> Nothing answers at ${location.host}.
      This page tries again by itself; your chats are here.<//>`
    }
    ${
      status === "loading" &&
      html`<p class="notice" role="status">
      <span class="spinner" aria-hidden="true"></span><span>${loading}</span></p>`
    }
    ${status === "failed" && html`<${Warning}><b>The server cannot answer now.</b> ${sentence(message)}<//>`}
    ${state.storageError && html`<${Warning}>${state.storageError}<//>`}
  </div>`;
}

function Warning({ children }) {
  return html`<p class="notice warn" role="alert"><${Icon} name="warning" /><span>${children}</span></p>`;
}

/** Files may be dropped on any part of the page. */
function dropAnywhere() {
  let depth = 0;
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
  const mark = (on) => document.body.classList.toggle("dropping", on);
  const enter = (event) => {
    if (holdsFiles(event)) {
      depth += 1;
      mark(true);
    }
  };
  const leave = (event) => {
    if (holdsFiles(event)) {
      depth = Math.max(0, depth - 1);
      mark(depth > 0);
    }
  };
  const over = (event) => {
    if (holdsFiles(event)) event.preventDefault();
  };
  const drop = (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    depth = 0;
    mark(false);
    takeFiles(event.dataTransfer.files);
  };
  const handlers = { dragenter: enter, dragleave: leave, dragover: over, drop };
  for (const [name, handler] of Object.entries(handlers)) window.addEventListener(name, handler);
  return () => {
    for (const [name, handler] of Object.entries(handlers)) window.removeEventListener(name, handler);
  };
}

/** The theme to follow after this one. */
export function nextTheme() {
  const order = ["system", "light", "dark"];
  set({ theme: order[(order.indexOf(settings.theme) + 1) % order.length] });
  changed();
}

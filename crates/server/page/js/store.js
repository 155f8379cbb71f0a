// The one state of the page, and who wants to hear of its changes.
//
// State is plain and mutable: whoever changes it calls `changed()`, and the views are drawn again once, in the next
// microtask. Messages carry a revision (`touch`), so that a long thread redraws only what a stream has changed.

import { useEffect, useState } from "./html.js";

export const state = {
  /** Conversations by id; see tree.js for the shape of one. */
  conversations: new Map(),
  /** The conversation on screen. */
  current: null,
  /** What lives only while an answer streams, by message id: phase, counts, times, its AbortController. */
  live: new Map(),
  /** What the server says about its models; see models.js. */
  models: { list: [], memory: null, error: null, loaded: false },
  /** Running loads and downloads, by model id. */
  jobs: new Map(),
  /** Health of the server: "unknown", "ready", "idle" (no model yet), "loading", "failed", "unreachable". */
  server: { status: "unknown", message: "", progress: null, version: null },
  /** What is open: "models", "settings", "help", "key" or null; plus the sidebar. */
  panel: null,
  sidebar: true,
  toasts: [],
  /** The sentence that screen readers hear. */
  announcement: "",
  /** A fault of the store that stays on screen until it is gone. */
  storageError: null,
};

const listeners = new Set();
let due = false;

/** Says that `state` has changed. */
export function changed() {
  if (due) return;
  due = true;
  queueMicrotask(() => {
    due = false;
    for (const listener of listeners) listener();
  });
}

let frame = false;

/** As `changed`, but at most once a frame: for what a stream brings in. */
export function changedNextFrame() {
  if (frame) return;
  frame = true;
  const go = () => {
    frame = false;
    changed();
  };
  // Hidden tabs get no frames, and their title and list still want to move.
  if (document.hidden) setTimeout(go, 300);
  else requestAnimationFrame(go);
}

/** Marks a message (or conversation) as different from what was drawn. */
export function touch(item) {
  item.rev = (item.rev ?? 0) + 1;
}

/** Draws the calling component again whenever the state changes. */
export function useStore() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((n) => n + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return state;
}

/** A random name that needs no secure context. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(10));
  return "i" + [...bytes].map((b) => b.toString(36).padStart(2, "0")).join("");
}

let toastTimers = new Map();

/** Shows a short message; `action` is `{ label, run }`. */
export function toast(text, { action = null, kind = "info", ms = 8000 } = {}) {
  const item = { id: newId(), text, action, kind };
  state.toasts = [...state.toasts.slice(-2), item];
  toastTimers.set(
    item.id,
    setTimeout(() => dismiss(item.id), ms),
  );
  changed();
}

export function dismiss(id) {
  clearTimeout(toastTimers.get(id));
  toastTimers.delete(id);
  state.toasts = state.toasts.filter((t) => t.id !== id);
  changed();
}

export function announce(text) {
  state.announcement = text;
  changed();
}

export function openPanel(name) {
  state.panel = state.panel === name ? null : name;
  changed();
}

export function closePanel() {
  state.panel = null;
  changed();
}

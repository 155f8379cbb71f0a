// Keyboard shortcuts: one table for the handler and the help sheet.

import { lastAnswer, startNew } from "./conversations.js";
import { copy } from "./clipboard.js";
import { regenerate, stop } from "./generate.js";
import { changed, openPanel, state } from "./store.js";
import { path } from "./tree.js";
import { toggleSidebar } from "./ui/app.js";

const mac = /Mac|iPhone|iPad/.test(navigator.platform);

/** `keys`: modifiers and the physical key (`code` without "Key"); rows without `run` are handled where they occur. */
export const SHORTCUTS = [
  { keys: ["Enter"], label: "Send" },
  { keys: ["Shift", "Enter"], label: "New line" },
  { keys: ["Escape"], label: "Stop the answer, close a panel" },
  { keys: ["Mod", "Shift", "O"], label: "New chat", run: startNew },
  { keys: ["Mod", "K"], label: "Search chats", run: focusSearch },
  { keys: ["Mod", "B"], label: "Show or hide chats", run: () => toggleSidebar(state) },
  { keys: ["Alt", "M"], label: "Models", run: () => openPanel("models") },
  { keys: ["Alt", "S"], label: "Chat settings", run: () => openPanel("settings") },
  { keys: ["Alt", "R"], label: "Regenerate the last answer", run: again },
  { keys: ["Alt", "C"], label: "Copy the last answer", run: copyLast },
  { keys: ["Up"], label: "Edit the last message (in an empty box)" },
  { keys: ["Shift", "Escape"], label: "Go to the message box" },
  { keys: ["F2"], label: "Rename the chat in the list" },
  { keys: ["Delete"], label: "Delete the chat in the list" },
  { keys: ["Mod", "/"], label: "This sheet", run: () => openPanel("help") },
];

/** A combination as it is printed on this machine's keyboard. */
export function shown(keys) {
  const names = mac
    ? { Mod: "⌘", Alt: "⌥", Shift: "⇧", Escape: "Esc", Up: "↑" }
    : { Mod: "Ctrl", Escape: "Esc", Up: "↑" };
  return keys.map((key) => names[key] ?? key);
}

export function listen() {
  window.addEventListener("keydown", (event) => {
    const found = SHORTCUTS.find((s) => s.run && pressed(s.keys, event));
    if (found) {
      event.preventDefault();
      found.run();
    } else if (event.key === "Escape" && event.shiftKey) {
      document.getElementById("composer-text").focus();
    } else if (event.key === "Escape" && !state.panel && state.sidebar && matchMedia("(max-width: 800px)").matches) {
      toggleSidebar(state);
    } else if (event.key === "Escape" && !state.panel) {
      const streaming = path(state.current).find((m) => state.live.has(m.id));
      if (streaming) stop(streaming.id);
    } else if (event.key === "ArrowUp" && event.target.id === "composer-text" && event.target.value === "") {
      const edits = document.querySelectorAll('.message.user [aria-label="Edit and send again"]');
      if (edits.length > 0) {
        event.preventDefault();
        edits[edits.length - 1].click();
      }
    }
  });
}

function pressed(keys, event) {
  const mod = mac ? event.metaKey : event.ctrlKey;
  const key = keys.at(-1);
  const same = event.code === `Key${key}` || event.key === key;
  return (
    same &&
    mod === keys.includes("Mod") &&
    event.altKey === keys.includes("Alt") &&
    (event.shiftKey === keys.includes("Shift") || key === "/")
  );
}

function focusSearch() {
  state.sidebar = true;
  changed();
  setTimeout(() => document.getElementById("search")?.focus());
}

function again() {
  const answer = lastAnswer();
  if (answer && !state.live.has(answer.id)) regenerate(state.current, answer);
}

function copyLast() {
  const answer = lastAnswer();
  if (answer) copy(answer.text);
}

// The list of conversations: open, make, rename, delete with undo, search, keep.

import * as database from "./database.js";
import { settings, tabId } from "./settings.js";
import { announce, changed, newId, state, toast } from "./store.js";
import { path } from "./tree.js";

/** How long another tab's stream may be silent before its answer counts as cut. */
const SILENT_MS = 20_000;
const channel = "BroadcastChannel" in window ? new BroadcastChannel("zinc-chat") : null;

/** Goes on with an answer whose stream the server may still keep. */
let takeUp = null;

/** Reads everything, takes up answers that a reload has cut, and shows the one the address names. */
export async function openAll(reconnect) {
  takeUp = reconnect;
  try {
    for (const conversation of await database.readAll()) adopt(conversation);
    state.storageError = null;
  } catch (error) {
    state.storageError = database.explainStorage(error);
  }
  show(location.hash.slice(1));
  window.addEventListener("hashchange", () => show(location.hash.slice(1)));
  channel?.addEventListener("message", (event) => follow(event.data));
}

/** Takes a record from the store; answers that nobody is writing any more go on or become "cut". */
function adopt(conversation) {
  const lost = Object.values(conversation.messages).filter(
    (m) =>
      m.state === "streaming" &&
      !state.live.has(m.id) &&
      (m.owner === tabId || Date.now() - (conversation.updated ?? 0) > SILENT_MS),
  );
  const kept = lost.filter((m) => m.stream?.id);
  for (const message of lost) if (!kept.includes(message)) message.state = "cut";
  const others = Object.values(conversation.messages).some((m) => m.state === "streaming" && !state.live.has(m.id));
  if (others) setTimeout(() => follow({ id: conversation.id }), SILENT_MS + 500);
  state.conversations.set(conversation.id, conversation);
  if (lost.length > 0) keep(conversation);
  for (const message of kept) takeUp(conversation, message);
}

/** Another tab has changed a conversation: read it again unless this tab is writing to it. */
async function follow({ id }) {
  const mine = state.conversations.get(id);
  if (mine && Object.keys(mine.messages).some((m) => state.live.has(m))) return;
  const conversation = await database.readOne(id);
  if (conversation) adopt(conversation);
  else state.conversations.delete(id);
  if (state.current?.id === id) state.current = conversation ?? blank();
  changed();
}

export function blank() {
  return {
    id: newId(),
    title: "New chat",
    named: false,
    created: Date.now(),
    updated: Date.now(),
    model: null,
    system: settings.system ?? "",
    tools: "",
    sampling: { ...settings.sampling },
    thinking: "default",
    leaf: null,
    start: null,
    messages: {},
  };
}

/** Shows a conversation, or an empty one that is kept only once something is said. */
export function show(id) {
  const found = state.conversations.get(id);
  if (!found && state.current && state.current.id === id) return;
  state.current = found ?? blank();
  document.title = found ? `${found.title} · ZINC` : "ZINC";
  const hash = found ? `#${found.id}` : "";
  if (location.hash !== hash) history.replaceState(null, "", hash || location.pathname);
  changed();
}

export function startNew() {
  show("");
  if (matchMedia("(max-width: 800px)").matches) state.sidebar = false;
  document.getElementById("composer-text")?.focus();
}

const pending = new Map();

/** Writes a conversation now. */
export async function keep(conversation) {
  clearTimeout(pending.get(conversation.id));
  pending.delete(conversation.id);
  state.conversations.set(conversation.id, conversation);
  if (state.current?.id === conversation.id) {
    document.title = `${conversation.title} · ZINC`;
    if (location.hash !== `#${conversation.id}`) history.replaceState(null, "", `#${conversation.id}`);
  }
  try {
    await database.write(conversation);
    if (state.storageError) {
      state.storageError = null;
      changed();
    }
    channel?.postMessage({ id: conversation.id });
  } catch (error) {
    state.storageError = database.explainStorage(error);
    changed();
  }
}

/** Writes a conversation within half a second: for streams and typing. */
export function keepSoon(conversation) {
  if (pending.has(conversation.id)) return;
  pending.set(
    conversation.id,
    setTimeout(() => keep(conversation), 500),
  );
}

/** Writes what is still waiting: the page is going away. */
export function keepPending() {
  for (const id of [...pending.keys()]) keep(state.conversations.get(id));
}

export function rename(conversation, title) {
  const clean = title.trim().slice(0, 200);
  if (!clean) return;
  conversation.title = clean;
  conversation.named = true;
  keep(conversation);
  changed();
}

/** Deletes at once; the toast brings it back. */
export function discard(conversation) {
  clearTimeout(pending.get(conversation.id));
  pending.delete(conversation.id);
  for (const id of Object.keys(conversation.messages)) state.live.get(id)?.controller.abort();
  state.conversations.delete(conversation.id);
  database.remove(conversation.id).then(
    () => channel?.postMessage({ id: conversation.id }),
    () => {},
  );
  if (state.current?.id === conversation.id) show("");
  toast(`Deleted “${conversation.title}”.`, {
    action: {
      label: "Undo",
      run: () => {
        keep(conversation);
        show(conversation.id);
        announce("Chat restored.");
      },
    },
  });
  changed();
}

export async function discardAll() {
  const all = [...state.conversations.values()];
  for (const { controller } of state.live.values()) controller.abort();
  state.conversations.clear();
  await database.removeAll().catch(() => {});
  show("");
  toast(`Deleted ${all.length} chats.`, {
    action: {
      label: "Undo",
      run: () => {
        all.forEach(keep);
        changed();
      },
    },
    ms: 15_000,
  });
}

/** Newest first; with words, those whose title or text holds all of them. */
export function search(words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const holds = (conversation) => {
    const text = [conversation.title, ...Object.values(conversation.messages).map((m) => m.text)]
      .join("\n")
      .toLowerCase();
    return wanted.every((word) => text.includes(word));
  };
  return [...state.conversations.values()]
    .filter((c) => wanted.length === 0 || holds(c))
    .sort((a, b) => b.updated - a.updated);
}

/** Whether an answer of this conversation is streaming. */
export function isBusy(conversation) {
  return Object.keys(conversation.messages).some((id) => state.live.has(id));
}

/** The last answer on screen, if any. */
export function lastAnswer() {
  return (
    path(state.current)
      .filter((m) => m.role === "assistant")
      .at(-1) ?? null
  );
}

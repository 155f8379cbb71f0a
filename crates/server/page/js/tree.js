// A conversation as a tree of messages, and walks over it. Pure: no storage, no views.
//
// conversation: { id, title, named, created, updated, model, system, tools, sampling, thinking, leaf, start,
//                 messages }
// message:      { id, parent, role, text, reasoning, reasoningMs, attachments, created, model, state, finish, error,
//                 usage, timings, firstTokenMs, owner, calls, stream }
// `leaf` is the last message of the branch on screen. `start`, if set, is the first message that is still sent.
// `stream` is { id, last } while the server keeps the stream: its name, and the last event that was taken.
// A message's `state` is "done", "streaming", "stopped" (by the user), "cut" (the page or the line went away) or "error".

/** The branch that ends at `leaf`, root first. */
export function path(conversation, leaf = conversation.leaf) {
  const found = [];
  for (let id = leaf; id && conversation.messages[id]; id = conversation.messages[id].parent) {
    found.push(conversation.messages[id]);
  }
  return found.reverse();
}

/** Ids of children by parent id (`""` for the roots), in order of creation. */
export function childIndex(conversation) {
  const index = new Map();
  for (const message of Object.values(conversation.messages)) {
    const key = message.parent ?? "";
    if (!index.has(key)) index.set(key, []);
    index.get(key).push(message.id);
  }
  return index;
}

/** The alternatives to a message, itself included. */
export function siblings(conversation, message, index = childIndex(conversation)) {
  return index.get(message.parent ?? "") ?? [message.id];
}

/** The newest leaf below a message. */
export function deepest(conversation, id, index = childIndex(conversation)) {
  for (let below = index.get(id); below?.length; below = index.get(id)) id = below[below.length - 1];
  return id;
}

/** Adds a message at the end of the branch of `parent` and shows it. */
export function add(conversation, message) {
  conversation.messages[message.id] = message;
  conversation.leaf = message.id;
  return message;
}

/** Shows the neighbour of a message, `step` places on. */
export function turnTo(conversation, message, step) {
  const index = childIndex(conversation);
  const all = siblings(conversation, message, index);
  const next = all[all.indexOf(message.id) + step];
  if (next) conversation.leaf = deepest(conversation, next, index);
}

/** The part of a branch that is sent: from `start` on, if it lies on the branch. */
export function sent(conversation, branch) {
  const from = branch.findIndex((m) => m.id === conversation.start);
  return from > 0 ? branch.slice(from) : branch;
}

/** A title from the first thing said. */
export function titleFrom(text) {
  const line = text
    .trim()
    .split("\n")[0]
    .replace(/[#*`_>]+/g, "")
    .trim();
  return line.length > 60 ? line.slice(0, 59).trimEnd() + "…" : line || "New chat";
}

// Chats out of the browser and into it: JSON for machines, Markdown for people.

import { blank, keep, show } from "./conversations.js";
import { changed, newId, state, toast } from "./store.js";
import { importedCalls, pretty } from "./tools.js";
import { path, titleFrom } from "./tree.js";

const FORMAT = "zinc-chats";
const FILE_BYTES_MAX = 256 << 20;
const STATES = ["done", "stopped", "cut", "error"];

export function exportChats(conversations) {
  const name =
    conversations.length === 1
      ? fileName(conversations[0].title)
      : `zinc-chats-${new Date().toISOString().slice(0, 10)}`;
  const body = {
    format: FORMAT,
    version: 1,
    exported: new Date().toISOString(),
    conversations: conversations.map(plain),
  };
  download(`${name}.json`, "application/json", JSON.stringify(body, null, 1));
}

/** The branch on screen, as a document. */
export function exportMarkdown(conversation) {
  const parts = path(conversation).map((m) => {
    const files = (m.attachments ?? []).map((a) => `\n*Attached: ${a.name}*\n`).join("");
    const calls = (m.calls ?? []).map(called).join("");
    return `## ${m.role === "user" ? "You" : (m.model ?? "Assistant")}\n${files}\n${m.text.trim()}\n${calls}`;
  });
  download(`${fileName(conversation.title)}.md`, "text/markdown", `# ${conversation.title}\n\n${parts.join("\n")}`);
}

/** A call of a tool, and its result. */
function called({ name, arguments: given, result }) {
  const fence = (text) => `\n\`\`\`\`\n${text}\n\`\`\`\`\n`;
  return `\n*Calls ${name}*\n${fence(pretty(given))}${result === null ? "" : `\n*Result*\n${fence(result)}`}`;
}

/** Takes the chats of an exported file; says what came of it. */
export async function importChats(file) {
  try {
    if (file.size > FILE_BYTES_MAX) throw new Error(`it is larger than ${FILE_BYTES_MAX >> 20} MB`);
    let body;
    try {
      body = JSON.parse(await file.text());
    } catch {
      throw new Error("it is not JSON");
    }
    if (body?.format !== FORMAT || !Array.isArray(body.conversations))
      throw new Error("it is not an export of this page");
    const read = body.conversations.map(parse);
    for (const conversation of read) await keep(conversation);
    if (read.length > 0) show(read[0].id);
    toast(`Imported ${read.length} ${read.length === 1 ? "chat" : "chats"}.`);
  } catch (error) {
    toast(`“${file.name}” cannot be imported: ${error.message}. Nothing was changed.`, { kind: "error" });
  }
  changed();
}

/** A conversation without what belongs to this tab. */
function plain(conversation) {
  const messages = Object.fromEntries(
    Object.entries(conversation.messages).map(([id, message]) => {
      const { rev, owner, stream, ...kept } = message;
      return [id, kept.state === "streaming" ? { ...kept, state: "cut" } : kept];
    }),
  );
  const { rev, ...kept } = conversation;
  return { ...kept, messages };
}

/** Builds a conversation from a file's data; nothing is taken that is not of the right type. */
function parse(data, at) {
  const bad = (what) => new Error(`chat ${at + 1}: ${what}`);
  if (typeof data?.messages !== "object" || data.messages === null) throw bad("it has no messages");
  const messages = {};
  for (const [id, m] of Object.entries(data.messages)) {
    if (!/^[a-zA-Z][\w-]{0,63}$/.test(id)) throw bad("a message has a strange name");
    if (!["user", "assistant"].includes(m?.role) || typeof m.text !== "string")
      throw bad("a message has no role or text");
    messages[id] = {
      id,
      role: m.role,
      text: m.text,
      parent: typeof m.parent === "string" ? m.parent : null,
      created: Number(m.created) || Date.now(),
      state: STATES.includes(m.state) ? m.state : "done",
      ...(typeof m.reasoning === "string" && { reasoning: m.reasoning, reasoningMs: Number(m.reasoningMs) || 0 }),
      ...(typeof m.model === "string" && { model: m.model }),
      ...(typeof m.finish === "string" && { finish: m.finish }),
      ...(Array.isArray(m.calls) && { calls: importedCalls(m.calls) }),
      ...(Array.isArray(m.attachments) && { attachments: m.attachments.map(attachment) }),
      ...numbers("usage", m.usage),
      ...numbers("timings", m.timings),
    };
  }
  for (const m of Object.values(messages)) {
    if (m.parent !== null && !Object.hasOwn(messages, m.parent)) throw bad("a message's parent is missing");
    if (loops(messages, m)) throw bad("its messages form a circle");
  }
  const first = Object.values(messages)[0];
  return {
    ...blank(),
    id: newId(),
    messages,
    title: typeof data.title === "string" ? data.title.slice(0, 200) : titleFrom(first?.text ?? ""),
    named: data.named === true,
    created: Number(data.created) || Date.now(),
    updated: Number(data.updated) || Date.now(),
    model: typeof data.model === "string" ? data.model : null,
    system: typeof data.system === "string" ? data.system : "",
    tools: typeof data.tools === "string" ? data.tools : "",
    sampling: numbers("sampling", data.sampling).sampling ?? {},
    thinking: ["on", "off"].includes(data.thinking) ? data.thinking : "default",
    leaf: Object.hasOwn(messages, data.leaf) ? data.leaf : (Object.keys(messages).at(-1) ?? null),
    start: Object.hasOwn(messages, data.start) ? data.start : null,
  };
}

function loops(messages, message) {
  const seen = new Set();
  for (let m = message; m; m = messages[m.parent]) {
    if (seen.has(m.id)) return true;
    seen.add(m.id);
  }
  return false;
}

const attachment = (a) => ({
  name: String(a?.name ?? "file").slice(0, 200),
  text: String(a?.text ?? ""),
  bytes: Number(a?.bytes) || 0,
});

/** `{ [name]: ... }` with the numbers of an object, nested ones too; empty if it is none. */
function numbers(name, value) {
  if (typeof value !== "object" || value === null) return {};
  const kept = Object.entries(value).map(([k, v]) =>
    typeof v === "object" ? Object.entries(numbers(k, v))[0] : [k, v],
  );
  return { [name]: Object.fromEntries(kept.filter((e) => e && (typeof e[1] === "object" || Number.isFinite(e[1])))) };
}

function fileName(title) {
  return (
    title
      .replace(/[^\p{L}\p{N}]+/gu, "-")
      .replace(/^-|-$/g, "")
      .slice(0, 60) || "chat"
  );
}

function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// A conversation as a chat request.

import { withAttachments } from "./attachments.js";
import { answered, asTurns, parseTools } from "./tools.js";
import { path, sent } from "./tree.js";

/** What the sampling panel offers. `step` also says how many digits are shown. */
export const SAMPLING = [
  {
    name: "temperature",
    label: "Temperature",
    min: 0,
    max: 2,
    step: 0.05,
    hint: "Higher is more varied, 0 always takes the likeliest token.",
  },
  {
    name: "top_p",
    label: "Top p",
    min: 0,
    max: 1,
    step: 0.01,
    hint: "Keeps the likeliest tokens that together reach this share.",
  },
  {
    name: "top_k",
    label: "Top k",
    min: 0,
    max: 200,
    step: 1,
    hint: "Keeps this many of the likeliest tokens; 0 keeps all.",
  },
  {
    name: "min_p",
    label: "Min p",
    min: 0,
    max: 1,
    step: 0.01,
    hint: "Drops tokens below this share of the likeliest one.",
  },
  {
    name: "repetition_penalty",
    label: "Repetition penalty",
    min: 1,
    max: 2,
    step: 0.01,
    hint: "Above 1, tokens already used become less likely.",
  },
  {
    name: "presence_penalty",
    label: "Presence penalty",
    min: -2,
    max: 2,
    step: 0.1,
    hint: "Above 0, new topics become likelier.",
  },
  {
    name: "max_tokens",
    label: "Longest answer",
    min: 1,
    max: 131072,
    step: 1,
    box: true,
    hint: "In tokens. Empty: as long as the context allows.",
  },
  {
    name: "seed",
    label: "Seed",
    min: 0,
    max: 4294967295,
    step: 1,
    box: true,
    hint: "The same seed and settings give the same answer.",
  },
];

/** Fields that a server may refuse by name; the page then goes on without them. */
export const OPTIONAL = ["return_progress", "resumable"];

/** The request for the answer `message`; `continuing` leaves its text open at the end. */
export function chatRequest(conversation, message, { model, continuing, without }) {
  const branch = sent(conversation, path(conversation, message.parent));
  const messages = merged(branch.filter((m) => m.role === "user" || m.text || answered(m)).flatMap(asWire));
  if (conversation.system.trim()) messages.unshift({ role: "system", content: conversation.system });
  const body = {
    model,
    messages,
    stream: true,
    stream_options: { include_usage: true, resumable: true },
    return_progress: true,
    ...conversation.sampling,
  };
  if (conversation.thinking !== "default") body.enable_thinking = conversation.thinking === "on";
  const { tools } = parseTools(conversation.tools);
  if (tools.length > 0) body.tools = tools;
  if (continuing) {
    const open = { role: "assistant", content: message.text };
    if (message.reasoning) open.reasoning_content = message.reasoning;
    messages.push(open);
    body.continue_final_message = true;
    body.add_generation_prompt = false;
  }
  for (const name of without) {
    delete body[name];
    delete body.stream_options[name];
  }
  return body;
}

/** Where an answer failed, two questions follow each other; many templates insist on turns, so they become one. */
function merged(messages) {
  const turns = [];
  for (const message of messages) {
    const last = turns.at(-1);
    const joins = last?.role === message.role && message.role !== "tool" && !last.tool_calls && !message.tool_calls;
    if (joins) last.content += `\n\n${message.content}`;
    else turns.push({ ...message });
  }
  return turns;
}

/** Earlier thinking is not sent again: templates drop it, and it would fill the context. */
function asWire(message) {
  if (answered(message)) return asTurns(message);
  return { role: message.role, content: message.role === "user" ? withAttachments(message) : message.text };
}

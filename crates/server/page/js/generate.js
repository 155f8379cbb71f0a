// Answers: send, stream, stop, continue, regenerate, edit.
//
// A message's text grows as deltas come; the views are told once a frame and the store twice a second, so that a
// reload loses at most half a second. What matters only while streaming lies in `state.live`.

import { ApiError } from "./api.js";
import { keep, keepSoon } from "./conversations.js";
import { explain } from "./explain.js";
import { find, modelFor, refresh } from "./models.js";
import { forget, following, steady } from "./resumable.js";
import { chatRequest, OPTIONAL } from "./request.js";
import { tabId } from "./settings.js";
import { announce, changed, changedNextFrame, newId, openPanel, state, touch } from "./store.js";
import { grow } from "./tools.js";
import { add, path, sent, titleFrom } from "./tree.js";

const LOAD_POLL_MS = 700;
/** Optional fields that this server has refused; see `OPTIONAL`. */
const refused = new Set();
/** False once the server has refused to continue an answer. */
export const can = { continue: true };

const message = (fields) => ({ id: newId(), parent: null, text: "", created: Date.now(), state: "done", ...fields });

/** Says something and asks for the answer. */
export function send(conversation, text, attachments = []) {
  const user = add(conversation, message({ role: "user", parent: conversation.leaf, text, attachments }));
  if (!conversation.named && path(conversation).length === 1) {
    conversation.title = titleFrom(text || attachments[0]?.name || "");
  }
  return answer(conversation, user);
}

/** A new answer to a user's message. */
export function answer(conversation, user, tries = 0) {
  const reply = add(conversation, message({ role: "assistant", parent: user.id, state: "streaming", tries }));
  return run(conversation, reply, chat);
}

/** Another answer beside this one. An answer that never began is replaced. */
export function regenerate(conversation, old) {
  const parent = conversation.messages[old.parent];
  if (!old.text && !old.reasoning && !old.calls && old.state !== "done") delete conversation.messages[old.id];
  return answer(conversation, parent, (old.tries ?? 0) + 1);
}

/** The same message in other words, as a branch of its own. */
export function edit(conversation, old, text) {
  conversation.leaf = old.parent;
  const { role, attachments, model } = old;
  const changedMessage = add(conversation, message({ role, parent: old.parent, text, attachments, model }));
  if (role === "user") return answer(conversation, changedMessage);
  keep(conversation);
  changed();
}

/** Goes on with an answer that was stopped, cut or too long. */
export function resume(conversation, reply) {
  reply.state = "streaming";
  reply.error = null;
  reply.finish = null;
  return run(conversation, reply, continued);
}

/** Goes on with an answer that the server has kept on writing while the page was away. */
export function reconnect(conversation, reply) {
  return run(conversation, reply, kept);
}

/** Says what the tools gave that an answer has called, and asks for the next answer. */
export function sendResults(conversation, reply) {
  return answer(conversation, reply);
}

/** Stops at once; what has arrived stays. */
export function stop(id) {
  state.live.get(id)?.controller.abort();
}

/** Leaves out the older half of what is sent, and asks again. */
export function trimAndRetry(conversation, reply) {
  const branch = sent(conversation, path(conversation, reply.parent));
  const users = branch.filter((m) => m.role === "user");
  conversation.start = users[Math.ceil(users.length / 2)]?.id ?? users.at(-1).id;
  return regenerate(conversation, reply);
}

/** Where an answer comes from: asked for, asked to be continued, or kept by the server. */
const chat = { open: (...all) => asked(...all, false) };
const continued = { continuing: true, open: (...all) => asked(...all, true) };
const kept = { continuing: true, isKept: true, open: (conversation, reply, live) => following(reply, live.controller.signal) };

async function run(conversation, reply, source) {
  const model = source.isKept ? reply.model : modelFor(conversation);
  const live = {
    controller: new AbortController(),
    phase: { kind: "waiting" },
    started: performance.now(),
    firstToken: null,
    thinkingSince: null,
    tokens: 0,
    promptTokens: null,
    continuing: Boolean(source.continuing),
    // What was missed comes at once: it says nothing of the speed.
    isKept: Boolean(source.isKept),
  };
  live.controller.signal.addEventListener("abort", () => forget(reply));
  reply.model = model;
  reply.owner = tabId;
  conversation.updated = Date.now();
  state.live.set(reply.id, live);
  touch(reply);
  keep(conversation);
  if (!source.isKept) announce("Waiting for the answer.");
  if (find(model)?.state !== "loaded") watchLoad(reply, live);
  try {
    for await (const chunk of steady(reply, live.controller.signal, source.open(conversation, reply, live, model))) {
      take(chunk, reply, live);
      conversation.updated = Date.now();
      touch(reply);
      changedNextFrame();
      keepSoon(conversation);
    }
    reply.state = "done";
    announce(`Answer complete. ${reply.text.slice(0, 300)}`);
  } catch (error) {
    fail(error, reply);
  } finally {
    endThinking(reply, live);
    state.live.delete(reply.id);
    delete reply.stream;
    touch(reply);
    keep(conversation);
    changed();
  }
}

/** While the request waits for its model to be loaded: how far that is, by the list of models. */
async function watchLoad(reply, live) {
  const waits = () => state.live.get(reply.id) === live && ["waiting", "load"].includes(live.phase.kind);
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, LOAD_POLL_MS));
    if (!waits()) return;
    await refresh();
    if (!waits()) return;
    const model = find(reply.model);
    live.phase = model?.state === "loading" ? { kind: "load", ...model.progress } : { kind: "waiting" };
    touch(reply);
    changed();
    if (model?.state === "loaded") return;
  }
}

/** The stream, asked for again without an optional field that the server refuses by name. */
async function* asked(conversation, reply, live, model, continuing) {
  for (;;) {
    const body = chatRequest(conversation, reply, { model, continuing, without: refused });
    try {
      yield* following(reply, live.controller.signal, body);
      return;
    } catch (error) {
      const field = refusedField(error);
      if (!OPTIONAL.includes(field) || refused.has(field)) throw error;
      refused.add(field);
    }
  }
}

/** The top-level field that an error is about: by `param`, or named in the words of a refusal. */
function refusedField({ status, param, message: words }) {
  if (status !== 400 && status !== 422) return null;
  if (param) return param.split(/[.[]/).find((part) => OPTIONAL.includes(part)) ?? param.split(/[.[]/)[0];
  return OPTIONAL.find((name) => words.includes(name)) ?? null;
}

/** One chunk of the stream. */
function take(chunk, reply, live) {
  if (chunk.prompt_progress) {
    live.phase = { kind: "prefill", ...chunk.prompt_progress };
    live.promptTokens = chunk.prompt_progress.total ?? null;
  }
  if (chunk.usage) reply.usage = chunk.usage;
  if (chunk.timings) reply.timings = chunk.timings;
  const choice = chunk.choices?.[0];
  if (!choice) return;
  const { reasoning_content: reasoning, content, tool_calls: calls } = choice.delta ?? {};
  if (reasoning || content || calls) {
    live.tokens += 1;
    if (live.firstToken === null) {
      live.firstToken = performance.now();
      if (!live.continuing) reply.firstTokenMs = live.firstToken - live.started;
      announce("The answer has begun.");
    }
    live.phase = { kind: reasoning ? "thinking" : "answer" };
  }
  if (reasoning) {
    live.thinkingSince ??= performance.now();
    reply.reasoning = (reply.reasoning ?? "") + reasoning;
  }
  if (content) {
    endThinking(reply, live);
    reply.text += content;
  }
  if (calls) {
    endThinking(reply, live);
    grow((reply.calls ??= []), calls);
  }
  if (choice.finish_reason) reply.finish = choice.finish_reason;
}

function endThinking(reply, live) {
  if (live.thinkingSince === null) return;
  reply.reasoningMs = (reply.reasoningMs ?? 0) + performance.now() - live.thinkingSince;
  live.thinkingSince = null;
}

function fail(error, reply) {
  if (error.name === "AbortError") {
    reply.state = "stopped";
    announce("Stopped.");
    return;
  }
  const known = error instanceof ApiError ? error : new ApiError({ status: 500, code: "page", message: error.message });
  if (
    ["continue_final_message", "add_generation_prompt"].includes(refusedField(known)) &&
    state.live.get(reply.id)?.continuing
  ) {
    can.continue = false;
    known.message = "This server cannot continue an answer. Ask for it again instead.";
  }
  reply.state = known.code === "stream_lost" && (reply.text || reply.reasoning) ? "cut" : "error";
  reply.error = reply.state === "error" ? { ...explain(known), at: Date.now() } : null;
  announce(
    reply.error ? `${reply.error.title}. ${reply.error.detail}` : "The connection was lost; what had arrived is kept.",
  );
  if (known.status === 401) openPanel("key");
  if (known.status === 0 || known.status === 503 || known.status === 404) refresh();
}

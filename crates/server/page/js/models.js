// What the server can run: the list, health, loading, downloads.
//
// Every field beyond OpenAI's is optional; what the server does not say is not shown. `paths` is the only place that
// knows the addresses of load, unload and pull.

import { ApiError, json, stream } from "./api.js";
import { explain } from "./explain.js";
import { set, settings } from "./settings.js";
import { announce, changed, state, toast } from "./store.js";

const paths = {
  load: (id) => `v1/models/${encodeURIComponent(id)}/load`,
  unload: (id) => `v1/models/${encodeURIComponent(id)}/unload`,
  pull: (id) => `v1/models/${encodeURIComponent(id)}/pull`,
};
const POLL_MS = 2000;
/** These questions are answered at once; what takes longer does not come. */
const ANSWER_MS = 5000;

let timer = null;

/** Asks for health and models, and asks again while the server is away or loading. */
export async function refresh() {
  clearTimeout(timer);
  const [isAnswered] = await Promise.all([readModels(), readHealth()]);
  changed();
  const loading =
    state.panel === "models" && state.models.list.some((m) => m.state === "loading" && !state.jobs.has(m.id));
  if (!isAnswered || loading || !["ready", "idle"].includes(state.server.status)) timer = setTimeout(refresh, POLL_MS);
}

const ask = (path) => json(path, { signal: AbortSignal.timeout(ANSWER_MS) });

/** Resolves to whether the server gave an answer, if only a refusal. */
async function readModels() {
  try {
    const { data = [], memory = null } = await ask("v1/models");
    state.models = { list: data.filter((m) => typeof m.id === "string"), memory, error: null, loaded: true };
    return true;
  } catch (error) {
    state.models.error = explain(error);
    if (error.status === 401 && state.panel === null) state.panel = "key";
    return Boolean(error.status);
  }
}

async function readHealth() {
  const { server } = state;
  try {
    await ask("ready");
    Object.assign(server, { status: "ready", message: "", progress: null });
    server.version ??= (await ask("version").catch(() => null))?.version ?? null;
  } catch (error) {
    Object.assign(server, health(error));
  }
}

/** What a refusal of /ready means for the page. A server that answers but has no such path is ready. */
function health({ status, message, body }) {
  if (status === 0) return { status: "unreachable", message: "", progress: null };
  if (status !== 503) return { status: "ready", message: "", progress: null };
  // Without a loaded model the next request loads one, or the user chooses: nothing to warn of.
  if (["not_loaded", "no_model"].includes(body?.status)) return { status: "idle", message: "", progress: null };
  const kind = ["failed", "device_lost", "draining"].includes(body?.status) ? "failed" : "loading";
  return { status: kind, message, progress: Number.isFinite(body?.progress) ? body.progress : null };
}

export const find = (id) => state.models.list.find((m) => m.id === id) ?? null;
/** A server that says nothing of states serves what it lists. */
export const modelState = (model) => model.state ?? "loaded";
export const displayName = (id) => find(id)?.name ?? id ?? "No model";

/** The model that a conversation talks to: its own, the last chosen, a loaded one, the first. */
export function modelFor(conversation) {
  const wanted = [conversation.model, settings.model].find((id) => id && (find(id) || !state.models.loaded));
  const usable = state.models.list.filter((m) => m.state !== "available" && m.chat !== false);
  return wanted ?? (usable.find((m) => modelState(m) === "loaded") ?? usable[0])?.id ?? null;
}

/** Chooses a model for a conversation and for the next ones. */
export function choose(conversation, id) {
  conversation.model = id;
  set({ model: id });
  announce(`Model ${displayName(id)}.`);
  changed();
}

/** Loads or pulls with progress; resolves to whether it went well. */
export async function start(kind, model) {
  const job = {
    kind,
    stage: kind === "pull" ? "download" : "load",
    done: 0,
    total: 0,
    controller: new AbortController(),
  };
  state.jobs.set(model.id, job);
  changed();
  try {
    for await (const event of stream(paths[kind](model.id), {
      method: "POST",
      body: {},
      signal: job.controller.signal,
    })) {
      progress(job, event);
      changed();
    }
    announce(`${displayName(model.id)} is ready.`);
    return true;
  } catch (error) {
    if (error.name !== "AbortError") {
      const { title, detail } = explain(error);
      toast(`${displayName(model.id)}: ${title}. ${detail}`, { kind: "error", ms: 15_000 });
    }
    return false;
  } finally {
    state.jobs.delete(model.id);
    await refresh();
  }
}

export function cancel(id) {
  state.jobs.get(id)?.controller.abort();
}

export async function unload(model) {
  try {
    await json(paths.unload(model.id), { method: "POST", body: {} });
  } catch (error) {
    toast(`${displayName(model.id)}: ${explain(error).detail}`, { kind: "error" });
  }
  refresh();
}

function progress(job, { stage, done_bytes, total_bytes, message }) {
  if (stage === "error") throw new ApiError({ status: 500, message: message ?? "it failed" });
  Object.assign(job, { stage: stage ?? job.stage, done: done_bytes ?? job.done, total: total_bytes ?? job.total });
}

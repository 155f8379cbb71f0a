// A small server that plays the API for the page: scripted answers, faults and progress, no model.
//
// `state` (state.mjs) may be changed by a test while it runs. Static files come from `page/` with the same headers as the
// real server sends. Requests that came in are kept in `state.requests`; addresses under /leak are counted in `state.leaks`.

import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { scriptFor } from "./answers.mjs";
import { until } from "./harness.mjs";
import { freshState, GB } from "./state.mjs";

const page = join(dirname(fileURLToPath(import.meta.url)), "../../page");
const CSP =
  "default-src 'self'; img-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'; " +
  "require-trusted-types-for 'script'; trusted-types dompurify";
const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Starts it; `{ url, state, reset, close }`. */
export async function startMock() {
  const mock = { state: freshState() };
  const server = createServer((request, response) => {
    handle(mock, request, response).catch((error) => {
      if (!response.headersSent) fail(response, 500, error.message);
      else response.destroy();
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  mock.url = `http://127.0.0.1:${server.address().port}`;
  mock.reset = () => {
    mock.state = freshState();
  };
  mock.close = () => {
    server.closeAllConnections();
    server.close();
  };
  return mock;
}

async function handle(mock, request, response) {
  const { state } = mock;
  const url = new URL(request.url, mock.url);
  if (url.pathname.startsWith("/leak")) {
    state.leaks.push(request.url);
    return response.writeHead(204).end();
  }
  const api = url.pathname.startsWith("/v1/");
  if (!api && !["/ready", "/version"].includes(url.pathname)) return serveFile(url.pathname, response);
  if (api && state.key && request.headers.authorization !== `Bearer ${state.key}`) {
    return fail(response, 401, "a valid API key is needed", { code: "invalid_api_key" });
  }
  if (url.pathname === "/ready") {
    return state.ready
      ? send(response, 200, { status: "ready" })
      : send(response, 503, { status: "loading", message: "loading Qwen3.5 2B", progress: 0.4 });
  }
  if (url.pathname === "/version") return send(response, 200, { version: "mock" });
  if (url.pathname === "/v1/models") {
    if (state.unanswered > 0) {
      state.unanswered -= 1;
      return;
    }
    const used = state.models.filter((m) => m.state === "loaded").reduce((sum, m) => sum + m.memory_bytes, 0);
    return send(response, 200, {
      object: "list",
      data: state.models,
      memory: { device: "Mock GPU", total_bytes: 32 * GB, used_bytes: used },
    });
  }
  let body = "";
  for await (const chunk of request) body += chunk;
  const stream = /^\/v1\/streams\/([^/]+)$/.exec(url.pathname);
  if (stream) {
    return state.streams.handle(stream[1], request, response) || fail(response, 404, "no such stream");
  }
  const verb = /^\/v1\/models\/([^/]+)\/(load|unload|pull)$/.exec(url.pathname);
  if (verb) return manage(state, decodeURIComponent(verb[1]), verb[2], response);
  if (url.pathname === "/v1/chat/completions") return chat(mock, JSON.parse(body), response);
  return fail(response, 404, `no such path: ${url.pathname}`);
}

/** A file of the page, with the headers that the real server gives it. */
export function serveFile(path, response) {
  const file = join(page, normalize(path === "/" ? "/index.html" : path));
  if (!file.startsWith(page) || !existsSync(file) || !statSync(file).isFile())
    return fail(response, 404, "no such file");
  response.writeHead(200, {
    "Content-Type": TYPES[extname(file)] ?? "text/plain; charset=utf-8",
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
  });
  return createReadStream(file).pipe(response);
}

async function manage(state, id, verb, response) {
  const found = state.models.find((m) => m.id === id);
  if (!found) return fail(response, 404, `the model ${id} does not exist`, { code: "model_not_found" });
  if (verb === "unload") {
    found.state = "downloaded";
    return send(response, 200, {});
  }
  const emit = openStream(response);
  const stage = verb === "pull" ? "download" : "load";
  for (let step = 0; step <= 10 && !response.destroyed; step += 1) {
    emit({ stage, done_bytes: (found.size_bytes * step) / 10, total_bytes: found.size_bytes });
    await sleep(state.loadMs);
  }
  if (!response.destroyed) found.state = verb === "pull" ? "downloaded" : "loaded";
  emit({ stage: "ready" });
  return response.end("data: [DONE]\n\n");
}

async function chat(mock, body, response) {
  const { state } = mock;
  state.requests.push(body);
  const refused = state.refuse.find((name) => name in body || name in (body.stream_options ?? {}));
  if (refused)
    return fail(response, 400, `${refused} is not supported`, { param: refused, code: "unsupported_parameter" });
  const said = String(body.messages.findLast((m) => m.role === "user")?.content ?? "");
  if (!state.models.some((m) => m.id === body.model))
    return fail(response, 404, `the model ${body.model} does not exist`, { code: "model_not_found" });
  if (state.busy > 0) {
    state.busy -= 1;
    return fail(response, 429, "the queue is full", { type: "rate_limit_error" }, { "Retry-After": "1" });
  }
  if (state.faults > 0 || /\bboom\b/.test(said)) {
    state.faults -= 1;
    return fail(response, 500, "the device was lost");
  }
  if (/\boverflow\b/.test(JSON.stringify(body.messages)) && body.messages.length > 1) {
    return fail(response, 400, "the prompt has 40000 tokens, the context 32768", { code: "context_length_exceeded" });
  }
  await loadOnDemand(
    state,
    state.models.find((m) => m.id === body.model),
  );
  return answer(mock, body, said, response);
}

/** As the real server: the request waits, and the list of models tells how far it is. */
async function loadOnDemand(state, model) {
  if (model.state !== "downloaded") return;
  model.state = "loading";
  for (let step = 0; step <= 10; step += 1) {
    model.progress = { stage: "load", done_bytes: (model.size_bytes * step) / 10, total_bytes: model.size_bytes };
    await sleep(state.loadMs);
  }
  model.state = "loaded";
}

async function answer(mock, body, said, response) {
  const { state } = mock;
  const open = body.continue_final_message ? body.messages.at(-1).content : "";
  const results = body.messages.filter((m) => m.role === "tool");
  const script = scriptFor(said, mock.url, results);
  const stream = state.streams.begin(state.resumable && Boolean(body.stream_options?.resumable), response);
  if (script.queue) await wait(state, script, (value) => stream.emit(value));
  let sent = 0;
  const pieces = [
    ...cut("reasoning_content", open ? "" : (script.reasoning ?? ""), script.size),
    ...cut("content", script.text.slice(open.length), script.size),
    ...(script.calls ?? []).flatMap(callDeltas),
  ];
  for (const piece of pieces) {
    if (stream.gone) break;
    stream.emit(delta(piece));
    sent += 1;
    if (sent === script.breakAfter) stream.breakOff();
    if (sent === script.faultAfter) {
      stream.emit({ error: { message: "the device was lost", code: 503 } });
      return stream.end();
    }
    await sleep(script.pauseMs);
  }
  if (stream.gone) {
    state.stopped = sent;
    return undefined;
  }
  stream.emit(delta({}, script.finish ?? (script.calls ? "tool_calls" : "stop")));
  stream.emit({ choices: [], ...cost(body, sent) });
  stream.emit("[DONE]");
  return stream.end();
}

/** The queue, and the prompt being read. */
async function wait(state, script, emit) {
  for (let ahead = script.queue; ahead > 0; ahead -= 1) {
    emit({ choices: [], prompt_progress: { queue_position: ahead } });
    await sleep(150);
    await until(() => state.holds <= 1);
  }
  for (let done = 1024; done <= script.prefill; done += 512) {
    emit({ choices: [], prompt_progress: { queue_position: 0, total: script.prefill, cache: 1024, processed: done } });
    await sleep(60);
    await until(() => state.holds === 0);
  }
}

function cut(field, text, size = 6) {
  const n = Math.ceil(text.length / size);
  return Array.from({ length: n }, (_, i) => ({ [field]: text.slice(i * size, (i + 1) * size) }));
}

function callDeltas({ name, given }, index) {
  const first = { index, id: `call_${index}`, type: "function", function: { name, arguments: "" } };
  const pieces = cut("arguments", JSON.stringify(given)).map((piece) => ({ index, function: piece }));
  return [first, ...pieces].map((call) => ({ tool_calls: [call] }));
}

function cost(body, sent) {
  const prompt = Math.round(120 + JSON.stringify(body.messages).length / 4);
  return {
    usage: {
      prompt_tokens: prompt,
      completion_tokens: sent,
      total_tokens: prompt + sent,
      prompt_tokens_details: { cached_tokens: 96 },
    },
    timings: {
      queue_ms: 2,
      prefill_ms: 84,
      decode_ms: sent * 9,
      prompt_per_second: 3480.2,
      predicted_per_second: 108.4,
    },
  };
}

const delta = (fields, finish = null) => ({ choices: [{ index: 0, delta: fields, finish_reason: finish }] });

function openStream(response) {
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  response.write(": open\n\n");
  return (value) => response.write(`data: ${JSON.stringify(value)}\n\n`);
}

function send(response, status, value, headers = {}) {
  response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(value));
}

function fail(response, status, message, more = {}, headers = {}) {
  send(response, status, { error: { message, type: "invalid_request_error", code: null, ...more } }, headers);
}

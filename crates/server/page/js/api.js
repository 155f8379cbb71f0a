// Talks to the server: JSON, event streams, and its errors as one type.

import { apiKey } from "./settings.js";
import { events } from "./sse.js";

/** An error inside a stream has no status of its own; its type tells. */
const STATUS_OF = {
  invalid_request_error: 400,
  authentication_error: 401,
  not_found_error: 404,
  rate_limit_error: 429,
  service_unavailable_error: 503,
};

/** What a request has come to when it did not succeed. `status` 0: the server was not reached. */
export class ApiError extends Error {
  constructor({ status, message, code = null, type = null, param = null, retryAfter = null, body = null }) {
    super(message);
    Object.assign(this, { status, code, type, param, retryAfter, body });
  }

  /** From an error object inside a stream. */
  static from(error, status = 500) {
    const body = typeof error === "string" ? { message: error } : (error ?? {});
    const known = typeof body.code === "number" ? body.code : (STATUS_OF[body.type] ?? status);
    return new ApiError({ ...body, status: known, message: String(body.message ?? "The server gave no reason.") });
  }
}

async function request(path, { method = "GET", body, signal, accept = "application/json", headers: more = {} } = {}) {
  const headers = { Accept: accept, ...more };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (apiKey()) headers.Authorization = `Bearer ${apiKey()}`;
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError({ status: 0, message: error.message });
  }
  if (!response.ok) throw await failure(response);
  return response;
}

async function failure(response) {
  const text = await response.text().catch(() => "");
  let error = {};
  let body = null;
  try {
    body = JSON.parse(text);
    error = typeof body.error === "string" ? { message: body.error } : (body.error ?? body);
  } catch {
    error = { message: text.slice(0, 500) };
  }
  const wait = Number(response.headers.get("Retry-After"));
  return new ApiError({
    status: response.status,
    code: error.code ?? null,
    type: error.type ?? null,
    param: error.param ?? null,
    message: String(error.message || response.statusText || `status ${response.status}`),
    body,
    retryAfter: Number.isFinite(wait) && wait > 0 ? Math.min(wait, 600) : null,
  });
}

/** A JSON answer. */
export async function json(path, options) {
  const response = await request(path, options);
  return response.status === 204 ? null : response.json();
}

/**
 * The JSON objects of an event stream, until `[DONE]`. Errors inside it are thrown. `begun` is told the request's id,
 * `at` the id of each event that was taken.
 */
export async function* stream(path, { begun, at, ...options }) {
  const response = await request(path, { ...options, accept: "text/event-stream" });
  begun?.(response.headers.get("x-request-id"));
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
    yield await response.json();
    return;
  }
  let complete = false;
  try {
    for await (const { event, data, id } of events(response.body)) {
      if (data === "[DONE]") {
        complete = true;
        return;
      }
      const value = JSON.parse(data);
      if (value.error) throw ApiError.from(value.error);
      yield value;
      if (id) at?.(id);
      if (event === "done") complete = true;
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    throw new ApiError({ status: 0, code: "stream_lost", message: error.message });
  }
  if (!complete && options.needsDone) {
    throw new ApiError({
      status: 0,
      code: "stream_lost",
      message: "the connection closed before the answer was complete",
    });
  }
}

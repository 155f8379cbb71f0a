// Streams that the server keeps while the page is away: begun, taken up again, forgotten.

import { ApiError, json, stream } from "./api.js";

/** How often a stream that broke is taken up again without a single new event, and how long the first wait is. */
const TRIES_MAX = 3;
const WAIT_MS = 300;

/** The chunks of a stream: of a new one that `body` asks for, or of the one that `reply` was being written by. */
export async function* following(reply, signal, body = null) {
  const at = (id) => {
    if (reply.stream) reply.stream.last = id;
  };
  if (body) {
    const begun = (id) => {
      if (id && body.stream_options.resumable) reply.stream = { id, last: null };
    };
    yield* stream("v1/chat/completions", { method: "POST", body, signal, needsDone: true, begun, at });
    return;
  }
  const { id, last } = reply.stream;
  const headers = last ? { "Last-Event-ID": last } : {};
  try {
    yield* stream(`v1/streams/${encodeURIComponent(id)}`, { headers, signal, needsDone: true, at });
  } catch (error) {
    if (![400, 404, 410].includes(error.status)) throw error;
    // The server has forgotten it: too late, or started anew.
    delete reply.stream;
    throw new ApiError({ status: 0, code: "stream_lost", message: error.message });
  }
}

/** `chunks`, and the rest of their stream whenever the connection breaks, as long as the server keeps it. */
export async function* steady(reply, signal, chunks) {
  for (let tries = 0; ; ) {
    const before = reply.stream?.last;
    try {
      yield* chunks;
      return;
    } catch (error) {
      if (reply.stream?.last !== before) tries = 0;
      const lost = error instanceof ApiError && (error.code === "stream_lost" || error.status === 0);
      if (!lost || !reply.stream || tries >= TRIES_MAX) throw broken(error, reply);
      tries += 1;
      await new Promise((resolve) => setTimeout(resolve, WAIT_MS * tries));
      chunks = following(reply, signal);
    }
  }
}

/** A server that is gone in mid-stream is a lost stream, not one that could not be reached. */
function broken(error, reply) {
  if (!(error instanceof ApiError) || error.status !== 0 || !reply.stream) return error;
  return new ApiError({ status: 0, code: "stream_lost", message: error.message });
}

/** Tells the server that nobody wants the rest. */
export function forget(reply) {
  if (!reply.stream) return;
  // It would end by itself after a while.
  json(`v1/streams/${encodeURIComponent(reply.stream.id)}`, { method: "DELETE" }).catch(() => {});
  delete reply.stream;
}

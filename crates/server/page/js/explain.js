// Errors in words: what happened, what to do, and which button helps.
//
// Actions: "retry", "key" (enter an API key), "models" (choose another), "trim" (leave out the oldest turns), "settings".

/** `{ title, detail, actions, wait }` for an `ApiError`; plain data, so that it can be kept with the message. */
export function explain(error) {
  const { status = 0, code, message, retryAfter } = error;
  const said = sentence(message);
  if (code === "stream_lost") {
    return {
      title: "The connection was lost",
      detail: "What had arrived is kept. Continue the answer, or ask for it again.",
      actions: ["retry"],
    };
  }
  if (code === "context_length_exceeded") {
    return {
      title: "The chat is longer than the model's context",
      detail: `${said} Leave out the oldest turns, or start a new chat.`,
      actions: ["trim", "settings"],
    };
  }
  if (code === "model_not_found" || (status === 404 && /model/i.test(message))) {
    return { title: "The server does not have this model", detail: `${said} Choose another one.`, actions: ["models"] };
  }
  switch (status) {
    case 0:
      return {
        title: "The server cannot be reached",
        detail: `Nothing answers at ${location.host}. Check that zinc is still running there, then try again.`,
        actions: ["retry"],
      };
    case 401:
      return {
        title: "The server wants an API key",
        detail: `${said} Enter one that it was started with.`,
        actions: ["key"],
      };
    case 403:
    case 421:
      return { title: "The server does not accept this address", detail: said, actions: [] };
    case 413:
      return {
        title: "The message is too large for the server",
        detail: `${said} Shorten it or attach less.`,
        actions: [],
      };
    case 429:
      return {
        title: "The server is busy",
        detail: `${said} Your message is kept.`,
        actions: ["retry"],
        wait: retryAfter ?? 5,
      };
    case 503:
      return {
        title: "The server is not ready",
        detail: `${said} Your message is kept.`,
        actions: ["retry", "models"],
        wait: retryAfter,
      };
    case 400:
    case 422:
      return { title: "The server refused the request", detail: said, actions: ["settings", "retry"] };
    default:
      return { title: `The server failed (${status})`, detail: `${said} Its log says more.`, actions: ["retry"] };
  }
}

/** A message of the server as a sentence. */
export function sentence(text) {
  const clean = String(text ?? "")
    .trim()
    .slice(0, 600);
  if (!clean) return "";
  return clean[0].toUpperCase() + clean.slice(1) + (/[.!?…]$/.test(clean) ? "" : ".");
}

// Tools that the model may call: how they are written down, how calls grow, and what of them is sent.
//
// A call is { id, name, arguments, result }: `arguments` is JSON as the model writes it, `result` what the user says the
// tool gave, null until then.

/** Most tools that the server takes. */
const TOOLS_MAX = 256;

/** What the user wrote as tools: `{ tools, error }`. Empty means none. */
export function parseTools(text) {
  if (!text?.trim()) return { tools: [], error: null };
  let list;
  try {
    list = JSON.parse(text);
  } catch (error) {
    return { tools: [], error: `This is not JSON: ${error.message}` };
  }
  if (!Array.isArray(list)) list = [list];
  if (list.length > TOOLS_MAX) return { tools: [], error: `At most ${TOOLS_MAX} tools are taken.` };
  // A bare function is what many write down; the API wants it wrapped.
  const tools = list.map((tool) => (tool?.name ? { type: "function", function: tool } : tool));
  const wrong = tools.findIndex((tool) => typeof tool?.function?.name !== "string");
  if (wrong >= 0) return { tools: [], error: `Tool ${wrong + 1} has no name.` };
  return { tools, error: null };
}

/** Adds what a chunk of the stream says of calls. */
export function grow(calls, deltas) {
  for (const { index = 0, id, function: called = {} } of deltas) {
    while (calls.length <= index) calls.push({ id: "", name: "", arguments: "", result: null });
    const call = calls[index];
    if (id) call.id = id;
    call.name += called.name ?? "";
    call.arguments += called.arguments ?? "";
  }
}

/** Whether every call has its result. */
export const answered = (message) => message.calls?.length > 0 && message.calls.every((call) => call.result !== null);

/** A message with answered calls, as the API has it: the calls, then a message for each result. */
export function asTurns(message) {
  const tool_calls = message.calls.map(({ id, name, arguments: given }) => ({
    id,
    type: "function",
    function: { name, arguments: given },
  }));
  const results = message.calls.map(({ id, result }) => ({ role: "tool", tool_call_id: id, content: result }));
  return [{ role: "assistant", content: message.text || null, tool_calls }, ...results];
}

/** Arguments for people: indented if they are JSON, as they are while they grow. */
export function pretty(given) {
  try {
    return JSON.stringify(JSON.parse(given), null, 2);
  } catch {
    return given;
  }
}

/** Calls of an imported file; nothing is taken that is not of the right type. */
export function importedCalls(list) {
  const text = (value) => (typeof value === "string" ? value : "");
  return list.slice(0, TOOLS_MAX).map((call) => ({
    id: text(call?.id),
    name: text(call?.name),
    arguments: text(call?.arguments),
    result: typeof call?.result === "string" ? call.result : null,
  }));
}

// Server-sent events from a byte stream, as the HTML standard parses them (without `retry`).

/** Longest line that is still taken to be an event. */
const LINE_CHARS_MAX = 8 << 20;

/** Yields `{ event, data, id }` for each event; comments are skipped. */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = { event: "message", data: [], id: "" };
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      if (rest.length > LINE_CHARS_MAX) throw new Error("an event of the stream is too long");
      // A carriage return at the end may be the first half of a line end.
      const whole = rest.endsWith("\r") ? rest.length - 1 : rest.length;
      const lines = rest.slice(0, whole).split(/\r\n|\n|\r/);
      rest = lines.pop() + rest.slice(whole);
      for (const line of lines) {
        if (line === "") {
          if (event.data.length > 0) yield { ...event, data: event.data.join("\n") };
          event = { event: "message", data: [], id: event.id };
        } else {
          field(event, line);
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function field(event, line) {
  const colon = line.indexOf(":");
  if (colon === 0) return;
  const name = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (name === "data") event.data.push(value);
  else if (name === "event") event.event = value;
  else if (name === "id") event.id = value;
}

// Streams of the scripted server: events with ids that outlive their reader, as the real server keeps them.

/** One stream. Its events go to every reader that is there, and later ones get what they lack. */
export class Stream {
  events = [];
  over = false;
  readers = new Set();

  constructor(resumable) {
    this.resumable = resumable;
  }

  /** Whether nobody wants more of it. */
  get gone() {
    return this.over || (!this.resumable && this.readers.size === 0);
  }

  read(response, last = 0) {
    response.writeHead(200, {
      "Content-Type": "text/event-stream",
      "Cache-Control": "no-store",
      ...(this.resumable && { "X-Request-Id": this.id }),
    });
    response.write(`: open\n\n${this.events.slice(last).join("")}`);
    if (this.over) {
      response.end();
      return;
    }
    this.readers.add(response);
    response.on("close", () => this.readers.delete(response));
  }

  emit(value) {
    if (this.over) return;
    const data = typeof value === "string" ? value : JSON.stringify(value);
    const event = `${this.resumable ? `id: ${this.events.length + 1}\n` : ""}data: ${data}\n\n`;
    this.events.push(event);
    for (const reader of this.readers) reader.write(event);
  }

  /** The connection breaks. */
  breakOff() {
    for (const reader of this.readers) reader.destroy();
    this.readers.clear();
  }

  end() {
    this.over = true;
    for (const reader of this.readers) reader.end();
  }
}

/** All streams of a server, by id. */
export class Streams {
  all = new Map();

  begin(resumable, response) {
    const stream = new Stream(resumable);
    stream.id = `req-${this.all.size + 1}`;
    this.all.set(stream.id, stream);
    stream.read(response);
    return stream;
  }

  /** `GET` goes on with a stream, `DELETE` ends it; false if there is none. */
  handle(id, request, response) {
    const stream = this.all.get(id);
    if (!stream?.resumable) return false;
    if (request.method === "DELETE") {
      this.all.delete(id);
      stream.end();
      response.writeHead(200, { "Content-Type": "application/json" }).end("{}");
    } else {
      stream.read(response, Number(request.headers["last-event-id"] ?? 0));
    }
    return true;
  }
}

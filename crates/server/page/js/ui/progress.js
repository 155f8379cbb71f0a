// What happens before and during an answer: queue, loading, reading the prompt, thinking.

import { html, useEffect, useState } from "./base.js";
import { bytes, count, duration, rate } from "../format.js";
import { Icon } from "./icons.js";
import { Markdown } from "./markdown.js";

/** Draws the calling component again twice a second while `on`. */
function useClock(on) {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!on) return undefined;
    const timer = setInterval(() => tick((n) => n + 1), 500);
    return () => clearInterval(timer);
  }, [on]);
}

/** The line below an answer that is on its way. */
export function Phase({ live }) {
  const { phase, started } = live;
  useClock(true);
  if (phase.kind === "answer" || phase.kind === "thinking")
    return html`<div class="phase tabular">${speed(live)}</div>`;
  const { words, share } = describe(phase, performance.now() - started);
  return html`<div class="phase">
    <span class="spinner" aria-hidden="true"></span>
    <span class="tabular">${words}</span>
    ${share !== null && html`<progress max="1" value=${share} aria-label=${words}></progress>`}
  </div>`;
}

/** Tokens per second so far; a delta is a token, near enough. The server's own figure replaces it at the end. */
function speed({ tokens, firstToken, isKept }) {
  if (isKept) return "";
  const seconds = (performance.now() - firstToken) / 1000;
  return tokens > 8 && seconds > 0.4 ? rate((tokens - 1) / seconds) : "";
}

function describe(phase, waitedMs) {
  if (phase.kind === "load") {
    const known = phase.total_bytes > 0;
    const verb = phase.stage === "download" ? "Downloading the model" : "Loading the model";
    return {
      words: known ? `${verb} ${bytes(phase.done_bytes)} of ${bytes(phase.total_bytes)}` : `${verb} …`,
      share: known ? phase.done_bytes / phase.total_bytes : null,
    };
  }
  if (phase.queue_position > 0) {
    return { words: `In the queue, ${count(phase.queue_position)} ahead`, share: null };
  }
  if (phase.total > 0) {
    const cached = phase.cache > 0 ? ` (${count(phase.cache)} cached)` : "";
    return {
      words: `Reading ${count(phase.processed)} of ${count(phase.total)} tokens${cached}`,
      share: phase.processed / phase.total,
    };
  }
  return { words: waitedMs > 1500 ? `Waiting ${duration(waitedMs)}` : "Waiting", share: null };
}

/** The model's thinking: open while it thinks, folded once the answer begins, unless the reader says otherwise. */
export function Thinking({ message, live }) {
  const [chosen, setChosen] = useState(null);
  const thinking = Boolean(live) && live.phase.kind === "thinking";
  useClock(thinking);
  const open = chosen ?? thinking;
  const ms = (message.reasoningMs ?? 0) + (thinking && live.thinkingSince ? performance.now() - live.thinkingSince : 0);
  const time = ms < 1000 ? "a moment" : duration(ms);
  const label = thinking ? `Thinking${ms < 1000 ? "" : ` ${time}`}` : `Thought for ${time}`;
  return html`<section class=${`thinking ${thinking ? "active" : ""}`}>
    <button type="button" class="thinking-head quiet" aria-expanded=${open} onClick=${() => setChosen(!open)}>
      <${Icon} name="thought" /><span class="tabular">${ms > 0 || thinking ? label : "Thinking"}</span><${Icon} name="down" />
    </button>
    ${open && html`<div class="thinking-body"><${Markdown} text=${message.reasoning} final=${!thinking} /></div>`}
  </section>`;
}

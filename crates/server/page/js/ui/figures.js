// How fast an answer was and what it cost; the short form opens the long one.

import { html, useState } from "./base.js";
import { count, duration, rate } from "../format.js";

export function Figures({ message, name }) {
  const [open, setOpen] = useState(false);
  const { usage, timings, firstTokenMs, model } = message;
  const rows = [
    model && ["Model", name],
    timings?.predicted_per_second > 0 && ["Speed", rate(timings.predicted_per_second)],
    usage && ["Answer", `${count(usage.completion_tokens)} tokens`],
    usage && ["Prompt", `${count(usage.prompt_tokens)} tokens${cachedOf(usage)}`],
    timings?.prompt_per_second > 0 && ["Reading", rate(timings.prompt_per_second)],
    firstTokenMs && ["First token after", duration(firstTokenMs)],
    timings?.queue_ms >= 1 && ["In the queue", duration(timings.queue_ms)],
  ].filter(Boolean);
  if (!(message.text || message.calls) || rows.length === 0) return null;
  const speed = timings?.predicted_per_second > 0 ? rate(timings.predicted_per_second) : null;
  const brief = [speed, usage && `${count(usage.completion_tokens)} tokens`].filter(Boolean).join(" · ") || name;
  const leave = (event) => !event.currentTarget.contains(event.relatedTarget) && setOpen(false);
  const keys = (event) => {
    if (event.key !== "Escape" || !open) return;
    event.stopPropagation();
    setOpen(false);
  };
  return html`<span class="figures" onFocusOut=${leave} onKeyDown=${keys}>
    <button type="button" class="quiet small tabular" aria-expanded=${open} onClick=${() => setOpen(!open)}>${brief}</button>
    ${
      open &&
      html`<dl class="figures-all">${rows.map(
        ([label, value]) => html`<div key=${label}>
      <dt>${label}</dt><dd class="tabular">${value}</dd></div>`,
      )}</dl>`
    }
  </span>`;
}

function cachedOf({ prompt_tokens_details: details }) {
  return details?.cached_tokens > 0 ? `, ${count(details.cached_tokens)} of them cached` : "";
}

// The models: what is loaded, what is on disk, what can be fetched, and whether it fits.

import { html } from "./base.js";
import { bytes, short } from "../format.js";
import { cancel, choose, modelFor, modelState, refresh, start, unload } from "../models.js";
import { closePanel } from "../store.js";
import { Button, Icon } from "./icons.js";
import { Panel } from "./panel.js";

const GROUPS = [
  ["Loaded", ["loaded"]],
  ["On this machine", ["downloaded", "loading", "failed"]],
  ["To download", ["available"]],
];

export function ModelsPanel({ state }) {
  const { list, memory, error } = state.models;
  const current = modelFor(state.current);
  const groups = GROUPS.map(([name, states]) => [name, list.filter((m) => states.includes(modelState(m)))]);
  return html`<${Panel} title="Models" kind="models">
    ${memory?.total_bytes > 0 && html`<${Memory} memory=${memory} />`}
    ${error && html`<p class="notice warn"><${Icon} name="warning" /><span><b>${error.title}.</b> ${error.detail}</span></p>`}
    ${
      !error &&
      list.length === 0 &&
      html`<p class="faint">The server offers no model.
      Fetch one with <code>zinc model pull</code>, or start the server with <code>-m FILE</code>.</p>`
    }
    ${groups.map(
      ([name, models]) =>
        models.length > 0 &&
        html`<section key=${name} aria-label=${name}>
      <h3>${name}</h3>
      <ul class="models-list">${models.map(
        (model) => html`<${Row} key=${model.id}
        state=${state} model=${model} current=${model.id === current} />`,
      )}</ul>
    </section>`,
    )}
    <div class="buttons"><button type="button" class="quiet" onClick=${refresh}><${Icon} name="retry" /> Look again</button></div>
  <//>`;
}

function Memory({ memory }) {
  const { used_bytes = 0, total_bytes, device } = memory;
  return html`<div class="memory">
    <span>${device ?? "Memory"}</span><span class="tabular faint">${bytes(used_bytes)} of ${bytes(total_bytes)} used</span>
    <meter min="0" max=${total_bytes} value=${used_bytes} high=${total_bytes * 0.95} aria-label="Memory in use"></meter>
  </div>`;
}

function Row({ state, model, current }) {
  const job = state.jobs.get(model.id);
  const facts = [
    model.quantization,
    model.size_bytes > 0 && bytes(model.size_bytes),
    model.context_length > 0 && `${short(model.context_length)} context`,
    modelState(model) !== "loaded" && fit(model),
  ].filter(Boolean);
  const use = async () => {
    const kind = { downloaded: "load", failed: "load", available: "pull" }[modelState(model)];
    const conversation = state.current;
    if (kind === "pull" && (job || !(await start("pull", model)))) return;
    choose(conversation, model.id);
    if (!kind) closePanel();
    else if (!job) await start("load", model);
  };
  return html`<li class=${current ? "model current" : "model"}>
    <button type="button" class="model-row" aria-pressed=${current} onClick=${use}>
      <span class="model-title">
        <span class="clip">${model.name ?? model.id}</span>${current && html`<${Icon} name="check" />`}</span>
      <span class="model-facts faint">${facts.map((fact, i) => html`${i > 0 && " · "}${fact}`)}</span>
      ${
        modelState(model) === "failed" &&
        html`<span class="bad">
        ${model.error ?? "It could not be loaded."} Choose it to try again.</span>`
      }
      ${model.chat === false && html`<span class="bad">Has no chat template: it completes text only.</span>`}
    </button>
    ${job && html`<${Job} ...${job} cancel=${job.kind === "pull" && (() => cancel(model.id))} />`}
    ${
      !job &&
      model.state === "loading" &&
      html`<${Job} stage=${model.progress?.stage}
      done=${model.progress?.done_bytes} total=${model.progress?.total_bytes} />`
    }
    ${!job && html`<${Verb} model=${model} />`}
  </li>`;
}

function fit(model) {
  if (typeof model.fits !== "boolean") return null;
  const needs = model.memory_bytes > 0 ? ` (needs ${bytes(model.memory_bytes)})` : "";
  return model.fits
    ? html`<span class="good">fits in memory${needs}</span>`
    : html`<span class="bad">does not fit${needs}</span>`;
}

function Verb({ model }) {
  const name = model.name ?? model.id;
  const run = (kind) => () => start(kind, model);
  switch (model.state) {
    case "loaded":
      return html`<${Button} class="quiet small" aria-label=${`Unload ${name}`} onClick=${() => unload(model)}>Unload<//>`;
    case "downloaded":
    case "failed":
      return html`<button type="button" class="small" aria-label=${`Load ${name}`} onClick=${run("load")}>Load</button>`;
    case "available":
      return html`<button type="button" class="small" aria-label=${`Download ${name}`} onClick=${run("pull")}>Download</button>`;
    default:
      return null;
  }
}

/** A load or download; a download that this page has begun ends with its stream, so it can be cancelled. */
function Job({ stage, done, total, cancel: stop }) {
  const known = total > 0;
  const verb = stage === "download" ? "Downloading" : "Loading";
  return html`<div class="job">
    <progress max="1" value=${known ? done / total : undefined} aria-label=${verb}></progress>
    <span class="faint tabular">${verb}${known ? ` ${bytes(done)} of ${bytes(total)}` : " …"}</span>
    ${stop && html`<button type="button" class="quiet small" onClick=${stop}>Cancel</button>`}
  </div>`;
}

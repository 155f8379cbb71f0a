// What the scripted server knows and does: tests change it while it runs.

import { Streams } from "./streams.mjs";

export const GB = 1e9;

/** As a test finds it. */
export function freshState() {
  return {
    key: null,
    ready: true,
    requests: [],
    leaks: [],
    busy: 0,
    faults: 0,
    refuse: [],
    holds: 0, // of 2: the queue lasts until one is taken away, the prompt until the other is
    unanswered: 0, // requests for the list of models that hang
    resumable: true,
    streams: new Streams(),
    loadMs: 20,
    models: [
      model("qwen35-2b-q4k-m", "Qwen3.5 2B", "loaded", 1.5, { reasoning: true, context_length: 32768 }),
      model("qwen35-35b-a3b-q4k-xl", "Qwen3.5 35B-A3B", "downloaded", 21.7, { reasoning: true, context_length: 65536 }),
      model("gpt-oss-20b-mxfp4", "gpt-oss 20B", "available", 12.1, { context_length: 131072, quantization: "MXFP4" }),
      model("gpt-oss-120b-mxfp4", "gpt-oss 120B", "available", 63.4, {
        context_length: 131072,
        quantization: "MXFP4",
        fits: false,
      }),
    ],
  };
}

function model(id, name, state, gigabytes, more) {
  return {
    id,
    object: "model",
    created: 0,
    owned_by: "zinc",
    name,
    state,
    size_bytes: gigabytes * GB,
    memory_bytes: gigabytes * 1.15 * GB,
    fits: true,
    quantization: "Q4_K_M",
    default_sampling: { temperature: 0.6, top_p: 0.95, top_k: 20, min_p: 0 },
    ...more,
  };
}

// What the mock model says: a few texts, chosen by a word in the user's message.

import { readFileSync } from "node:fs";

const file = (name) => readFileSync(new URL(name, import.meta.url), "utf8");

export const SHORT = "Zinc is a bluish-white metal. It melts at **419.5 °C** and burns with a blue-green flame.";

export const LONG = Array.from(
  { length: 60 },
  (_, i) =>
    `Paragraph ${i + 1}. A long answer gives the reader time to stop it, to scroll away from its end, or to reload the page in the middle.`,
).join("\n\n");

export const THINKING =
  "The user asks a simple question.\n\nI should recall the *melting point* of zinc: 692.7 K. That is $692.7 - 273.15 = 419.5$ °C.";

export const MARKDOWN = `The recurrence below is the heart of flash attention: it needs one pass over the keys and no matrix of scores.

## Online softmax

For each block of keys the running maximum $m$ and the running sum $\\ell$ are updated:

$$
m' = \\max(m, \\tilde m), \\qquad \\ell' = e^{m - m'}\\,\\ell + \\sum_j e^{s_j - m'}, \\qquad \\vec{o}' = e^{m - m'}\\,\\vec{o} + \\sum_j e^{s_j - m'}\\,\\vec{v}_j
$$

Written down plainly:

\`\`\`rust
/// Folds one block of scores into the running state.
fn fold(state: &mut State, scores: &[f32], values: &[[f32; D]]) {
    let m = scores.iter().copied().fold(state.max, f32::max);
    let scale = (state.max - m).exp(); // 1.0 when the maximum stays
    state.sum *= scale;
    for (s, v) in scores.iter().zip(values) {
        let p = (s - m).exp();
        state.sum += p;
        for (o, x) in state.out.iter_mut().zip(v) {
            *o = *o * scale + p * x;
        }
    }
    state.max = m;
}
\`\`\`

| Method | Passes | Memory | Exact |
|:--|--:|--:|:-:|
| Naive softmax | 3 | $O(n^2)$ | yes |
| Online softmax | 1 | $O(n)$ | yes |
| Linear attention | 1 | $O(d^2)$ | no |

1. Scores of a block are computed in registers.
2. The state is rescaled *only if* the maximum has grown.
3. At the end, the output is divided by $\\ell$.

> The price of a second pass is bandwidth, and bandwidth is what a local machine has least of.

It costs about \\$5 or \\$6 of electricity a day; see [the paper](https://arxiv.org/abs/2205.14135).`;

/** What the mock model calls when it is asked for the weather. */
export const WEATHER = [
  { name: "get_weather", given: { city: "Bern", unit: "celsius", days: ["today", "tomorrow"] } },
  { name: "get_time", given: { city: "Bern" } },
];

export const hostile = (host) => file("hostile.txt").replaceAll("HOST", host);

/** The script for a request: pieces of text, the pause between them, and what goes wrong. */
export function scriptFor(said, host, results = []) {
  const word = (name) => new RegExp(`\\b${name}\\b`, "i").test(said);
  if (word("weather") && results.length > 0) return { text: `It is ${results[0].content}.`, pauseMs: 5 };
  if (word("weather")) return { text: "", calls: WEATHER, pauseMs: 8 };
  if (word("hostile")) return { text: hostile(host), pauseMs: 1, size: 7 };
  if (word("long")) return { text: LONG, pauseMs: 12, size: 9 };
  if (word("think") || word("melt")) return { reasoning: THINKING, text: SHORT, pauseMs: 50 };
  if (word("markdown") || word("softmax")) return { text: MARKDOWN, pauseMs: 2, size: 5 };
  if (word("prefill")) return { text: SHORT, pauseMs: 5, queue: 2, prefill: 4096 };
  if (word("break")) return { text: LONG, pauseMs: 5, breakAfter: 40 };
  if (word("fault")) return { text: LONG, pauseMs: 5, faultAfter: 10 };
  if (word("empty")) return { text: "", pauseMs: 1 };
  if (word("limit")) return { text: LONG.slice(0, 200), pauseMs: 2, finish: "length" };
  return { text: SHORT, pauseMs: 25 };
}

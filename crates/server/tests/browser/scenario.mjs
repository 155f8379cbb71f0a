// The list of tests and the loop that runs them, one page each, with a screenshot of what failed.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { tmpdir } from "node:os";

const SHOTS = join(tmpdir(), "zinc-page-failures");
const scenarios = [];

/** Registers a test. `needs: "mock"` marks those that need a scripted answer; `open` are options of the page. */
export function scenario(name, options, body) {
  scenarios.push({ name, ...options, body });
}

/** Runs them; the number that failed. */
export async function run({ browser, mock, base, key, only }) {
  const chosen = scenarios.filter((s) => !only || s.name.includes(only));
  const skipped = chosen.filter((s) => s.needs === "mock" && !mock);
  for (const { name } of skipped) console.log(`SKIP ${name}: needs the scripted server`);
  let failed = 0;
  for (const one of chosen.filter((s) => !skipped.includes(s))) {
    mock?.reset();
    const options = { ...one.open, ...(mock ? {} : forRealModel(key)) };
    if (!(await passes(one, { browser, mock, base, options }))) failed += 1;
  }
  console.log(`${chosen.length - failed - skipped.length} passed, ${failed} failed, ${skipped.length} skipped`);
  return failed;
}

/** A real model gets a minute, and is kept short. */
function forRealModel(key) {
  const stored = { "zinc-settings": '{"sampling":{"max_tokens":200}}' };
  if (key) stored["zinc-api-key"] = key;
  return { timeout: 60_000, stored };
}

async function passes({ name, body }, { browser, mock, base, options }) {
  const started = performance.now();
  let chat = null;
  try {
    chat = await browser.open(base, options);
    await body(chat, { mock, base, browser });
    if (chat.complaints.length > 0) throw new Error("the page complained");
    console.log(`ok   ${name} (${Math.round(performance.now() - started)} ms)`);
    return true;
  } catch (error) {
    mkdirSync(SHOTS, { recursive: true });
    const shot = join(SHOTS, `${name.replace(/\W+/g, "-")}.png`);
    await chat?.page.screenshot({ path: shot }).catch(() => {});
    const lines = String(error.stack ?? error)
      .split("\n")
      .slice(0, 12);
    console.log([`FAIL ${name}`, ...lines, `screen: ${shot}`, ...(chat?.complaints ?? [])].join("\n     "));
    return false;
  } finally {
    await chat?.closePage().catch(() => {});
  }
}

// A browser, fresh pages in it, and the gestures that the tests share.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const FLAGS = [
  "--headless=new",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Starts the browser; `open` gives a page of its own profile, and says afterwards what the page complained of. */
export async function startBrowser(executablePath) {
  const browser = await chromium.launch({ executablePath, args: FLAGS });
  return { open: (base, options) => openPage(browser, base, options), close: () => browser.close() };
}

async function openPage(
  browser,
  base,
  { width = 1200, height = 850, dark = false, touch = false, hostile = false, timeout = 20_000, stored = {} } = {},
) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? "dark" : "light",
    acceptDownloads: true,
    hasTouch: touch,
    isMobile: touch,
    permissions: ["clipboard-read", "clipboard-write"],
  });
  const page = await context.newPage();
  page.setDefaultTimeout(timeout);
  await context.addInitScript((items) => {
    for (const [name, value] of Object.entries(items))
      if (localStorage.getItem(name) === null) localStorage.setItem(name, value);
  }, stored);
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // Failed requests are part of some tests, and hostile text is refused aloud already when it is parsed, before the
    // sanitiser drops it. Other faults, and breaches of the policy by the page itself, never are.
    const expected =
      /Failed to load resource/.test(message.text()) ||
      (hostile && /Content Security Policy|TrustedScript/.test(message.text()));
    if (message.type() === "error" && !expected) complaints.push(message.text().slice(0, 300));
  });
  page.on("dialog", (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  await page.goto(base);
  await page.locator("#composer-text").waitFor();
  return new Chat(page, context, complaints);
}

export class Chat {
  constructor(page, context, complaints) {
    Object.assign(this, { page, context, complaints });
  }

  box() {
    return this.page.locator("#composer-text");
  }
  answers() {
    return this.page.locator("article.assistant");
  }
  lastAnswer() {
    return this.answers().last();
  }
  button(name, within = this.page) {
    return within.getByRole("button", { name, exact: true });
  }
  /** Words in the thread (the live region says many of them too). */
  text(words) {
    return this.page.locator(".thread").getByText(words).first();
  }
  toast(text) {
    return this.page.locator(".toast", { hasText: text });
  }

  async say(text) {
    await this.box().fill(text);
    await this.box().press("Enter");
  }

  /** What the last answer says. */
  prose() {
    return this.lastAnswer().locator(".answer > .prose").innerText();
  }

  /** Waits until the last answer has this many characters. */
  async grownTo(n) {
    await this.page.waitForFunction((least) => {
      const answers = document.querySelectorAll("article.assistant .answer > .prose");
      return answers.length > 0 && answers[answers.length - 1].innerText.length >= least;
    }, n);
  }

  /** Waits until nothing streams. */
  async settled() {
    await this.button("Send").waitFor();
    await this.page.locator("article.assistant.last .actions, article.assistant.last .fault").first().waitFor();
  }

  async ask(text) {
    await this.say(text);
    await this.settled();
    return this.lastAnswer().innerText();
  }

  async closePage() {
    await this.context.close();
  }
}

/** Waits until something holds on this side. */
export async function until(holds) {
  const end = Date.now() + 20_000;
  while (!holds()) {
    if (Date.now() > end) throw new Error(`never: ${holds}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** A folder for downloads, gone at exit. */
export function scratch() {
  const folder = mkdtempSync(join(tmpdir(), "zinc-page-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

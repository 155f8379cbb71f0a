// Keyboard, names, contrast, small screens, themes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Waits for all that fades in or out: text on its way has the contrast of neither end. */
const still = (chat) =>
  chat.page.evaluate(() => {
    const ending = document.getAnimations().filter((a) => a.effect.getComputedTiming().endTime !== Infinity);
    return Promise.all(ending.map((a) => a.finished.catch(() => {}))).then(() => {});
  });

/** Faults that axe finds, as readable lines. */
async function faults(chat) {
  await chat.page.evaluate(axe);
  await still(chat);
  const { violations } = await chat.page.evaluate(() =>
    window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }),
  );
  return violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(" ")} ${n.any[0]?.message ?? v.help}`));
}

const noSideways = async (chat) => {
  const wide = await chat.page.evaluate(() => {
    const limit = document.documentElement.clientWidth;
    const clipped = (n) => n.closest(".table, .code pre, .math, .visually-hidden, .clip, .katex-mathml");
    return [...document.querySelectorAll("body *")]
      .filter((n) => n.getBoundingClientRect().right > limit + 1 && !clipped(n))
      .map((n) => `${n.tagName}.${n.className}`);
  });
  assert.deepEqual(wide, []);
  assert.ok(await chat.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
};

export default function suite(scenario) {
  for (const dark of [false, true]) {
    scenario(`axe finds nothing: ${dark ? "dark" : "light"}`, { needs: "mock", open: { dark } }, async (chat) => {
      assert.deepEqual(await faults(chat), []);
      await chat.ask("think");
      await chat.ask("markdown");
      await chat.page.locator(".hljs-keyword").first().waitFor();
      await chat.ask("boom");
      assert.deepEqual(await faults(chat), []);
      for (const shortcut of ["Alt+m", "Alt+s", "Control+/"]) {
        await chat.page.keyboard.press(shortcut);
        await chat.page.locator("dialog[open]").waitFor();
        assert.deepEqual(await faults(chat), [], shortcut);
        await chat.page.keyboard.press("Escape");
        await chat.page.locator("dialog").waitFor({ state: "detached" });
      }
    });
  }

  scenario(
    "by keyboard alone: send, edit, switch version, new chat, rename, delete",
    { needs: "mock" },
    async (chat) => {
      const { keyboard } = chat.page;
      await keyboard.type("hello keys");
      await keyboard.press("Enter");
      await chat.settled();
      await keyboard.press("ArrowUp");
      await keyboard.press("Control+A");
      await keyboard.type("hello again");
      await keyboard.press("Control+Enter");
      await chat.settled();
      await chat.page.locator(".branches button").first().focus();
      await keyboard.press("Enter");
      await chat.text("1 / 2").waitFor();
      await keyboard.press("Control+Shift+O");
      await keyboard.type("hello two");
      await keyboard.press("Enter");
      await chat.settled();
      await keyboard.press("Control+K");
      await keyboard.type("keys");
      await chat.page.waitForFunction(() => document.querySelectorAll(".row").length === 1);
      await keyboard.press("Tab");
      await keyboard.press("F2");
      await keyboard.type("Renamed");
      await keyboard.press("Enter");
      await chat.page.locator(".row", { hasText: "Renamed" }).waitFor();
      await keyboard.press("Control+B");
      await chat.page.locator(".sidebar").waitFor({ state: "detached" });
      // The row that had the focus has gone.
      await chat.page.waitForFunction(() => document.activeElement.getAttribute("aria-label") === "Show chats");
      await keyboard.press("Shift+Escape");
      await chat.page.waitForFunction(() => document.activeElement.id === "composer-text");
      await keyboard.press("Control+B");
      await chat.page.locator(".sidebar").waitFor();
      await keyboard.type("still here");
      assert.equal(await chat.box().inputValue(), "still here");
    },
  );

  scenario("a panel holds the focus and gives it back", {}, async (chat) => {
    await chat.button("Chat settings").focus();
    await chat.page.keyboard.press("Enter");
    await chat.page.locator("dialog[open]").waitFor();
    for (let i = 0; i < 60; i += 1) {
      await chat.page.keyboard.press("Tab");
      assert.ok(
        await chat.page.evaluate(
          () => document.activeElement === document.body || Boolean(document.activeElement.closest("dialog")),
        ),
      );
    }
    await chat.page.keyboard.press("Escape");
    await chat.page.locator("dialog").waitFor({ state: "detached" });
    assert.equal(await chat.page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Chat settings");
  });

  scenario("screen readers hear the beginning and the end, not every token", { needs: "mock" }, async (chat) => {
    await chat.page.evaluate(() => {
      window.heard = [];
      const status = document.querySelector('[role="status"].visually-hidden');
      new MutationObserver(() => window.heard.push(status.textContent)).observe(status, {
        childList: true,
        characterData: true,
        subtree: true,
      });
    });
    await chat.ask("hello");
    const heard = await chat.page.evaluate(() => window.heard);
    assert.ok(heard.length <= 4 && heard.at(-1).startsWith("Answer complete."), heard.join(" | "));
    assert.equal(await chat.page.locator(".thread [aria-live]").count(), 0);
  });

  for (const width of [320, 390]) {
    scenario(
      `phone, ${width} px: nothing sideways, everything within reach`,
      { needs: "mock", open: { width, height: 700, touch: true } },
      async (chat) => {
        await noSideways(chat);
        await chat.box().fill("markdown");
        await chat.button("Send").tap();
        await chat.settled();
        await chat.page.locator(".math .katex").first().waitFor();
        await noSideways(chat);
        await chat.box().fill("boom");
        await chat.button("Send").tap();
        await chat.settled();
        await chat.button("Show chats").tap();
        await chat.page.locator(".sidebar").waitFor();
        await noSideways(chat);
        await chat.page.locator(".row-title").first().tap();
        await chat.page.locator(".sidebar").waitFor({ state: "detached" });
        for (const label of ["Chat settings", /change model/]) {
          await chat.page.getByRole("button", { name: label }).tap();
          await chat.page.locator("dialog[open]").waitFor();
          await noSideways(chat);
          await chat.button("Close").tap();
        }
      },
    );
  }

  scenario("the theme follows the system, and a choice is kept", {}, async (chat) => {
    const theme = () => chat.page.evaluate(() => document.documentElement.dataset.theme);
    assert.equal(await theme(), "light");
    await chat.page.emulateMedia({ colorScheme: "dark" });
    await chat.page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
    await chat.button("Theme: system").click();
    assert.equal(await theme(), "light");
    await chat.page.reload();
    assert.equal(await theme(), "light");
  });
}

// Takes the screenshots of `docs/` and of every state worth looking at: `node screens.mjs FOLDER`.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { startBrowser } from "./harness.mjs";
import { startMock } from "./mock.mjs";

const folder = process.argv[2] ?? "screens";
mkdirSync(folder, { recursive: true });
const mock = await startMock();
const browser = await startBrowser("/usr/bin/chromium");

async function shoot(name, options, steps) {
  if (process.argv[3] && !name.includes(process.argv[3])) return;
  mock.reset();
  const chat = await browser.open(mock.url, options);
  await steps(chat);
  await chat.page.evaluate(() => document.fonts.ready);
  await chat.page.waitForTimeout(250);
  await chat.page.screenshot({ path: join(folder, `${name}.png`) });
  console.log(name, chat.complaints.join(" | "));
  await chat.closePage();
}

const history = async (chat) => {
  for (const title of ["Why is zinc used on steel?", "Compare RDNA3 and RDNA4"]) {
    await chat.ask(title);
    await chat.button("New chat").click();
  }
};
const markdown = async (chat) => {
  await chat.ask("Explain the online softmax, with code");
  await chat.page.locator(".katex").first().waitFor();
  await chat.page.locator(".hljs-keyword").first().waitFor();
  await chat.page.locator(".thread").evaluate((t) => {
    t.scrollTop = 0;
  });
};
const wide = { width: 1280, height: 860 };
const phone = { width: 390, height: 844, touch: true };

for (const dark of [false, true]) {
  const suffix = dark ? "dark" : "light";
  await shoot(`desktop-${suffix}`, { ...wide, dark }, async (chat) => {
    await history(chat);
    await markdown(chat);
  });
  await shoot(`end-${suffix}`, { ...wide, dark }, async (chat) => {
    await chat.ask("At what temperature does zinc melt?");
    await chat.ask("markdown");
    await chat
      .button("108 tok/s · 445 tokens")
      .click()
      .catch(() => {});
    await chat.page.locator(".figures button").last().click();
  });
  await shoot(`empty-${suffix}`, { ...wide, dark }, async () => {});
  await shoot(`models-${suffix}`, { ...wide, dark }, async (chat) => {
    mock.state.loadMs = 400;
    await chat.page.locator(".model-button").click();
    await chat.button("Load Qwen3.5 35B-A3B").click();
    await chat.page.waitForTimeout(1500);
  });
  await shoot(`settings-${suffix}`, { ...wide, dark }, async (chat) => {
    await chat.button("Chat settings").click();
    await chat.page.getByLabel("Temperature", { exact: true }).fill("0.3");
    await chat.page.getByLabel("Temperature", { exact: true }).press("Tab");
  });
  await shoot(`errors-${suffix}`, { ...wide, dark }, async (chat) => {
    await chat.ask("Why is zinc used on steel?");
    await chat.ask("And what does overflow mean here?");
    await chat.page.waitForTimeout(100);
    mock.state.busy = 9;
    await chat.ask("Is it the same for aluminium?");
    await chat.page.route(`${mock.url}/ready`, (route) => route.abort());
    await chat.page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await chat.page.locator(".notice").waitFor();
  });
  await shoot(`thinking-${suffix}`, { ...wide, dark }, async (chat) => {
    await chat.say("At what temperature does zinc melt?");
    await chat.page.getByText("melting point").waitFor();
    await chat.page.waitForTimeout(300);
  });
  await shoot(`phone-${suffix}`, { ...phone, dark }, async (chat) => {
    await chat.box().fill("Explain the online softmax");
    await chat.button("Send").tap();
    await chat.settled();
    await chat.page.locator(".katex").first().waitFor();
    await chat.page.locator(".thread").evaluate((t) => {
      t.scrollTop = 0;
    });
  });
  await shoot(`phone-chats-${suffix}`, { ...phone, dark }, async (chat) => {
    await chat.box().fill("hello");
    await chat.button("Send").tap();
    await chat.settled();
    await chat.button("Show chats").tap();
  });
}
for (const dark of [false, true]) {
  await shoot(`tools-${dark ? "dark" : "light"}`, { ...wide, dark }, async (chat) => {
    await chat.ask("What is the weather in Bern?");
    await chat.page.getByLabel("Result of get_weather").fill("sunny, 24 degrees");
    await chat.page.getByLabel("Result of get_time").fill("12:40");
    await chat.button("Send results").click();
    await chat.settled();
    await chat.ask("How does the weather look?");
  });
}
await shoot("tools-settings", wide, async (chat) => {
  await chat.button("Chat settings").click();
  await chat.button("Add tools").click();
  await chat.page.getByLabel("Tools").fill('[{"name": "get_weather", "parameters": {"type": "object"}}]');
});
await shoot("tools-phone", phone, async (chat) => {
  await chat.box().fill("weather");
  await chat.button("Send").tap();
  await chat.settled();
});
await shoot("prefill", wide, async (chat) => {
  await chat.say("Go through this file: prefill");
  await chat.page.getByText("Reading").first().waitFor();
});
await shoot("edit", wide, async (chat) => {
  await chat.ask("hello");
  await chat.button("Regenerate").click();
  await chat.settled();
  await chat.page.locator("article.user").hover();
  await chat.button("Edit and send again").click();
});
await shoot("hostile", { ...wide, hostile: true }, async (chat) => {
  await chat.ask("hostile");
  await chat.page.locator(".thread").evaluate((t) => {
    t.scrollTop = 0;
  });
});
await shoot("help", wide, async (chat) => {
  await chat.page.keyboard.press("Control+/");
});
await shoot("key", wide, async (chat) => {
  mock.state.key = "k";
  await chat.ask("hello");
});
await shoot("narrow", { width: 320, height: 640, touch: true }, async (chat) => {
  await chat.box().fill("think");
  await chat.button("Send").tap();
  await chat.settled();
});
await browser.close();
mock.close();

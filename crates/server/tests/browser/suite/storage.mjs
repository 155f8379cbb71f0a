// What is kept: reload, list, search, rename, delete, export, import, files.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LONG } from "../answers.mjs";
import { scratch, until } from "../harness.mjs";

const row = (chat, title) => chat.page.locator(".row", { hasText: title });
const menu = async (chat, title, item) => {
  await row(chat, title).hover();
  await chat.button(`More for ${title}`).click();
  await chat.page.getByRole("menuitem", { name: item }).click();
};
const save = async (chat, click) => {
  const [download] = await Promise.all([chat.page.waitForEvent("download"), click()]);
  const path = join(scratch(), download.suggestedFilename());
  await download.saveAs(path);
  return path;
};

export default function suite(scenario) {
  scenario("reload in mid-stream: the answer goes on by itself", {}, async (chat, { mock }) => {
    await chat.say("Tell me a long story about zinc.");
    await chat.grownTo(120);
    await chat.page.waitForTimeout(600); // The store is written twice a second.
    const before = await chat.prose();
    await chat.page.reload();
    await chat.grownTo(before.length + 60);
    assert.equal(await chat.page.getByText(/Cut off/).count(), 0);
    const after = await chat.prose();
    assert.ok(after.startsWith(before), `${before}\n--\n${after}`);
    if (mock) assert.ok(LONG.replace(/\s+/g, " ").startsWith(after.replace(/\s+/g, " ")), after);
    if (mock) assert.equal(mock.state.requests.length, 1);
    await chat.button("Stop").click();
    await chat.text("Stopped.").waitFor();
    if (mock) await until(() => mock.state.stopped > 0);
  });

  scenario("reload after the end: what was missed is there", { needs: "mock" }, async (chat, { mock }) => {
    await chat.say("hello");
    await chat.grownTo(10);
    await chat.page.waitForTimeout(600);
    await chat.page.goto("about:blank");
    await until(() => [...mock.state.streams.all.values()].every((stream) => stream.over));
    await chat.page.goBack();
    await chat.settled();
    assert.match(await chat.prose(), /blue-green flame\.$/);
    assert.match(await chat.lastAnswer().locator(".actions").innerText(), /108 tok\/s/);
  });

  scenario("reload in mid-stream, and the server has forgotten: the part is kept and marked", { needs: "mock" }, async (chat, { mock }) => {
    await chat.say("Tell me a long story about zinc.");
    await chat.grownTo(120);
    await chat.page.waitForTimeout(600); // The store is written twice a second.
    mock.state.streams.all.clear();
    await chat.page.reload();
    await chat.text(/Cut off: the page was closed/).waitFor();
    const part = await chat.prose();
    assert.ok(part.length > 60, part);
    await chat.button("Continue").click();
    await chat.grownTo(part.length + 40);
    await chat.button("Stop").click();
    assert.ok((await chat.prose()).startsWith(part.slice(0, 60)));
  });

  scenario("chats are listed, searched, renamed, deleted and brought back", { needs: "mock" }, async (chat) => {
    await chat.ask("hello iron");
    await chat.button("New chat").click();
    await chat.ask("hello copper");
    assert.equal(await chat.page.locator(".row").count(), 2);
    await chat.page.getByLabel("Search chats").fill("iron metal");
    assert.equal(await chat.page.locator(".row").count(), 1);
    await chat.page.getByLabel("Search chats").fill("");
    await menu(chat, "hello iron", "Rename");
    await chat.page.getByLabel("Chat title").fill("Ferrum");
    await chat.page.getByLabel("Chat title").press("Enter");
    await row(chat, "Ferrum").waitFor();
    await menu(chat, "Ferrum", "Delete");
    assert.equal(await chat.page.locator(".row").count(), 1);
    await chat.button("Undo").click();
    await row(chat, "Ferrum").waitFor();
    await chat.page.reload();
    await row(chat, "Ferrum").waitFor();
    assert.match(await chat.page.locator("article.user").innerText(), /hello iron/);
  });

  scenario("export and import: all branches come back", {}, async (chat) => {
    await chat.ask("hello");
    await chat.button("Regenerate").click();
    await chat.settled();
    const path = await save(chat, () => menu(chat, "hello", "Export as JSON"));
    const exported = JSON.parse(readFileSync(path));
    assert.equal(exported.format, "zinc-chats");
    assert.equal(Object.keys(exported.conversations[0].messages).length, 3);
    await menu(chat, "hello", "Delete");
    await chat.button("Chat settings").click();
    await chat.page.locator("#import-file").setInputFiles(path);
    await chat.toast("Imported 1 chat.").waitFor();
    await chat.page.keyboard.press("Escape");
    assert.match(await chat.lastAnswer().locator(".branches").innerText(), /2 \/ 2/);
    const markdown = readFileSync(await save(chat, () => menu(chat, "hello", "Export as Markdown")), "utf8");
    assert.match(markdown, /^# hello\n\n## You/);
  });

  scenario("import refuses what is no export, and changes nothing", {}, async (chat) => {
    const folder = scratch();
    const cases = {
      "noise.json": "{",
      "other.json": '{"conversations":[]}',
      "circle.json": JSON.stringify({
        format: "zinc-chats",
        conversations: [
          {
            messages: {
              a1: { role: "user", text: "x", parent: "b1" },
              b1: { role: "user", text: "y", parent: "a1" },
            },
          },
        ],
      }),
      "proto.json": '{"format":"zinc-chats","conversations":[{"messages":{"__proto__":{"role":"user","text":"x"}}}]}',
      "types.json": '{"format":"zinc-chats","conversations":[{"messages":{"a1":{"role":"system","text":5}}}]}',
    };
    await chat.button("Chat settings").click();
    for (const [name, text] of Object.entries(cases)) {
      writeFileSync(join(folder, name), text);
      await chat.page.locator("#import-file").setInputFiles(join(folder, name));
      await chat.toast(`“${name}” cannot be imported`).waitFor();
    }
    assert.equal(await chat.page.locator(".row").count(), 0);
  });

  scenario("files: attached, bounded, sent in a fence", { needs: "mock" }, async (chat, { mock }) => {
    const folder = scratch();
    writeFileSync(join(folder, "notes.py"), "print('zinc')\n```\n");
    writeFileSync(join(folder, "picture.bin"), Buffer.from([0xff, 0xd8, 0, 1]));
    writeFileSync(join(folder, "huge.txt"), "x".repeat(1100000));
    const input = chat.page.locator('.composer input[type="file"]');
    await input.setInputFiles([join(folder, "notes.py"), join(folder, "picture.bin"), join(folder, "huge.txt")]);
    await chat.page.getByText("“picture.bin” is not a text file").waitFor();
    await chat.page.getByText("“huge.txt” is too large").waitFor();
    await chat.ask("hello, read this");
    assert.equal(
      mock.state.requests[0].messages[0].content,
      "File: notes.py\n````py\nprint('zinc')\n```\n````\n\nhello, read this",
    );
    assert.match(await chat.page.locator("article.user .file").innerText(), /notes\.py/);
  });

  scenario("dropping a file attaches it", { needs: "mock" }, async (chat) => {
    const transfer = await chat.page.evaluateHandle(() => {
      const data = new DataTransfer();
      data.items.add(new File(["a,b\n"], "table.csv"));
      return data;
    });
    await chat.page.dispatchEvent(".thread", "dragenter", { dataTransfer: transfer });
    await chat.page.locator(".drop-hint").waitFor();
    await chat.page.dispatchEvent(".thread", "drop", { dataTransfer: transfer });
    await chat.page.locator(".composer .file", { hasText: "table.csv" }).waitFor();
    await chat.button("Remove table.csv").click();
    assert.equal(await chat.page.locator(".composer .file").count(), 0);
  });

  scenario("a full store is said, and the chat goes on", { needs: "mock" }, async (chat) => {
    await chat.page.evaluate(() => {
      IDBObjectStore.prototype.put = () => {
        throw new DOMException("full", "QuotaExceededError");
      };
    });
    await chat.ask("hello");
    await chat.page.getByText("storage for this page is full").waitFor();
    assert.match(await chat.lastAnswer().innerText(), /bluish-white/);
  });

  scenario("a draft outlives a reload", {}, async (chat) => {
    await chat.box().fill("half a thought");
    await chat.page.reload();
    assert.equal(await chat.box().inputValue(), "half a thought");
  });

  scenario("another tab's stream is not called cut, and its end is seen", { needs: "mock" }, async (chat, { base }) => {
    await chat.say("hello");
    await chat.page.waitForFunction(() => location.hash.length > 1);
    const other = await chat.context.newPage();
    await other.goto(`${base}/${new URL(chat.page.url()).hash}`);
    await chat.settled();
    await other.getByText("blue-green flame.").waitFor();
    assert.equal(await other.getByText(/Cut off/).count(), 0);
  });

  scenario("an answer whose tab has died is called cut after a while", { needs: "mock" }, async (chat, { base, mock }) => {
    mock.state.resumable = false;
    await chat.say("a long one");
    await chat.text("Paragraph 6.").waitFor();
    await chat.page.waitForTimeout(600);
    const { hash } = new URL(chat.page.url());
    const other = await chat.context.newPage();
    await chat.page.close();
    await other.clock.install();
    await other.goto(`${base}/${hash}`);
    await other.getByText("Paragraph 2.").waitFor();
    assert.equal(await other.getByText(/Cut off/).count(), 0);
    await other.clock.fastForward(25_000);
    await other
      .getByText(/Cut off/)
      .first()
      .waitFor();
  });
}

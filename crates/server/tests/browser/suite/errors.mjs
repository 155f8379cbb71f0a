// Faults of server and line: said in words, with the way out.

import assert from "node:assert/strict";

export default function suite(scenario) {
  scenario("401 asks for the key, and the key is then sent", { needs: "mock" }, async (chat, { mock }) => {
    mock.state.key = "secret";
    await chat.page.reload();
    await chat.page.getByRole("dialog", { name: "API key" }).waitFor();
    await chat.page.getByLabel("Key", { exact: true }).fill("secret");
    await chat.button("Use key").click();
    await chat.page.locator(".model-button", { hasText: "Qwen3.5 2B" }).waitFor();
    assert.match(await chat.ask("hello"), /bluish-white/);
  });

  scenario("429 counts down and tries again by itself", { needs: "mock" }, async (chat, { mock }) => {
    mock.state.busy = 1;
    await chat.say("hello");
    await chat.text("The server is busy").waitFor();
    await chat.text(/again in \d s/).waitFor();
    await chat.text("blue-green flame.").waitFor();
    assert.equal(await chat.answers().count(), 1);
    assert.equal(await chat.page.locator(".branches").count(), 0);
  });

  scenario("500 and a fault in mid-stream keep what there is", { needs: "mock" }, async (chat, { mock }) => {
    mock.state.faults = 1;
    await chat.ask("hello");
    assert.match(await chat.lastAnswer().innerText(), /The server failed \(500\)/);
    await chat.ask("fault");
    assert.deepEqual(mock.state.requests.at(-1).messages, [{ role: "user", content: "hello\n\nfault" }]);
    assert.match(
      await chat.lastAnswer().innerText(),
      /Paragraph 1[\s\S]*The server is not ready[\s\S]*The device was lost/,
    );
  });

  scenario("a broken line keeps the part and offers to go on", { needs: "mock" }, async (chat, { mock }) => {
    mock.state.resumable = false;
    await chat.ask("break");
    assert.match(await chat.lastAnswer().innerText(), /Cut off/);
    await chat.button("Continue").waitFor();
  });

  scenario("too long: the oldest turns can be left out", { needs: "mock" }, async (chat, { mock }) => {
    await chat.ask("hello overflow");
    await chat.ask("hello once more");
    assert.match(
      await chat.lastAnswer().innerText(),
      /longer than the model’s context|longer than the model's context/,
    );
    await chat.button("Leave out the oldest turns").click();
    await chat.settled();
    await chat.text("Messages above are no longer sent").waitFor();
    assert.equal(mock.state.requests.at(-1).messages.length, 1);
  });

  scenario("a server that cannot be reached is said and found again", { needs: "mock" }, async (chat, { base }) => {
    await chat.page.route(`${base}/v1/**`, (route) => route.abort());
    await chat.page.route(`${base}/ready`, (route) => route.abort());
    await chat.ask("hello");
    assert.match(await chat.lastAnswer().innerText(), /cannot be reached/);
    await chat.page.locator(".notice", { hasText: "cannot be reached" }).waitFor();
    await chat.page.unroute(`${base}/v1/**`);
    await chat.page.unroute(`${base}/ready`);
    await chat.page.locator(".notice").waitFor({ state: "detached" });
    await chat.button("Try again").click();
    await chat.text("blue-green flame.").waitFor();
  });

  scenario("a missing model leads to the list", { needs: "mock" }, async (chat, { mock }) => {
    mock.state.models.shift();
    await chat.ask("hello");
    assert.match(await chat.lastAnswer().innerText(), /does not have this model/);
    await chat.button("Choose a model", chat.lastAnswer()).click();
    await chat.page.getByRole("dialog", { name: "Models" }).waitFor();
  });

  scenario(
    "a server that refuses to continue: said once, then not offered",
    { needs: "mock" },
    async (chat, { mock }) => {
      mock.state.refuse = ["continue_final_message"];
      await chat.ask("limit");
      await chat.button("Continue").click();
      await chat.text("cannot continue an answer").waitFor();
      assert.equal(await chat.button("Continue").count(), 0);
      assert.match(await chat.lastAnswer().innerText(), /Paragraph 1/);
    },
  );

  scenario("a length limit is named and the answer goes on", { needs: "mock" }, async (chat) => {
    await chat.ask("limit");
    assert.match(await chat.lastAnswer().innerText(), /length limit/);
    await chat.button("Continue").waitFor();
  });
}

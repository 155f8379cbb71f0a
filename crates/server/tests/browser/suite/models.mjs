// Choosing, loading, fetching models.

import assert from "node:assert/strict";

const open = (chat) => chat.page.locator(".model-button").click();

export default function suite(scenario) {
  scenario("switching loads with progress, and the chat goes on with it", { needs: "mock" }, async (chat, { mock }) => {
    await chat.ask("hello");
    await open(chat);
    await chat.page.getByRole("button", { name: /^Qwen3.5 35B-A3B/ }).click();
    await chat.page.getByText(/Loading [\d.]+ GB of 22 GB/).waitFor();
    await chat.page.getByText("Unload").nth(1).waitFor();
    await chat.button("Close").click();
    await chat.ask("hello again");
    assert.equal(mock.state.requests.at(-1).model, "qwen35-35b-a3b-q4k-xl");
    assert.equal(mock.state.requests.at(-1).messages.length, 3);
  });

  scenario("fetching shows progress and can be cancelled; fit is shown", { needs: "mock" }, async (chat, { mock }) => {
    mock.state.loadMs = 300;
    await open(chat);
    await chat.page.getByText(/does not fit \(needs 73 GB\)/).waitFor();
    await chat.button("Download gpt-oss 20B").click();
    await chat.page.getByText(/Downloading [\d.]+ GB of 12 GB/).waitFor();
    await chat.button("Cancel").click();
    await chat.button("Download gpt-oss 20B").waitFor();
    mock.state.loadMs = 10;
    await chat.page.getByRole("button", { name: /^gpt-oss 20B/ }).click();
    await chat.button("Unload gpt-oss 20B").waitFor();
    await chat.page.locator(".model-button", { hasText: "gpt-oss 20B" }).waitFor();
  });

  scenario(
    "a model that is not loaded is loaded by the request, in sight",
    { needs: "mock" },
    async (chat, { mock }) => {
      mock.state.models[0].state = "downloaded";
      mock.state.loadMs = 250;
      await chat.page.reload();
      await chat.say("hello");
      await chat.text(/Loading the model [\d.]+ (MB|GB) of 1\.5 GB/).waitFor();
      await chat.text("blue-green flame.").waitFor();
    },
  );

  scenario("a failed load says why", { needs: "mock" }, async (chat, { mock }) => {
    Object.assign(mock.state.models[1], { state: "failed", error: "It needs 25 GB; 8 GB are free." });
    await open(chat);
    await chat.button("Look again").click();
    await chat.page.getByText("It needs 25 GB; 8 GB are free.").waitFor();
  });

  scenario("unload", { needs: "mock" }, async (chat) => {
    await open(chat);
    await chat.button("Unload Qwen3.5 2B").click();
    await chat.button("Load Qwen3.5 2B").waitFor();
  });

  scenario("a bare OpenAI list is enough", { needs: "mock" }, async (chat, { mock }) => {
    mock.state.models = [{ id: "some-model", object: "model" }];
    await chat.page.reload();
    await chat.page.locator(".model-button", { hasText: "some-model" }).waitFor();
    assert.match(await chat.ask("hello"), /bluish-white/);
    assert.equal(await chat.page.locator(".context").count(), 0);
    await open(chat);
    await chat.page.getByRole("dialog", { name: "Models" }).waitFor();
    assert.equal(await chat.page.getByText("Unload").count(), 0);
  });

  scenario("a list that never comes is asked for again", { needs: "mock" }, async (chat, { mock }) => {
    mock.state.unanswered = 1;
    await chat.page.reload();
    // What is sent before it has come goes out behind it.
    await chat.page.getByRole("textbox", { name: "Message" }).fill("hello");
    await chat.page.keyboard.press("Enter");
    await chat.text("blue-green flame.").waitFor();
  });

  scenario("a server that is still loading says so", { needs: "mock" }, async (chat, { mock }) => {
    mock.state.ready = false;
    await chat.page.reload();
    await chat.page.getByText("Loading Qwen3.5 2B. 40 %").waitFor();
    mock.state.ready = true;
    await chat.page.locator(".notice").waitFor({ state: "detached" });
  });
}

// Edit, branch, regenerate.

import assert from "node:assert/strict";

export default function suite(scenario) {
  scenario("edit makes a branch, and one can go back and forth", {}, async (chat) => {
    await chat.ask("hello first");
    await chat.page.locator("article.user").hover();
    await chat.button("Edit and send again").click();
    await chat.page.getByLabel("Edit message").fill("hello second");
    await chat.page.getByLabel("Edit message").press("Control+Enter");
    await chat.settled();
    const user = chat.page.locator("article.user");
    assert.match(await user.innerText(), /hello second/);
    assert.match(await user.locator(".branches").innerText(), /2 \/ 2/);
    await chat.button("Previous version", user).click();
    assert.match(await user.innerText(), /hello first/);
    assert.equal(await chat.answers().count(), 1);
    await chat.page.reload();
    assert.match(await user.innerText(), /hello first/);
    await chat.button("Next version", user).click();
    assert.match(await user.innerText(), /hello second/);
  });

  scenario("regenerate keeps the old answer", {}, async (chat) => {
    await chat.ask("hello");
    await chat.button("Regenerate").click();
    await chat.text("2 / 2").waitFor();
    await chat.settled();
    await chat.button("Previous version").click();
    await chat.text("1 / 2").waitFor();
  });

  scenario(
    "an answer can be edited, and the model then sees the new words",
    { needs: "mock" },
    async (chat, { mock }) => {
      await chat.ask("hello");
      await chat.button("Edit answer").click();
      await chat.page.getByLabel("Edit answer").fill("Zinc is *grey*.");
      await chat.button("Save").click();
      assert.equal(await chat.lastAnswer().locator("em").innerText(), "grey");
      await chat.ask("and then");
      assert.equal(mock.state.requests.at(-1).messages[1].content, "Zinc is *grey*.");
    },
  );

  scenario("Escape leaves an edit, the arrow begins one", {}, async (chat) => {
    await chat.ask("hello");
    await chat.box().press("ArrowUp");
    await chat.page.getByLabel("Edit message").fill("changed");
    await chat.page.getByLabel("Edit message").press("Escape");
    assert.match(await chat.page.locator("article.user").innerText(), /hello/);
  });
}

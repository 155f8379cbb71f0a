// Calls of tools: written down, shown folded, answered; and streams whose connection breaks.

import assert from "node:assert/strict";
import { WEATHER } from "../answers.mjs";

const TOOLS = JSON.stringify(
  WEATHER.map(({ name }) => ({ name, parameters: { type: "object", properties: { city: { type: "string" } } } })),
);
const call = (chat, name) => chat.lastAnswer().locator(".call", { hasText: name });

export default function suite(scenario) {
  scenario("tools: calls are shown folded, and results go back", { needs: "mock" }, async (chat, { mock }) => {
    await chat.button("Chat settings").click();
    await chat.button("Add tools").click();
    await chat.page.getByLabel("Tools").fill("[{");
    await chat.page.getByText("This is not JSON").waitFor();
    await chat.page.getByLabel("Tools").fill(TOOLS);
    await chat.page.getByText("The model may call get_weather, get_time.").waitFor();
    await chat.page.keyboard.press("Escape");
    await chat.say("What is the weather in Bern?");
    await chat.settled();
    const [request] = mock.state.requests;
    assert.deepEqual(
      request.tools.map((tool) => [tool.type, tool.function.name]),
      [
        ["function", "get_weather"],
        ["function", "get_time"],
      ],
    );
    // Open while they wait for a result; indented.
    assert.match(await call(chat, "get_weather").locator("pre").innerText(), /"city": "Bern",\n  "unit"/);
    await chat.page.getByLabel("Result of get_weather").fill("sunny");
    await chat.page.getByLabel("Result of get_time").fill("noon");
    await chat.button("Send results").click();
    await chat.text("It is sunny.").waitFor();
    await chat.settled();
    const sent = mock.state.requests[1].messages;
    assert.deepEqual(
      sent.map((m) => m.role),
      ["user", "assistant", "tool", "tool"],
    );
    assert.deepEqual(JSON.parse(sent[1].tool_calls[0].function.arguments), WEATHER[0].given);
    assert.deepEqual(sent[2], { role: "tool", tool_call_id: "call_0", content: "sunny" });

    // Folded from then on, after a reload too; a click opens them.
    await chat.page.reload();
    const first = chat.answers().first().locator(".call", { hasText: "get_weather" });
    await first.waitFor();
    assert.equal(await first.locator("pre").count(), 0);
    await first.getByRole("button").click();
    assert.match(await first.innerText(), /Result\s+sunny/);
  });

  scenario("tools: calls without results are not sent on", { needs: "mock" }, async (chat, { mock }) => {
    await chat.ask("weather");
    assert.equal("tools" in mock.state.requests[0], false);
    await chat.ask("hello");
    assert.deepEqual(mock.state.requests[1].messages, [{ role: "user", content: "weather\n\nhello" }]);
    assert.equal(await chat.answers().first().getByLabel("Result of get_weather").count(), 0);
  });

  scenario("a connection that breaks is taken up again", { needs: "mock" }, async (chat, { mock }) => {
    await chat.say("break");
    await chat.text("Paragraph 4.").waitFor();
    assert.equal(await chat.page.getByText(/Cut off/).count(), 0);
    assert.equal(mock.state.requests.length, 1);
    await chat.button("Stop").click();
  });

  scenario("a server that keeps no streams gets none to keep", { needs: "mock" }, async (chat, { mock }) => {
    mock.state.refuse = ["resumable"];
    await chat.ask("hello");
    await chat.ask("hello");
    assert.deepEqual(
      mock.state.requests.map((r) => r.stream_options),
      [{ include_usage: true, resumable: true }, { include_usage: true }, { include_usage: true }],
    );
  });
}

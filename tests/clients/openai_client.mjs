// OpenAI's JavaScript client against a running server.

import assert from "node:assert/strict";
import OpenAI from "openai";

const chatModel = process.env.ZINC_CHAT_MODEL;
const toolsModel = process.env.ZINC_TOOLS_MODEL;
const client = new OpenAI({
  baseURL: `${process.env.ZINC_URL}/v1`,
  apiKey: "unused",
  maxRetries: 0,
  timeout: 300_000,
});
const france = [{ role: "user", content: "What is the capital of France? Answer in one sentence." }];
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const weather = { type: "function", function: { name: "get_weather", description: "Tells the weather.", parameters } };

const checks = {
  async chatAnswers() {
    const answer = await client.chat.completions.create({
      model: chatModel, messages: france, temperature: 0, max_tokens: 40,
    });
    assert.match(answer.choices[0].message.content, /Paris/);
    assert.ok(answer.usage.total_tokens > 10);
  },

  async aStreamAddsUp() {
    const body = { model: chatModel, messages: france, temperature: 0, max_tokens: 30 };
    const whole = await client.chat.completions.create(body);
    let text = "";
    let usage;
    const stream = await client.chat.completions.create({
      ...body, stream: true, stream_options: { include_usage: true },
    });
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta?.content ?? "";
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
  },

  async aStreamCanBeAborted() {
    const stream = await client.chat.completions.create({
      model: chatModel, messages: france, stream: true, max_tokens: 2000,
    });
    for await (const _ of stream) break;
    stream.controller.abort();
  },

  async toolsMakeARoundTrip() {
    const messages = [{ role: "user", content: "What is the weather in Bern?" }];
    const first = await client.chat.completions.create({
      model: toolsModel, messages, tools: [weather], tool_choice: "required", temperature: 0, max_tokens: 200,
    });
    const call = first.choices[0].message.tool_calls[0];
    assert.equal(call.function.name, "get_weather");
    assert.ok("city" in JSON.parse(call.function.arguments));
    messages.push(first.choices[0].message, { role: "tool", tool_call_id: call.id, content: "Sunny" });
    const second = await client.chat.completions.create({
      model: toolsModel, messages, tools: [weather], tool_choice: "none", temperature: 0, max_tokens: 60,
    });
    assert.ok(second.choices[0].message.content);
  },

  async responsesStream() {
    let text = "";
    const stream = await client.responses.create({
      model: chatModel, input: "What is the capital of France?", temperature: 0, max_output_tokens: 40, stream: true,
    });
    for await (const event of stream) {
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    assert.match(text, /Paris/);
  },

  async errorsAreTheClientsOwn() {
    const missing = client.chat.completions.create({ model: "no-such-model", messages: france });
    await assert.rejects(missing, (error) => error instanceof OpenAI.NotFoundError && error.code === "model_not_found");
    const wrong = client.chat.completions.create({ model: chatModel, messages: france, temperature: 7 });
    await assert.rejects(wrong, (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature");
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok    ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${name}`);
    console.error(error);
  }
}
console.log(`${Object.keys(checks).length - failed} of ${Object.keys(checks).length} passed`);
process.exit(failed ? 1 : 0);

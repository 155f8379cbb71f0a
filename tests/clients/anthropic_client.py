"""Anthropic's Python client against a running server."""

import os

import anthropic

from checks import refused, run

URL = os.environ["ZINC_URL"]
CHAT = os.environ["ZINC_CHAT_MODEL"]
TOOLS_MODEL = os.environ["ZINC_TOOLS_MODEL"]
client = anthropic.Anthropic(base_url=URL, api_key="unused", max_retries=0, timeout=300)

# This version of the client has no argument for it.
GREEDY = {"temperature": 0}
FRANCE = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
WEATHER = {
    "name": "get_weather",
    "description": "Tells the current weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def messages_answer():
    message = client.messages.create(model=CHAT, max_tokens=40, messages=FRANCE, extra_body=GREEDY, system="Be brief.")
    assert "Paris" in message.content[0].text, message
    assert message.stop_reason in ("end_turn", "max_tokens")
    assert message.usage.output_tokens > 3


def a_stream_adds_up_to_the_answer():
    whole = client.messages.create(model=CHAT, max_tokens=30, messages=FRANCE, extra_body=GREEDY)
    with client.messages.stream(model=CHAT, max_tokens=30, messages=FRANCE, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == whole.content[0].text == final.content[0].text
    assert final.stop_reason == whole.stop_reason


def a_tool_makes_a_round_trip():
    messages = [{"role": "user", "content": "What is the weather in Bern?"}]
    first = client.messages.create(
        model=TOOLS_MODEL, max_tokens=200, messages=messages, tools=[WEATHER], tool_choice={"type": "any"}, extra_body=GREEDY
    )
    assert first.stop_reason == "tool_use", first
    call = next(block for block in first.content if block.type == "tool_use")
    assert call.name == "get_weather" and "city" in call.input
    messages += [
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "Sunny, 24 degrees"}]},
    ]
    second = client.messages.create(
        model=TOOLS_MODEL, max_tokens=80, messages=messages, tools=[WEATHER], tool_choice={"type": "none"}, extra_body=GREEDY
    )
    assert second.content and second.stop_reason != "tool_use", second


def a_stop_sequence_is_named():
    message = client.messages.create(
        model=CHAT,
        max_tokens=60,
        extra_body=GREEDY,
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        stop_sequences=["Paris"],
    )
    assert message.stop_reason == "stop_sequence" and message.stop_sequence == "Paris", message


def tokens_are_counted():
    count = client.messages.count_tokens(model=CHAT, messages=FRANCE)
    answer = client.messages.create(model=CHAT, max_tokens=1, messages=FRANCE, extra_body=GREEDY)
    assert count.input_tokens == answer.usage.input_tokens + answer.usage.cache_read_input_tokens


def errors_are_the_clients_own():
    refused(anthropic.NotFoundError, lambda: client.messages.create(model="no-such", max_tokens=5, messages=FRANCE))
    wrong = [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://x"}}]}]
    error = refused(anthropic.BadRequestError, lambda: client.messages.create(model=CHAT, max_tokens=5, messages=wrong))
    assert error.body["error"]["type"] == "invalid_request_error"


run([
    messages_answer,
    a_stream_adds_up_to_the_answer,
    a_tool_makes_a_round_trip,
    a_stop_sequence_is_named,
    tokens_are_counted,
    errors_are_the_clients_own,
])

"""OpenAI's Python client against a running server."""

import json
import os

import openai

from checks import refused, run

URL = os.environ["ZINC_URL"]
CHAT = os.environ["ZINC_CHAT_MODEL"]
TOOLS_MODEL = os.environ["ZINC_TOOLS_MODEL"]
client = openai.OpenAI(base_url=f"{URL}/v1", api_key="unused", max_retries=0, timeout=300)

FRANCE = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the current weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
            "required": ["city"],
        },
    },
}


def chat_answers():
    answer = client.chat.completions.create(model=CHAT, messages=FRANCE, temperature=0, max_completion_tokens=40)
    assert "Paris" in answer.choices[0].message.content, answer
    usage = answer.usage
    assert usage.prompt_tokens > 10 and usage.completion_tokens > 3
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.prompt_tokens_details.cached_tokens >= 0


def a_stream_adds_up_to_the_answer():
    whole = client.chat.completions.create(model=CHAT, messages=FRANCE, temperature=0, max_tokens=30)
    stream = client.chat.completions.create(
        model=CHAT, messages=FRANCE, temperature=0, max_tokens=30, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content, (text, whole)
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert sum(1 for chunk in chunks if chunk.choices) > 5


def a_stream_can_be_left():
    stream = client.chat.completions.create(model=CHAT, messages=FRANCE, stream=True, max_tokens=2000)
    for _ in stream:
        break
    stream.close()


def the_streaming_helper_works():
    with client.chat.completions.stream(model=CHAT, messages=FRANCE, temperature=0, max_tokens=20) as stream:
        final = stream.until_done().get_final_completion()
    assert final.choices[0].message.content


def tools_make_a_round_trip():
    messages = [{"role": "user", "content": "What is the weather in Bern?"}]
    first = client.chat.completions.create(
        model=TOOLS_MODEL, messages=messages, tools=[WEATHER], tool_choice="required", temperature=0, max_tokens=200
    )
    assert first.choices[0].finish_reason == "tool_calls", first
    call = first.choices[0].message.tool_calls[0]
    assert call.function.name == "get_weather"
    assert "city" in json.loads(call.function.arguments)
    messages += [first.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "Sunny, 24 degrees"}]
    second = client.chat.completions.create(
        model=TOOLS_MODEL, messages=messages, tools=[WEATHER], tool_choice="none", temperature=0, max_tokens=80
    )
    assert second.choices[0].message.content and second.choices[0].finish_reason != "tool_calls", second


def a_named_tool_is_called_in_a_stream():
    stream = client.chat.completions.create(
        model=TOOLS_MODEL,
        messages=[{"role": "user", "content": "Weather in Oslo, please."}],
        tools=[WEATHER],
        tool_choice={"type": "function", "function": {"name": "get_weather"}},
        temperature=0,
        max_tokens=200,
        stream=True,
    )
    name, arguments = None, ""
    for chunk in stream:
        for call in chunk.choices[0].delta.tool_calls or []:
            name = call.function.name or name
            arguments += call.function.arguments or ""
    assert name == "get_weather" and "city" in json.loads(arguments), (name, arguments)


def json_fits_its_schema():
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "inhabitants": {"type": "integer"}},
        "required": ["city", "inhabitants"],
        "additionalProperties": False,
    }
    answer = client.chat.completions.create(
        model=TOOLS_MODEL,
        messages=[{"role": "user", "content": "Name a city and its number of inhabitants, as JSON."}],
        response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": schema, "strict": True}},
        temperature=0,
        max_tokens=120,
    )
    value = json.loads(answer.choices[0].message.content)
    assert set(value) == {"city", "inhabitants"} and isinstance(value["inhabitants"], int), value


def a_json_object_is_one():
    answer = client.chat.completions.create(
        model=TOOLS_MODEL,
        messages=[{"role": "user", "content": "Describe a cat as a JSON object with the keys name and age."}],
        response_format={"type": "json_object"},
        temperature=0,
        max_tokens=200,
    )
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict)
    assert answer.choices[0].message.content.lstrip().startswith("{")


def log_probabilities_are_there():
    answer = client.chat.completions.create(
        model=CHAT, messages=FRANCE, temperature=0, max_tokens=5, logprobs=True, top_logprobs=4
    )
    content = answer.choices[0].logprobs.content
    assert len(content) == 5
    for token in content:
        assert token.logprob <= 0 and len(token.top_logprobs) == 4
        assert token.top_logprobs[0].logprob >= token.top_logprobs[3].logprob
        assert abs(token.logprob - token.top_logprobs[0].logprob) < 1e-6


def several_choices_come():
    answer = client.chat.completions.create(
        model=CHAT, messages=[{"role": "user", "content": "Tell me a story."}], n=3, temperature=1.0, seed=11, max_tokens=20
    )
    texts = [choice.message.content for choice in answer.choices]
    assert [choice.index for choice in answer.choices] == [0, 1, 2] and len(set(texts)) > 1, texts
    again = client.chat.completions.create(
        model=CHAT, messages=[{"role": "user", "content": "Tell me a story."}], n=3, temperature=1.0, seed=11, max_tokens=20
    )
    assert texts == [choice.message.content for choice in again.choices]


def a_stop_string_ends_the_answer():
    messages = [{"role": "user", "content": "Count from one to ten in digits, with commas."}]
    answer = client.chat.completions.create(model=CHAT, messages=messages, stop=[","], temperature=0, max_tokens=40)
    assert "," not in answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("stop", "length")


def completions_continue_a_text():
    answer = client.completions.create(model=CHAT, prompt="The capital of France is", temperature=0, max_tokens=6)
    assert "Paris" in answer.choices[0].text, answer


def models_are_listed():
    ids = [model.id for model in client.models.list()]
    assert CHAT in ids and TOOLS_MODEL in ids, ids
    assert client.models.retrieve(CHAT).id == CHAT


def responses_answer():
    answer = client.responses.create(model=CHAT, input="What is the capital of France?", temperature=0, max_output_tokens=40)
    assert "Paris" in answer.output_text, answer
    assert answer.usage.input_tokens > 5


def responses_stream():
    kinds = []
    text = ""
    for event in client.responses.create(
        model=CHAT, input="What is the capital of France?", temperature=0, max_output_tokens=40, stream=True
    ):
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
    assert kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete"), kinds
    assert "Paris" in text


def responses_call_tools():
    tool = {"type": "function", "name": "get_weather", "parameters": WEATHER["function"]["parameters"], "strict": False}
    answer = client.responses.create(
        model=TOOLS_MODEL, input="Weather in Bern?", tools=[tool], tool_choice="required", temperature=0, max_output_tokens=200
    )
    call = next(item for item in answer.output if item.type == "function_call")
    assert call.name == "get_weather" and "city" in json.loads(call.arguments)
    items = [{"role": "user", "content": "Weather in Bern?"}, call]
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "Sunny"})
    second = client.responses.create(
        model=TOOLS_MODEL, input=items, tools=[tool], tool_choice="none", temperature=0, max_output_tokens=60
    )
    assert second.output_text, second


def errors_are_the_clients_own():
    missing = refused(openai.NotFoundError, lambda: client.chat.completions.create(model="no-such-model", messages=FRANCE))
    assert missing.code == "model_not_found"
    wrong = refused(
        openai.BadRequestError, lambda: client.chat.completions.create(model=CHAT, messages=FRANCE, temperature=7)
    )
    assert wrong.param == "temperature", wrong
    long = [{"role": "user", "content": "word " * 50_000}]
    full = refused(openai.BadRequestError, lambda: client.chat.completions.create(model=CHAT, messages=long))
    assert full.code == "context_length_exceeded"
    refused(openai.BadRequestError, lambda: client.embeddings.create(model=CHAT, input="x"))


run([
    chat_answers,
    a_stream_adds_up_to_the_answer,
    a_stream_can_be_left,
    the_streaming_helper_works,
    tools_make_a_round_trip,
    a_named_tool_is_called_in_a_stream,
    json_fits_its_schema,
    a_json_object_is_one,
    log_probabilities_are_there,
    several_choices_come,
    a_stop_string_ends_the_answer,
    completions_continue_a_text,
    models_are_listed,
    responses_answer,
    responses_stream,
    responses_call_tools,
    errors_are_the_clients_own,
])

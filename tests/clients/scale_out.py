"""LiteLLM's proxy in front of two servers, one of which is killed while it streams.

    scale_out.py URL PID URL PID

Shown: requests reach both; a server that dies takes with it only the streams that it was writing; requests that come
afterwards are answered by the other.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import openai

SERVERS = list(zip(sys.argv[1::2], map(int, sys.argv[2::2])))
REQUESTS = 16
STREAMS = 12
STREAM_TOKENS = 300
KEY = f"sk-{secrets.token_hex(16)}"
PATIENCE_S = 180

CONFIG = """\
model_list:
{deployments}
router_settings:
  routing_strategy: simple-shuffle
  num_retries: 2
  allowed_fails: 0
  cooldown_time: 30
litellm_settings:
  request_timeout: 120
"""
DEPLOYMENT = """\
  - model_name: local
    litellm_params:
      model: openai/{model}
      api_base: {url}/v1
      api_key: unused
"""


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def metric(url, name):
    lines = [line for line in get(f"{url}/metrics").splitlines() if line.startswith(name + "{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def until(what, holds):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            if holds():
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"never: {what}")


def start_router():
    for url, _ in SERVERS:
        until(f"{url} is ready", lambda: json.loads(get(f"{url}/ready"))["status"] == "ready")
    models = [(url, json.loads(get(f"{url}/v1/models"))) for url, _ in SERVERS]
    loaded = [(url, next(m["id"] for m in models["data"] if m["state"] == "loaded")) for url, models in models]
    deployments = "".join(DEPLOYMENT.format(model=model, url=url) for url, model in loaded)
    Path("scale-out.yaml").write_text(CONFIG.format(deployments=deployments))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("litellm")
    # Its list of prices comes with it; nothing is fetched or sent.
    settings = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "LITELLM_MASTER_KEY": KEY}
    environment = {**os.environ, **settings}
    log = open("scale-out.log", "w")
    words = [program, "--config", "scale-out.yaml", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(words, env=environment, stdout=log, stderr=log, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    until("the router is up", lambda: process.poll() is not None or get(f"{url}/health/liveliness"))
    if process.poll() is not None:
        raise SystemExit("the router ended; see scale-out.log")
    return process, url


def in_parallel(n, work):
    results = [None] * n

    def one(index):
        try:
            results[index] = work(index)
        except Exception as error:  # noqa: BLE001: what the client raises is the result
            results[index] = error

    threads = [threading.Thread(target=one, args=(index,)) for index in range(n)]
    for thread in threads:
        thread.start()
    return results, threads


def ask(client, index):
    answer = client.chat.completions.create(
        model="local", messages=[{"role": "user", "content": f"Count to {index}."}], max_tokens=12
    )
    return answer.usage.completion_tokens


def check_spread(client):
    before = [metric(url, "zinc_requests_done_total") for url, _ in SERVERS]
    results, threads = in_parallel(REQUESTS, lambda index: ask(client, index))
    for thread in threads:
        thread.join()
    done = [int(metric(url, "zinc_requests_done_total") - n) for (url, _), n in zip(SERVERS, before)]
    assert all(isinstance(tokens, int) for tokens in results), results
    assert min(done) > 0 and sum(done) == REQUESTS, done
    print(f"ok    {REQUESTS} requests, {done[0]} by the first server, {done[1]} by the second")


def check_death(client):
    grown = [0] * STREAMS

    def stream(index):
        chunks = client.chat.completions.create(
            model="local",
            messages=[{"role": "user", "content": f"Tell story number {index}."}],
            max_tokens=STREAM_TOKENS,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        finish = None
        for chunk in chunks:
            grown[index] += 1
            for choice in chunk.choices:
                finish = choice.finish_reason or finish
        return finish

    results, threads = in_parallel(STREAMS, stream)
    until("every stream has begun", lambda: min(grown) > 2)
    doomed, safe = [int(metric(url, "zinc_requests_running")) for url, _ in SERVERS]
    assert doomed > 0 and safe > 0, (doomed, safe)
    os.kill(SERVERS[0][1], signal.SIGKILL)
    for thread in threads:
        thread.join()
    whole = sum(result == "length" for result in results)
    assert (whole, STREAMS - whole) == (safe, doomed), (whole, safe, doomed, results)
    print(f"ok    the first server was killed: {doomed} streams that it was writing ended, {whole} others were whole")


def check_afterwards(client):
    results, threads = in_parallel(REQUESTS, lambda index: ask(client, index))
    for thread in threads:
        thread.join()
    assert all(isinstance(tokens, int) for tokens in results), results
    print(f"ok    {REQUESTS} requests afterwards, all answered by the second server")


router, router_url = start_router()
try:
    openai_client = openai.OpenAI(base_url=f"{router_url}/v1", api_key=KEY, max_retries=0, timeout=PATIENCE_S)
    check_spread(openai_client)
    check_death(openai_client)
    check_afterwards(openai_client)
finally:
    os.killpg(router.pid, signal.SIGTERM)
    router.wait()

"""Runs the three providers' official clients against one Weir.

Reads its settings as JSON from the standard input: `weir`, `sim` (addresses), `models` (by dialect),
`keys` (`good`, `bad`, `broke`, `busy`). Writes one JSON object a line for each case, and closes with
`N passed, N failed`.
"""

import json
import sys
import time
import traceback
import urllib.request

import anthropic
import openai
from google import genai
from google.genai import errors, types

PROMPT = "Say something about rivers and the weirs in them."
MAX_TOKENS = 256
# A client that is told to wait for minutes must give up at once, and not sleep.
SOON_S = 20

SETTINGS = json.load(sys.stdin)
WEIR, SIM = SETTINGS["weir"], SETTINGS["sim"]
MODELS, KEYS = SETTINGS["models"], SETTINGS["keys"]

CASES = []


def case(function):
    """Registers a case under its name."""
    CASES.append(function)
    return function


def headers(name):
    """Names a call for Weir's books and, by the id of its answer, for the simulator's journal."""
    return {"x-request-id": name, "x-sim-script": f"id={name}"}


def openai_client(key, retries=0):
    return openai.OpenAI(base_url=f"{WEIR}/v1", api_key=key, max_retries=retries)


def anthropic_client(key, retries=0):
    return anthropic.Anthropic(base_url=WEIR, api_key=key, max_retries=retries)


def gemini_client(key, version=None):
    return genai.Client(api_key=key, http_options={"base_url": WEIR, "api_version": version})


def config(name):
    return types.GenerateContentConfig(
        max_output_tokens=MAX_TOKENS, http_options=types.HttpOptions(headers=headers(name))
    )


def ask_sim(path, body, extra):
    """What the simulator itself says to the same question, without any client in between."""
    request = urllib.request.Request(
        f"{SIM}{path}",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json", "x-sim-script": "id=reference", **extra},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def openai_text():
    body = {
        "model": MODELS["openai"],
        "max_completion_tokens": MAX_TOKENS,
        "messages": [{"role": "user", "content": PROMPT}],
    }
    answer = ask_sim("/v1/chat/completions", body, {"authorization": "Bearer reference"})
    return answer["choices"][0]["message"]["content"]


def anthropic_text():
    body = {
        "model": MODELS["anthropic"],
        "max_tokens": MAX_TOKENS,
        "messages": [{"role": "user", "content": PROMPT}],
    }
    extra = {"x-api-key": "reference", "anthropic-version": "2023-06-01"}
    answer = ask_sim("/v1/messages", body, extra)
    return "".join(part["text"] for part in answer["content"])


def gemini_text():
    body = {
        "contents": [{"role": "user", "parts": [{"text": PROMPT}]}],
        "generationConfig": {"maxOutputTokens": MAX_TOKENS},
    }
    path = f"/v1beta/models/{MODELS['gemini']}:generateContent"
    answer = ask_sim(path, body, {"x-goog-api-key": "reference"})
    return "".join(part["text"] for part in answer["candidates"][0]["content"]["parts"])


def same(got, wanted):
    """What is said through Weir is what the provider said, letter by letter."""
    assert wanted, "the simulator said nothing"
    assert got == wanted, f"another text came through: {got!r} instead of {wanted!r}"


def call(request_id, read, wrote):
    """The facts of a call, to be compared with the event."""
    assert request_id, "the answer carries no request id"
    return {"request_id": request_id, "input": read, "output": wrote}


# Calls.


@case
def openai_plain(name):
    answer = openai_client(KEYS["good"]).chat.completions.create(
        model=MODELS["openai"],
        max_completion_tokens=MAX_TOKENS,
        messages=[{"role": "user", "content": PROMPT}],
        extra_headers=headers(name),
    )
    same(answer.choices[0].message.content, openai_text())
    return call(answer._request_id, answer.usage.prompt_tokens, answer.usage.completion_tokens)


def openai_chunks(name, **more):
    stream = openai_client(KEYS["good"]).chat.completions.create(
        model=MODELS["openai"],
        max_completion_tokens=MAX_TOKENS,
        messages=[{"role": "user", "content": PROMPT}],
        stream=True,
        extra_headers=headers(name),
        **more,
    )
    request_id = stream.response.headers.get("x-request-id")
    chunks = list(stream)
    texts = (choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    same("".join(texts), openai_text())
    return request_id, chunks


@case
def openai_streamed(name):
    request_id, chunks = openai_chunks(name)
    assert all(chunk.choices for chunk in chunks), "the usage that only Weir asked for came through"
    assert all(chunk.usage is None for chunk in chunks), "usage came that was not asked for"
    # The client is told no figures: the event has them all the same.
    return call(request_id, None, None)


@case
def openai_streamed_with_usage(name):
    request_id, chunks = openai_chunks(name, stream_options={"include_usage": True})
    usages = [chunk.usage for chunk in chunks if chunk.usage is not None]
    assert len(usages) == 1, f"usage came {len(usages)} times"
    assert [chunk.choices for chunk in chunks].count([]) == 1, "the usage chunk is not the provider's"
    return call(request_id, usages[0].prompt_tokens, usages[0].completion_tokens)


@case
def anthropic_plain(name):
    answer = anthropic_client(KEYS["good"]).messages.create(
        model=MODELS["anthropic"],
        max_tokens=MAX_TOKENS,
        messages=[{"role": "user", "content": PROMPT}],
        extra_headers=headers(name),
    )
    same("".join(part.text for part in answer.content), anthropic_text())
    return call(answer._request_id, answer.usage.input_tokens, answer.usage.output_tokens)


@case
def anthropic_streamed(name):
    with anthropic_client(KEYS["good"]).messages.stream(
        model=MODELS["anthropic"],
        max_tokens=MAX_TOKENS,
        messages=[{"role": "user", "content": PROMPT}],
        extra_headers=headers(name),
    ) as stream:
        same("".join(stream.text_stream), anthropic_text())
        answer = stream.get_final_message()
        request_id = stream.request_id
    return call(request_id, answer.usage.input_tokens, answer.usage.output_tokens)


def gemini_call(usage, response):
    found = {key.lower(): value for key, value in response.sdk_http_response.headers.items()}
    return call(
        found.get("weir-request-id"), usage.prompt_token_count, usage.candidates_token_count
    )


@case
def gemini_plain(name):
    client = gemini_client(KEYS["good"])
    answer = client.models.generate_content(
        model=MODELS["gemini"], contents=PROMPT, config=config(name)
    )
    same(answer.text, gemini_text())
    return gemini_call(answer.usage_metadata, answer)


def gemini_stream(name, version):
    client = gemini_client(KEYS["good"], version)
    stream = client.models.generate_content_stream(
        model=MODELS["gemini"], contents=PROMPT, config=config(name)
    )
    chunks = list(stream)
    same("".join(chunk.text or "" for chunk in chunks), gemini_text())
    return gemini_call(chunks[-1].usage_metadata, chunks[-1])


@case
def gemini_streamed(name):
    return gemini_stream(name, None)


@case
def gemini_streamed_v1beta(name):
    return gemini_stream(name, "v1beta")


# Lists of models.


@case
def openai_models(_name):
    names = [model.id for model in openai_client(KEYS["good"]).models.list()]
    assert MODELS["openai"] in names, names
    return {}


@case
def anthropic_models(_name):
    names = [model.id for model in anthropic_client(KEYS["good"]).models.list()]
    assert MODELS["anthropic"] in names, names
    return {}


@case
def gemini_models(_name):
    client = gemini_client(KEYS["good"])
    names = [model.name for model in client.models.list()]
    assert f"models/{MODELS['gemini']}" in names, names
    return {}


# Refusals: each in the client's own exception.


def refused(name, key, retries, kinds, ask):
    """`ask` raises exactly one of `kinds`, soon, with a message and without the key in it."""
    began = time.monotonic()
    try:
        ask(key, retries, name)
    except kinds as error:
        assert type(error) in kinds, f"{type(error)} is only a relative of {kinds}"
        took_s = time.monotonic() - began
        assert took_s < SOON_S, f"the client slept for {took_s:.0f} s"
        assert key not in str(error), "the key stands in the error"
        # openai and anthropic name the status `status_code`, google-genai `code`.
        status = getattr(error, "status_code", None) or error.code
        return {"status": status, "said": str(error), "exception": type(error).__name__}
    raise AssertionError("the call was not refused")


def ask_openai(key, retries, name):
    openai_client(key, retries).chat.completions.create(
        model=MODELS["openai"],
        max_completion_tokens=MAX_TOKENS,
        messages=[{"role": "user", "content": PROMPT}],
        extra_headers=headers(name),
    )


def ask_anthropic(key, retries, name):
    anthropic_client(key, retries).messages.create(
        model=MODELS["anthropic"],
        max_tokens=MAX_TOKENS,
        messages=[{"role": "user", "content": PROMPT}],
        extra_headers=headers(name),
    )


def ask_gemini(key, _retries, name):
    client = gemini_client(key)
    client.models.generate_content(model=MODELS["gemini"], contents=PROMPT, config=config(name))


REFUSALS = [
    # name, status, whose key, retries, kinds, ask
    ("openai_401", 401, "bad", 0, (openai.AuthenticationError,), ask_openai),
    ("openai_402", 402, "broke", 0, (openai.APIStatusError,), ask_openai),
    ("openai_429", 429, "busy", 0, (openai.RateLimitError,), ask_openai),
    ("anthropic_401", 401, "bad", 0, (anthropic.AuthenticationError,), ask_anthropic),
    ("anthropic_402", 402, "broke", 0, (anthropic.PaymentRequiredError,), ask_anthropic),
    ("anthropic_429", 429, "busy", 0, (anthropic.RateLimitError,), ask_anthropic),
    ("gemini_401", 401, "bad", 0, (errors.ClientError,), ask_gemini),
    ("gemini_402", 402, "broke", 0, (errors.ClientError,), ask_gemini),
    ("gemini_429", 429, "busy", 0, (errors.ClientError,), ask_gemini),
    # A wait of minutes: with its retries on, a client must still give up at once.
    ("openai_429_with_retries", 429, "busy", 2, (openai.RateLimitError,), ask_openai),
    ("anthropic_429_with_retries", 429, "busy", 2, (anthropic.RateLimitError,), ask_anthropic),
]


def register_refusals():
    for name, status, whose, retries, kinds, ask in REFUSALS:

        def one(name, status=status, key=KEYS[whose], retries=retries, kinds=kinds, ask=ask):
            facts = refused(name, key, retries, kinds, ask)
            assert facts["status"] == status, facts
            return facts

        one.__name__ = name
        CASES.append(one)


def main():
    register_refusals()
    passed = failed = 0
    for function in CASES:
        name = function.__name__
        try:
            line = {"case": name, "ok": True, **function(name)}
            passed += 1
        except Exception as error:  # every failure of a client is one failed case
            detail = "".join(traceback.format_exception(error, limit=-4))
            line = {"case": name, "ok": False, "detail": detail}
            failed += 1
        print(json.dumps(line), flush=True)
    print(f"{passed} passed, {failed} failed", flush=True)


main()

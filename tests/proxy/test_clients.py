"""Real clients, unmodified, through the proxy: they get what they get without it, and our refusals as theirs."""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.proxy.running import options_for, running
from tests.proxy.upstream import (
    Close,
    Request,
    Script,
    Stall,
    Upstream,
    answer,
    call,
    call_chunks,
    chat,
    delta,
    error,
    error_event,
    frame,
    frames,
    open_stream,
    stream,
    upstream,
    usage_chunk,
    whole,
)

from demerit.proxy.options import Options
from demerit.proxy.options import Upstream as Place

NOTE = call("write_note", {"text": "naïvely"})
LOGPROBS = {"content": [{"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": []}], "refusal": None}


def model_server(request: Request) -> Script:
    """A model server whose models do what their names say."""
    if request.path.endswith("/models"):
        models = [{"id": name, "object": "model", "created": 1, "owned_by": "us", "x_context": 8192} for name in "me"]
        return whole({"object": "list", "data": models})
    asked = request.json
    if request.path.endswith("/embeddings"):
        vectors = [base64.b64encode(struct.pack("<2f", 0.5, number)).decode() for number in range(len(asked["input"]))]
        data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
        usage = {"prompt_tokens": 2, "total_tokens": 2}
        return whole({"object": "list", "model": "e", "data": data, "usage": usage})
    model, is_streamed = asked["model"], asked.get("stream")
    if model.startswith("refuses-"):
        return error(int(model.partition("-")[2]), "not now", [("Retry-After", "7")])
    if model == "dies":
        return stream([*chat("Hel", finish=None, done=False), frame(error_event())])
    if model == "cut":
        return [*open_stream(chat("Hel", "lo", finish=None, done=False)), Close()]
    if model == "busy":
        return [*open_stream(chat("Wait", finish=None, done=False)), Stall(), Close()]
    if _calls(asked):
        return stream(frames(call_chunks(NOTE))) if is_streamed else whole(answer(None, NOTE))
    if not is_streamed:
        return whole({**answer("Hi", reasoning_content="Hm"), "x_timings": {"predicted_ms": 1.5}})
    parts: list[object] = [delta("", role="assistant"), delta(reasoning_content="Hm"), delta("Hi"), delta(" naïvely")]
    parts[2] = {**delta("Hi"), "x_timings": {"predicted_ms": 1.5}}
    parts[2]["choices"][0]["logprobs"] = LOGPROBS  # type: ignore[index]
    return stream(frames([*parts, delta(finish="stop"), *([usage_chunk()] if "stream_options" in asked else [])]))


def _calls(asked: Any) -> bool:
    """Whether the model makes a call: where it has tools, until it was answered (or, when stuck, told)."""
    last = asked["messages"][-1]
    if asked["model"] == "stuck":
        return "loop guard" not in str(last["content"])
    return bool(asked.get("tools")) and last["role"] != "tool"


def client(script: str, *tasks: str) -> list[Any]:
    """What the client of that script got in each task."""
    env = {
        **{name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "LANGSMITH_TRACING": "false",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-m", f"tests.proxy.clients.{script}", *tasks]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "tried to leave this machine" not in ran.stderr, ran.stderr
    found: list[Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def up() -> Iterator[Upstream]:
    with upstream(model_server) as server:
        yield server


@pytest.fixture(scope="module")
def proxied(up: Upstream) -> Iterator[str]:
    with running(options_for(up.url, guard_mode="refuse")) as (url, _):
        yield url


@pytest.fixture(scope="module")
def busy(up: Upstream) -> Iterator[str]:
    """A proxy whose upstream takes one request at a time, and has it."""
    options = Options(upstreams=(Place(name="up", url=up.url, max_inflight=1),), queue=0, queue_wait_s=7)
    body = {"model": "busy", "stream": True, "messages": []}
    with running(options) as (url, _), httpx.stream("POST", f"{url}/chat/completions", json=body) as response:
        assert response.status_code == 200
        yield url


def test_the_openai_sdk(up: Upstream, proxied: str, busy: str) -> None:
    direct, through, loop, full, cut = client(
        "openai_sdk", f"same={up.url}", f"same={proxied}", f"loop={proxied}", f"busy={busy}", f"cut={proxied}"
    )
    assert through == direct
    got = direct["blocking"]
    assert [part["embedding"] for part in got["embeddings"]["data"]] == [[0.5, 0.0], [0.5, 1.0]]
    assert [part["choices"][0]["delta"]["content"] for part in got["streamed"]] == ["", None, "Hi", " naïvely", None]
    assert got["streamed"][2]["x_timings"] == {"predicted_ms": 1.5}
    assert got["a call"]["choices"][0]["message"]["tool_calls"] == [NOTE]
    assert [part["type"] for part in got["refusals"]] == ["NotFoundError", "RateLimitError", "InternalServerError"]
    assert (got["dies midway"]["type"], got["dies midway"]["message"]) == ("APIError", "the model fell over")
    assert (loop["type"], loop["status"], loop["code"]) == ("BadRequestError", 400, "loop_detected")
    assert "write_note" in loop["message"] and "repeat_limit" in loop["message"]
    assert (full["type"], full["status"], full["code"]) == ("InternalServerError", 503, "admission_timeout")
    assert (cut["type"], cut["code"], cut["texts"]) == ("APIError", "upstream_broken", ["", "Hel", "lo"])


def test_the_litellm_sdk(up: Upstream, proxied: str, busy: str) -> None:
    direct, through, loop, full = client(
        "litellm_sdk", f"same={up.url}", f"same={proxied}", f"loop={proxied}", f"busy={busy}"
    )
    assert through == direct
    assert direct["whole"]["choices"][0]["message"]["content"] == "Hi"
    texts = [part["choices"][0]["delta"].get("content") for part in direct["streamed"]]
    assert "".join(text or "" for text in texts) == "Hi naïvely"
    assert direct["a call"]["choices"][0]["message"]["tool_calls"] == [NOTE]
    assert [part["type"] for part in direct["refusals"]] == ["NotFoundError", "RateLimitError"]
    assert (loop["type"], loop["status"]) == ("BadRequestError", 400)
    assert (full["type"], full["status"]) == ("ServiceUnavailableError", 503)


def test_an_agent_of_langgraph(up: Upstream, proxied: str) -> None:
    with running(options_for(up.url)) as (noting, proxy):
        direct, through, unguarded, refused, noted = client(
            "langgraph_agent",
            f"works={up.url}",
            f"works={proxied}",
            f"loops={up.url}",
            f"loops={proxied}",
            f"loops={noting}",
        )
        counts = proxy.ledger.snapshot()["stuck"]
    assert through == direct
    whole_run, streamed_run = direct
    assert whole_run[-1]["text"] == "Hi" and streamed_run[-1]["text"] == "Hi naïvely"
    assert [part["kind"] for part in whole_run] == ["human", "ai", "tool", "ai"]
    assert (unguarded, refused, noted) == ("the recursion limit", "loop_detected", "Hi")
    # Three calls with the same answer; the fourth request is told, and its model stops.
    assert (counts.requests, counts.loop_guard_trips, counts.loop_guard_loops) == (4, 1, 1)
    # The second and the third batch repeated the one before.
    assert counts.identical_result_repeats == 2

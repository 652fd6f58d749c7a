"""The `openai` SDK, blocking and asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import openai
from tests.proxy.clients.running import TOOLS, run, stuck

KEY = "sk-of-a-test"
ASKED: Any = [{"role": "user", "content": "Hello"}]
REFUSALS = ("refuses-404", "refuses-429", "refuses-500")


def told(error: openai.APIError) -> dict[str, object]:
    """What a program can tell an error by."""
    status = getattr(error, "status_code", None)
    return {"type": type(error).__name__, "status": status, "code": error.code, "message": error.message}


def failing(ask: Callable[..., object], **asked: Any) -> dict[str, object]:
    try:
        ask(**asked)
    except openai.APIError as error:
        return told(error)
    raise AssertionError("it was answered")


def blocking(url: str) -> dict[str, object]:
    with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
        create = client.chat.completions.create

        def streamed(model: str = "m", **asked: Any) -> list[object]:
            return [chunk.model_dump() for chunk in create(model=model, messages=ASKED, stream=True, **asked)]

        return {
            "models": [model.model_dump() for model in client.models.list()],
            "embeddings": client.embeddings.create(model="e", input=["a", "b"]).model_dump(),
            "whole": create(model="m", messages=ASKED).model_dump(),
            "streamed": streamed(),
            "streamed with usage": streamed(stream_options={"include_usage": True}),
            "a call": create(model="m", messages=ASKED, tools=TOOLS).model_dump(),
            "a call, streamed": streamed(tools=TOOLS),
            "refusals": [failing(create, model=name, messages=ASKED) for name in REFUSALS],
            "dies midway": failing(streamed, model="dies"),
        }


async def _asynchronous(url: str) -> dict[str, object]:
    async with openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
        create = client.chat.completions.create
        whole = await create(model="m", messages=ASKED)
        streams = await asyncio.gather(*(create(model="m", messages=ASKED, stream=True) for _ in range(3)))
        streamed = [[chunk.model_dump() async for chunk in stream] for stream in streams]
        return {"whole": whole.model_dump(), "streamed": streamed}


def same(url: str) -> dict[str, object]:
    """All that should be the same with a proxy and without."""
    return {"blocking": blocking(url), "asynchronous": asyncio.run(_asynchronous(url))}


def loop(url: str) -> dict[str, object]:
    """How it fails to go on in a loop."""
    with openai.OpenAI(base_url=url, api_key=KEY) as client:
        return failing(client.chat.completions.create, model="m", messages=stuck(3), tools=TOOLS)


def busy(url: str) -> dict[str, object]:
    """How it fails where no place is free, without and with a stream."""
    with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
        create = client.chat.completions.create
        whole = failing(create, model="m", messages=ASKED)
        assert whole == failing(create, model="m", messages=ASKED, stream=True)
        return whole


def cut(url: str) -> dict[str, object]:
    """What it has of a stream that breaks off, and how it fails."""
    texts: list[str] = []
    with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
        stream = client.chat.completions.create(model="cut", messages=ASKED, stream=True)
        try:
            texts.extend(chunk.choices[0].delta.content or "" for chunk in stream)
        except openai.APIError as error:
            return {**told(error), "texts": texts}
    raise AssertionError("it did not break off")


if __name__ == "__main__":
    run({"same": same, "loop": loop, "busy": busy, "cut": cut})

"""The `litellm` SDK, blocking and asynchronous."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.proxy.clients.running import TOOLS, run, stuck

import litellm  # isort: skip  # when it can no longer leave this machine

ASKED: Any = [{"role": "user", "content": "Hello"}]


def asked(url: str, model: str = "m", messages: Any = ASKED, **more: Any) -> dict[str, Any]:
    return {
        "model": f"openai/{model}",
        "messages": messages,
        "api_base": url,
        "api_key": "sk-of-a-test",
        "num_retries": 0,
        "max_retries": 0,
        **more,
    }


def told(asked: dict[str, Any]) -> dict[str, object]:
    """How a request fails."""
    try:
        litellm.completion(**asked)
    except Exception as error:
        code = getattr(error, "code", None)
        return {"type": type(error).__name__, "status": getattr(error, "status_code", None), "code": code}
    raise AssertionError("it was answered")


def plain(answer: Any) -> Any:
    """What of an answer comes from the server: not the times and the internals that the SDK adds."""
    found = answer.model_dump()
    found.pop("created", None)
    return found


async def _asynchronous(url: str) -> list[Any]:
    whole = await litellm.acompletion(**asked(url))
    stream: Any = await litellm.acompletion(**asked(url, stream=True))
    return [plain(whole), [plain(chunk) async for chunk in stream]]


def same(url: str) -> dict[str, object]:
    """All that should be the same with a proxy and without."""
    completion: Any = litellm.completion
    return {
        "whole": plain(completion(**asked(url))),
        "streamed": [plain(chunk) for chunk in completion(**asked(url, stream=True))],
        "a call": plain(completion(**asked(url, tools=TOOLS))),
        "a call, streamed": [plain(chunk) for chunk in completion(**asked(url, tools=TOOLS, stream=True))],
        "asynchronous": asyncio.run(_asynchronous(url)),
        "refusals": [told(asked(url, name)) for name in ("refuses-404", "refuses-429")],
    }


def loop(url: str) -> dict[str, object]:
    """How it fails to go on in a loop."""
    return told(asked(url, messages=stuck(3), tools=TOOLS))


def busy(url: str) -> dict[str, object]:
    """How it fails where no place is free."""
    return told(asked(url))


if __name__ == "__main__":
    run({"same": same, "loop": loop, "busy": busy})

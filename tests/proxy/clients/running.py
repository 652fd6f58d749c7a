"""What the scripts of this folder have in common.

`python -m tests.proxy.clients.NAME task=URL task=URL` does each task with the client that the script is about, against
that endpoint, and prints a JSON list of what the client got. It can reach this machine only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

_HERE = ("127.0.0.1", "::1", "localhost")


def _stay_here(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        address = arguments[1]
        outside = isinstance(address, tuple) and address[0] not in _HERE
    else:
        outside = event == "socket.getaddrinfo" and arguments[0] not in (*_HERE, None)
    if outside:
        print(f"the client tried to leave this machine: {event} {arguments!r}", file=sys.stderr, flush=True)
        raise OSError("a test reaches this machine only")


sys.addaudithook(_stay_here)


def run(tasks: Mapping[str, Callable[[str], object]]) -> None:
    """Do what the command line says, and print what came of it."""
    asked = [argument.partition("=") for argument in sys.argv[1:]]
    print(json.dumps([tasks[name](url) for name, _, url in asked]))


TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "write_note",
            "description": "Write a note.",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        },
    }
]


def stuck(times: int) -> Any:
    """The messages of an agent that made the same call so often, and always got the same answer."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Write it down."}]
    for turn in range(times):
        function = {"name": "write_note", "arguments": '{"text": "x"}'}
        calls = [{"id": f"call_{turn}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": "disk full"})
    return messages

"""OpenAI Chat Completions as it goes over the wire: a request, its history, the guard's note, an answer, an error.

Nothing here raises on content. What cannot be read is `None`, and stays as it came.
Source: OpenAI's API reference (chat completions, streaming), and the fields that llama.cpp, vLLM, SGLang, Ollama,
DeepSeek, Mistral and OpenRouter add to it.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

SENTINEL = b"[DONE]"
"""Data of the frame that ends a streamed answer."""


class Request(NamedTuple):
    """What is asked, as far as the proxy needs to know."""

    model: str
    """As the client wrote it; empty where it named none."""
    streaming: bool
    messages: list[Any] | None
    """The conversation, decoded; None where there is no list of messages."""


class _Envelope(msgspec.Struct):
    model: Any = None
    stream: Any = None
    messages: msgspec.Raw = msgspec.Raw()


_LENIENT_BYTES = 4 << 20
"""Beyond it only what is strictly JSON is read: the lenient reader stops all others for seconds."""

_envelopes = msgspec.json.Decoder(_Envelope)
_raw_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raw_lists = msgspec.json.Decoder(list[msgspec.Raw])


def read_request(body: bytes, with_messages: bool = True) -> Request | None:
    """The request that a body makes; None where it is no JSON object."""
    try:
        envelope = _envelopes.decode(body)
        model, stream, raw = envelope.model, envelope.stream, bytes(envelope.messages)
        messages = _decoded(raw) if raw and with_messages else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        whole = _decoded(body)
        if not isinstance(whole, dict):
            return None
        model, stream, messages = whole.get("model"), whole.get("stream"), whole.get("messages")
    return Request(
        model if isinstance(model, str) else "", stream is True, messages if isinstance(messages, list) else None
    )


def _decoded(data: bytes) -> Any:
    """Any JSON; None where it is none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    if len(data) > _LENIENT_BYTES:
        return None
    try:  # it takes NaN, 1e400 and halves of surrogate pairs, which clients do send
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def conversation_hash(messages: list[Any]) -> str | None:
    """Sixteen hex digits that stay the same while a conversation grows: of what opens it, up to the first message of
    its user. None where there is none."""
    opening = []
    for message in messages:
        if not isinstance(message, dict):
            return None
        role = message.get("role")
        opening.append([role, message.get("content")])
        if role == "user":
            return short_hash(json.dumps(opening, sort_keys=True))
    return None


def short_hash(text: str) -> str:
    """Sixteen hex digits that tell one text from another, and do not tell the text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


# --- the guard's note -----------------------------------------------------------------------------------------


def with_note(body: bytes, note: str) -> bytes:
    """The request with a note at the end of its last message, or after it; as it came where there is no place.

    In a message of the user or a tool it stands after a blank line, alone where that was empty, or as a text part
    more. After any other message it is a user message of its own: never words in the model's mouth, and no system
    message at the end, which chat templates lose or move. Nothing else of the body changes its value or its order.
    """
    try:
        request = _raw_objects.decode(body)
        messages = _raw_lists.decode(request["messages"])
        last = _raw_objects.decode(messages[-1])
        role = msgspec.json.decode(last["role"])
        content = msgspec.json.decode(last["content"]) if "content" in last else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError, IndexError):
        return _with_note_slowly(body, note)
    placed = _placed(role, content, note)
    if placed is None:
        messages.append(msgspec.Raw(msgspec.json.encode({"role": "user", "content": note})))
    else:
        last["content"] = msgspec.Raw(msgspec.json.encode(placed))
        messages[-1] = msgspec.Raw(msgspec.json.encode(last))
    request["messages"] = msgspec.Raw(msgspec.json.encode(messages))
    return msgspec.json.encode(request)


def _with_note_slowly(body: bytes, note: str) -> bytes:
    """The same for bodies that only a lenient reader takes, or whose last message has no role or is no object."""
    request = _decoded(body)
    messages = request.get("messages") if isinstance(request, dict) else None
    if not isinstance(messages, list) or not messages:
        return body
    last = messages[-1]
    placed = _placed(last.get("role"), last.get("content"), note) if isinstance(last, dict) else None
    if placed is None:
        messages.append({"role": "user", "content": note})
    else:
        last["content"] = placed
    return json.dumps(request).encode()


def _placed(role: object, content: object, note: str) -> str | list[Any] | None:
    """The content with the note in it; None where the note has to be a message of its own."""
    if role not in ("user", "tool"):
        return None
    if isinstance(content, str):
        return f"{content}\n\n{note}" if content else note
    if isinstance(content, list):
        return [*content, {"type": "text", "text": note}]
    return None


# --- an answer ------------------------------------------------------------------------------------------------


class _Part(msgspec.Struct, gc=False):
    """A message, or what a chunk adds to one."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    thinking: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None
    audio: Any = None
    images: Any = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Part | None = None
    message: _Part | None = None
    finish_reason: Any = None


class _Answer(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    error: Any = None


# Without the garbage collector, which would look at a hundred thousand of them a second: decoded JSON has no cycles.
_answers = msgspec.json.Decoder(_Answer)
_answer_lists = msgspec.json.Decoder(list[_Answer])
_REASONING_PARTS = ("thinking", "reasoning", "redacted_thinking")


class AnswerFacts:
    """What came of one answer, from its frames or from the whole of it."""

    __slots__ = ("called", "ended", "errored", "finished", "reasoned", "rendered", "truncated", "unreadable")

    def __init__(self) -> None:
        self.rendered = False
        """Something that a client can show or do: text that is not white space, a refusal, an image, audio, a call."""
        self.reasoned = False
        self.called = False
        self.finished = False
        """A finish reason came."""
        self.truncated = False
        """It said that the limit of the output was reached."""
        self.ended = False
        """The end sentinel came."""
        self.errored = False
        """The upstream said in the answer that it failed."""
        self.unreadable = 0
        """Frames, or bodies, that are no JSON object."""

    def add(self, data: bytes) -> None:
        """Take the data of one frame, or a whole answer."""
        try:
            answer = _answers.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._add_odd(data)
        else:
            self._add_answers([answer])

    def add_list(self, data: bytes, count: int) -> bool:
        """Take the data of so many frames as one JSON list; False, and nothing is taken, where it is not that."""
        try:
            answers = _answer_lists.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        if len(answers) != count:
            return False
        self._add_answers(answers)
        return True

    def _add_answers(self, answers: list[_Answer]) -> None:
        """One loop, and nothing in it that need not be: it runs a hundred thousand times a second."""
        is_known = self.rendered and self.called
        for answer in answers:
            if choices := answer.choices:
                for choice in choices:
                    part = choice.delta or choice.message
                    if part is not None and not is_known:
                        self._add_part(part)
                        is_known = self.rendered and self.called
                    if choice.finish_reason is not None:
                        self._finish(choice.finish_reason)
            elif answer.error is not None:
                self.errored = True

    def _add_part(self, part: _Part) -> None:
        content = part.content
        if content.__class__ is str:
            if not self.rendered and content and not content.isspace():
                self.rendered = True
        elif content is not None:
            self._add_content(content)
        if part.tool_calls or part.function_call:
            self.called = self.rendered = True
        elif part.refusal or part.audio or part.images:
            self.rendered = True
        if part.reasoning_content or part.reasoning or part.reasoning_details or part.thinking:
            self.reasoned = True

    def _add_content(self, content: object) -> None:
        for item in content if isinstance(content, list) else (content,):
            kind = item.get("type") if isinstance(item, dict) else None
            if kind in _REASONING_PARTS:
                self.reasoned = True
            elif kind in ("text", "output_text"):
                text = item.get("text") if isinstance(item, dict) else None
                self.rendered = self.rendered or (isinstance(text, str) and bool(text.strip()))
            elif item:
                self.rendered = True

    def _finish(self, reason: object) -> None:
        if reason == "error":
            self.errored = True
        elif reason:
            self.finished = True
            if reason == "length" or reason == "max_tokens":
                self.truncated = True

    def _add_odd(self, data: bytes) -> None:
        """What is not of the usual shape: the sentinel, no JSON, or JSON with something else in a known place."""
        if data.strip() == SENTINEL:
            self.ended = True
            return
        answer = _decoded(data)
        if not isinstance(answer, dict):
            self.unreadable += 1
            return
        choices = answer.get("choices")
        if not choices and answer.get("error") is not None:
            self.errored = True
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            part = choice.get("delta") or choice.get("message")
            if isinstance(part, dict):
                known = {name: part[name] for name in _Part.__struct_fields__ if name in part}
                self._add_part(_Part(**known))
            self._finish(choice.get("finish_reason"))


# --- errors ---------------------------------------------------------------------------------------------------


def error_body(message: str, type: str, code: str) -> bytes:
    """An error as clients of this API read it."""
    return msgspec.json.encode({"error": {"message": message, "type": type, "code": code}})

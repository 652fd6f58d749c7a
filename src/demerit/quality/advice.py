"""What to change: at most three sentences a session, each from one named rule over measured facts.

A rule is a function from the tallies to an `Advice` or None. Adding one is the function, its place in `RULES`
(first comes first), and its heading in docs/advice.md. Advice is never scored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from demerit.model import CallStatus, ToolCall
from demerit.quality.context import ContextHealth
from demerit.quality.report import Advice, Evidence, Hygiene

_Key = TypeVar("_Key")

MOST = 3
"""Sentences a session gets."""
_REFS = 20
_AGAIN = 4
_MOST_INPUTS = 20_000
"""Different inputs, and files, that are told apart: of more, the latest ones."""


# Members of an enum are looked up through a descriptor, and `add` runs for every call.
_OK, _FAILED, _BENIGN, _UNKNOWN = CallStatus.OK, CallStatus.FAILED, CallStatus.BENIGN, CallStatus.UNKNOWN
_INVALID, _DECLINED = CallStatus.INVALID, CallStatus.DECLINED


class _Tool:
    """What happened to one tool's calls."""

    __slots__ = ("declined", "failed", "invalid", "is_shell", "ran")

    def __init__(self, is_shell: bool = False) -> None:
        self.is_shell = is_shell
        self.ran = 0
        self.failed = Evidence()
        self.declined = Evidence()
        self.invalid: dict[str, Evidence] = {}


class AdviceFolder:
    """Keeps the tallies that the rules read, one call at a time."""

    def __init__(self) -> None:
        self.tools: dict[str, _Tool] = {}
        self.by_model: Counter[tuple[str, str]] = Counter()
        self.failed_inputs: dict[tuple[str, str], Evidence] = {}
        self.failed_commands: dict[tuple[str, str], Evidence] = {}
        """The same of shell commands, since the last change to a file: a test run after it is no repetition."""
        self.failed_again: tuple[str, Evidence] = ("", Evidence())
        self.reads: dict[str, dict[str | None, Evidence]] = {}
        self.read_again: dict[str, Evidence] = {}
        self.hygiene = Hygiene(0, 0, 0, 0, False)
        self.health: ContextHealth | None = None

    def add(self, call: ToolCall, model: str | None) -> None:
        tool = self.tools.get(call.name)
        if tool is None:
            tool = self.tools[call.name] = _Tool(call.category == "shell")
        self.by_model[model or "", call.name] += 1
        status = call.status
        if status is _OK or status is _BENIGN:
            tool.ran += 1
        elif status is _FAILED:
            tool.ran += 1
            tool.failed.add(call, "failed")
            if call.input_hash is not None:
                key = (call.name, call.input_hash)
                inputs = self.failed_commands if call.category == "shell" else self.failed_inputs
                again = _followed(inputs, key)
                again.add(call, "failed with this very input")
                if again.count > self.failed_again[1].count:
                    self.failed_again = (call.name, again)
        elif status is _INVALID:
            tool.invalid.setdefault(model or "", Evidence()).add(call, "the call itself was broken")
        elif status is _DECLINED and not call.changes_files:
            tool.declined.add(call, "declined")
        if call.changes_files:
            if status is _OK or status is _UNKNOWN:
                self.failed_commands.clear()
            for path in call.file_paths:
                self.reads.pop(path, None)
        elif call.category == "read" and status is _OK and call.input_hash is not None and len(call.file_paths) == 1:
            # Another part of a long file is no repetition: the input tells the parts apart.
            path = call.file_paths[0]
            parts = self.reads.get(path)
            if parts is None:
                parts = self.reads[path] = {}
                if len(self.reads) > _MOST_INPUTS:
                    del self.reads[next(iter(self.reads))]
            reads = _followed(parts, call.input_hash)
            reads.add(call, "read again, unchanged")
            if reads.count >= _AGAIN and (path not in self.read_again or reads.count > self.read_again[path].count):
                self.read_again[path] = reads

    def result(self, hygiene: Hygiene, health: ContextHealth | None) -> tuple[Advice, ...]:
        """The first `MOST` advices, in the order of `RULES`."""
        self.hygiene, self.health = hygiene, health
        found = [advice for rule in RULES if (advice := rule(self)) is not None]
        return tuple(found[:MOST])


def _followed(known: dict[_Key, Evidence], key: _Key) -> Evidence:
    """What is known of `key`; of so many only the latest ones are."""
    found = known.get(key)
    if found is None:
        found = known[key] = Evidence()
        if len(known) > _MOST_INPUTS:
            del known[next(iter(known))]
    return found


def _advice(rule: Callable[..., object], text: str, behind: Evidence | None = None) -> Advice:
    return Advice(rule.__name__, text, tuple(behind.calls[:_REFS]) if behind else ())


def model_breaks_tool_schema(facts: AdviceFolder) -> Advice | None:
    """One model's calls of one tool were broken twice or more."""
    broken = {(model, name): refs for name, tool in facts.tools.items() for model, refs in tool.invalid.items()}
    (model, name), refs = max(broken.items(), key=lambda item: item[1].count, default=(("", ""), Evidence()))
    if refs.count < 2:
        return None
    text = (
        f"{model or 'The model'} broke {refs.count} of its {facts.by_model[model, name]} calls of {name}: "
        "describe the tool's arguments more plainly, or use another model for it."
    )
    return _advice(model_breaks_tool_schema, text, refs)


def same_call_fails_again(facts: AdviceFolder) -> Advice | None:
    """The same tool with the same input failed three times or more; a shell command, with no file changed meanwhile."""
    name, refs = facts.failed_again
    if refs.count < 3:
        return None
    text = (
        f"{name} failed {refs.count} times with the very same input: "
        "have the agent change something, or ask, before it tries again."
    )
    return _advice(same_call_fails_again, text, refs)


def tool_always_fails(facts: AdviceFolder) -> Advice | None:
    """A tool ran three times or more and never once worked. Not a shell: there it is the commands that fail."""
    useless = {
        name: tool for name, tool in facts.tools.items() if tool.ran == tool.failed.count >= 3 and not tool.is_shell
    }
    if not useless:
        return None
    name, tool = max(useless.items(), key=lambda item: item[1].ran)
    text = f"{name} failed in all of its {tool.ran} calls: check that it works here at all."
    return _advice(tool_always_fails, text, tool.failed)


def user_declines_tool(facts: AdviceFolder) -> Advice | None:
    """Three calls or more of one tool were declined; changes of files aside, where the content displeased."""
    name, tool = max(facts.tools.items(), key=lambda item: item[1].declined.count, default=("", _Tool()))
    if tool.declined.count < 3:
        return None
    text = (
        f"{tool.declined.count} calls of {name} were declined: write down, as a permission rule or in the "
        "agent's instructions, what it may do with it."
    )
    return _advice(user_declines_tool, text, tool.declined)


def file_read_again(facts: AdviceFolder) -> Advice | None:
    """The same part of a file was read four times or more without a change to it in between."""
    path, refs = max(facts.read_again.items(), key=lambda item: item[1].count, default=("", Evidence()))
    if refs.count < _AGAIN:
        return None
    text = (
        f"{path} was read {refs.count} times though nothing had changed it: "
        "put what matters of it into the agent's instructions."
    )
    return _advice(file_read_again, text, refs)


def prompts_name_no_code(facts: AdviceFolder) -> Advice | None:
    """Two prompts or more, and at least half of all, ask for a change and name no file or code."""
    hygiene = facts.hygiene
    if hygiene.no_code_context < 2 or hygiene.no_code_context * 2 < hygiene.prompts:
        return None
    text = (
        f"{hygiene.no_code_context} of {hygiene.prompts} prompts ask for a change and name no file: "
        "a path or a snippet saves the agent the search."
    )
    return _advice(prompts_name_no_code, text)


def prompts_repeat(facts: AdviceFolder) -> Advice | None:
    """Two prompts or more repeat an earlier one to the letter."""
    if facts.hygiene.duplicate < 2:
        return None
    text = (
        f"{facts.hygiene.duplicate} prompts repeat an earlier one word for word: "
        "say what was wrong with the last answer instead."
    )
    return _advice(prompts_repeat, text)


def context_overflows(facts: AdviceFolder) -> Advice | None:
    """The context was shed twice or more."""
    health = facts.health
    if health is None or health.resets < 2:
        return None
    text = (
        f"The context was shed {health.resets} times (it had reached {health.peak:,} tokens): "
        "split the task, or start a new session for each part."
    )
    return _advice(context_overflows, text)


RULES: tuple[Callable[[AdviceFolder], Advice | None], ...] = (
    model_breaks_tool_schema,
    same_call_fails_again,
    tool_always_fails,
    user_declines_tool,
    file_read_again,
    prompts_name_no_code,
    prompts_repeat,
    context_overflows,
)

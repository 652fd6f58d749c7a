"""SWE-agent (`.traj`) and mini-swe-agent (`.traj.json`): one JSON file a run.

What is easy to get wrong, and is decided here:
- SWE-agent logs no status and no exit code: a call with a result is `unknown`, but for a few fixed texts of its own
  tools. mini logs the code of every command.
- SWE-agent's `history` is the conversation, but what the model had to say again is only in `trajectory`, where every
  step stands: steps that the history left out are put back in their place.
- Nobody sits at a SWE-agent run. At mini's interactive agent somebody does, and its fixed texts ("Interrupted by
  user: ...") hold what was typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from demerit.model import Author, CallStatus, Category, Session, Usage
from demerit.parsers.drafts import (
    ApiUsage,
    Draft,
    DraftCall,
    Function,
    Part,
    ThinkingBlock,
    Transcript,
    usage_of,
)
from demerit.parsers.evidence import (
    MINI_RETURNCODE,
    Judgement,
    by_exit_code,
    category_of,
    is_mini_result,
    paths_in,
)
from demerit.parsers.records import (
    BAD_CONTENT,
    NOTHING,
    Coverage,
    Home,
    LineDecoder,
    Losses,
    Parser,
    Record,
    Sample,
    Source,
    input_hash,
    is_given,
    text_body,
    token_count,
)

# --- the format -------------------------------------------------------------------------------------------


class _ToolCall(msgspec.Struct):
    id: str | None = None
    function: Function | None = None


class _Response(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    usage: ApiUsage | None = None


class _Action(msgspec.Struct):
    command: str | None = None
    tool_call_id: str | None = None


class _Extra(msgspec.Struct):
    """What mini notes beside a message."""

    timestamp: str | int | float | None = None
    actions: list[_Action] | None = None
    response: _Response | None = None
    returncode: int | None = None
    raw_output: str | None = None
    exception_info: str | None = None
    exception_type: str | None = None
    interrupt_type: str | None = None
    model_response: msgspec.Raw = NOTHING
    exit_status: str | None = None


class _Output(msgspec.Struct):
    """An item of a response of the Responses API."""

    type: str | None = None
    content: list[Part] | None = None
    summary: list[Part] | None = None
    encrypted_content: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: msgspec.Raw = NOTHING


class _Item(msgspec.Struct):
    role: str | None = None
    content: msgspec.Raw = NOTHING
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None
    thinking_blocks: list[ThinkingBlock] | None = None
    reasoning_content: str | None = None
    # SWE-agent's
    message_type: str | None = None
    is_demo: bool | None = None
    thought: str | None = None
    action: str | None = None
    tool_call_ids: list[str] | None = None
    # mini's
    extra: _Extra | None = None
    object: str | None = None
    type: str | None = None
    id: str | None = None
    model: str | None = None
    output: msgspec.Raw = NOTHING  # the items of a response, or the text of a result
    call_id: str | None = None
    usage: ApiUsage | None = None


class _Step(msgspec.Struct):
    action: str | None = None
    observation: str | None = None
    response: str | None = None
    thought: str | None = None
    reasoning_content: str | None = None
    state: msgspec.Raw = NOTHING  # a JSON text, or the object itself


class _State(msgspec.Struct):
    open_file: str | None = None
    working_dir: str | None = None


class _Model(msgspec.Struct):
    name: str | None = None
    model_name: str | None = None


class _Agent(msgspec.Struct):
    model: _Model | None = None


class _Replay(msgspec.Struct):
    agent: _Agent | None = None


class _Environment(msgspec.Struct):
    cwd: str | None = None


class _Config(msgspec.Struct):
    model: _Model | None = None
    environment: _Environment | None = None
    agent_type: str | None = None


class _ModelStats(msgspec.Struct):
    tokens_sent: int | None = None
    tokens_received: int | None = None


class _Info(msgspec.Struct):
    exit_status: str | None = None
    swe_agent_version: str | None = None
    mini_version: str | None = None
    config: _Config | None = None
    model_stats: _ModelStats | None = None


class _Attempt(msgspec.Struct):
    trajectory: list[_Step] | None = None
    history: list[_Item] | None = None
    info: _Info | None = None
    replay_config: msgspec.Raw = NOTHING


class _File(_Attempt):
    attempts: list[_Attempt] | None = None
    messages: list[_Item] | None = None
    instance_id: str | None = None


_FILES = LineDecoder(_File)
_STATES = LineDecoder(_State)
_REPLAYS = LineDecoder(_Replay)
_OUTPUTS = msgspec.json.Decoder(list[_Output])

# --- SWE-agent's tools and fixed texts ----------------------------------------------------------------------

# Its own commands: the first word of an action that is no line for the shell.
_CATEGORIES: dict[str, Category] = {}
for _category, _names in {
    "read": "open goto scroll_up scroll_down filemap view_image decompile disassemble",
    "search": "find_file search_dir search_file",
    "edit": "edit insert undo_edit str_replace_editor",
    "write": "create",
    "shell": "connect_start connect_sendline connect_exec connect_stop debug_start debug_add_breakpoint "
    "debug_continue debug_step debug_exec debug_stop",
    "other": "submit exit_forfeit",
}.items():
    _CATEGORIES.update(dict.fromkeys(_names.split(), _category))  # type: ignore[arg-type]
_BY_COMMAND: dict[str, Category] = {"view": "read", "create": "write"}  # of str_replace_editor
_PLACE_OF_PATH = {"open": 1, "create": 1, "view_image": 1, "filemap": 1, "str_replace_editor": 2}
_IN_OPEN_FILE = frozenset(("edit", "insert"))
_FORMS = (
    re.compile(r"The command '.{0,2000}?' was cancelled because it took more than ", re.DOTALL),
    re.compile(r"Your proposed edit has introduced new syntax error\(s\)"),
    re.compile(r"No replacement was performed, old_str "),
)
# Its editors say how an edit went, at the start of what they print; nothing else of SWE-agent's does.
_EDITED = re.compile(
    r"\[File: |File updated\. |Text replaced\. |Replaced \d+ occurrences|File created successfully at|"
    r"The file \S{1,500} has been edited\."
)
# What the environment of a contest says of an answer that is not the right one; the run goes on.
_WRONG_FLAG = "Wrong flag!"
_EXITS = re.compile(r"Exit(?:ing)? due to ")
_API_EXITS = re.compile(r"\bexit_(?:api|context)\b")

# --- mini's fixed texts -------------------------------------------------------------------------------------

_BLOCKS = (
    (re.compile(r"```(?:mswea_bash_command|bash)[^\S\n]*(?=\n)"), "\n```"),
    (re.compile(r"<mswea_bash_command>"), "</mswea_bash_command>"),
)
_TIMED_OUT = "The last command <command>"
_SUBMITS = re.compile(r"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT|MINI_SWE_AGENT_FINAL_OUTPUT")
_NEVER_RAN = "action was not executed"
_TASK = re.compile(r"Please solve this issue: (.*?)\n\nYou can execute bash commands ", re.DOTALL)
_INTERRUPTED = "Interrupted by user: "
_NO_COMMENT = "Temporary interruption caught."
_REJECTED = re.compile(
    r"Commands? not executed\. The user rejected your commands? with the following message:\s*(.*)", re.DOTALL
)
_NEW_TASK = "The user added a new task: "
_BY_HAND = "User command:"
# Exit statuses that are the name of an error of the model's interface.
_API_ERRORS = frozenset(
    (
        "APIError APIConnectionError APIStatusError AuthenticationError BadRequestError ContentPolicyViolationError "
        "ContextWindowExceededError InternalServerError NotFoundError PermissionDeniedError RateLimitError RetryError "
        "ServiceUnavailableError Timeout UnprocessableEntityError UnsupportedParamsError"
    ).split()
)

# --- reading ------------------------------------------------------------------------------------------------


class _Reader(Transcript):
    """What the runs of both programs have in common."""

    def __init__(self, record: Record, source: Source, losses: Losses) -> None:
        super().__init__(source, losses)
        self.record = record
        self.open: list[DraftCall] = []  # the calls of the last response
        self.has_begun = False

    def response(self, text: str, item: _Item, at: datetime | None = None, model: str | None = None) -> Draft:
        draft = self.say("assistant", "agent", text, at, model=model or self.model)
        blocks = item.thinking_blocks or ()
        texts = [block.thinking or "" for block in blocks] or [item.reasoning_content or ""]
        self.think(draft, texts, sum(len(block.signature or block.data or "") for block in blocks))
        self.open = draft.calls
        self.has_begun = True
        for call in item.tool_calls or ():
            self.tool_call(draft, call.id, call.function or Function())
        return draft

    def tool_call(self, draft: Draft, call_id: str | None, function: Function) -> None:
        """A call in the form of the API: its name, and its arguments as a JSON text."""
        name = function.name or ""
        call = DraftCall(name, _CATEGORIES.get(name) or category_of(name), call_id, draft.at)
        if is_given(function.arguments):
            call.input = self.body(function.arguments)
            arguments = self.arguments(function.arguments)
            call.hash = input_hash(arguments)
            call.paths = paths_in(arguments)
            command = arguments.get("command") if isinstance(arguments, dict) else None
            call.command = command if isinstance(command, str) else None
            if name == "str_replace_editor":
                call.category = _BY_COMMAND.get(call.command or "", "edit")
        self.add_call(draft, call)


class _Swe(_Reader):
    """A run of SWE-agent."""

    def read(self, run: _Attempt) -> None:
        info = run.info or _Info()
        self.version = info.swe_agent_version
        for replay in self.inner(run.replay_config, _REPLAYS):
            self.model = replay.agent.model.name if replay.agent and replay.agent.model else None
        steps = run.trajectory or []
        self.state: _State | None = None
        later: dict[tuple[str | None, str | None], list[int]] = {}  # the places of the steps, the last first
        for place in range(len(steps) - 1, -1, -1):
            later.setdefault((steps[place].action, steps[place].thought), []).append(place)
        at = 0
        for item in run.history or ():
            self.begin_item()
            if item.role == "assistant" and not _is_demo(item):
                places = later.get((item.action, item.thought), [])
                while places and places[-1] < at:
                    places.pop()
                if places:
                    for step in steps[at : places[-1]]:
                        self.left_out(step)
                    at = places[-1] + 1
                    self.enter(steps[at - 1])
            self.item(item)
        for step in steps[at:]:
            self.rest(step)
        self.end(info)

    def inner(self, raw: msgspec.Raw, decoder: LineDecoder[Any]) -> Iterator[Any]:
        """An object that stands in its field as it is, or as a JSON text."""
        data = bytes(raw)
        if data[:1] == b'"':
            data = self.content(raw)[0].encode()
        if data[:1] == b"{":
            yield from decoder.decode(Record(data, self.record.offset), self.losses)
        elif is_given(raw) and data.strip():
            self.lose("wrong_type")

    def enter(self, step: _Step) -> None:
        self.state = next(self.inner(step.state, _STATES), self.state)
        if self.cwd is None and self.state is not None:
            self.cwd = self.state.working_dir

    def item(self, item: _Item) -> None:
        text, has_image = self.content(item.content)
        if item.role == "system":
            self.say("system", "harness", text)
        elif _is_demo(item) or (item.role == "assistant" and not item.action and _EXITS.match(text)):
            self.context(text)
        elif item.role == "assistant":
            draft = self.response(text, item)
            if not draft.calls and item.action and item.action.strip():
                self.action(draft, item.action)
            self.in_open_file()
        elif item.role in ("user", "tool"):
            self.told(item, text, has_image)
        else:
            self.lose("unknown_role" if item.role else "no_role")

    def action(self, draft: Draft, action: str) -> None:
        """A call in text: a line for SWE-agent's own commands, or for the shell."""
        words = action.split(maxsplit=3)
        name = words[0] if words[0] in _CATEGORIES else "bash"
        call = DraftCall(name, _CATEGORIES.get(name, "shell"), None, draft.at)
        if name == "str_replace_editor":
            call.category = _BY_COMMAND.get(words[1] if len(words) > 1 else "", "edit")
        place = _PLACE_OF_PATH.get(name, 0)
        if place and len(words) > place:
            call.paths = (words[place].strip("\"'"),)
        call.input = text_body(action, self.source)
        call.hash = input_hash(action.strip())
        self.add_call(draft, call)

    def in_open_file(self) -> None:
        """Its editor changes the file that is open, which the call does not name."""
        path = self.state.open_file if self.state else None
        for call in self.open:
            if call.name in _IN_OPEN_FILE and not call.paths and path and path != "n/a":
                call.paths = (path,)

    def told(self, item: _Item, text: str, has_image: bool) -> None:
        ids = item.tool_call_ids or ([item.tool_call_id] if item.tool_call_id else [])
        waiting = [self.calls[name] for name in ids if name in self.calls]
        waiting = waiting or [call for call in self.open if call.verdict is None]
        for call in waiting:
            call.answer(_by_form(call, text), self.body(item.content))
        if waiting:
            return
        if item.role == "tool":
            self.lose("orphan_result")
        elif self.has_begun:
            self.context(text)
        else:  # the task, out of a benchmark or an issue
            self.say("user", "harness", text, has_image=has_image)

    def step(self, step: _Step) -> list[DraftCall]:
        """A step that is not in the history; its calls."""
        self.enter(step)
        draft = self.response(step.response or step.thought or "", _Item(reasoning_content=step.reasoning_content))
        if step.action and step.action.strip():
            self.action(draft, step.action)
        self.in_open_file()
        return draft.calls

    def left_out(self, step: _Step) -> None:
        """A step after which the model was asked again."""
        seen = step.observation or ""
        for call in self.step(step):
            if seen.strip():  # the tool printed the mark for it
                call.answer(Judgement(CallStatus.FAILED, "the tool had the model asked again"), self.seen(seen))
            else:
                call.answer(Judgement(CallStatus.INVALID, "refused before it ran: the model was asked again"))

    def rest(self, step: _Step) -> None:
        """A step at the end that did not come into the history."""
        said = step.thought or step.response or ""
        if not (step.action or "").strip() and _EXITS.match(said):
            self.context(said)
            return
        for call in self.step(step):
            if step.observation:
                call.answer(_by_form(call, step.observation), self.seen(step.observation))

    def seen(self, text: str) -> Any:
        return text_body(text, self.source)

    def end(self, info: _Info) -> None:
        status = info.exit_status or ""
        self.is_terminal = bool(status)
        for call in self.open:
            if call.name == "submit" and status.startswith("submitted"):
                call.verdict = Judgement(CallStatus.OK, f"exit_status {status}")
        if _API_EXITS.search(status):
            self.api_error(status)
        spent = info.model_stats or _ModelStats()
        # Counted by SWE-agent, over the run: it does not say how much of it came out of a cache.
        total = Usage(token_count(spent.tokens_sent), output_tokens=token_count(spent.tokens_received), is_sum=True)
        self.loose += [] if total.is_empty else [total]


class _Mini(_Reader):
    """A run of mini-swe-agent."""

    def read(self, messages: list[_Item], info: _Info) -> None:
        config = info.config or _Config()
        self.version = info.mini_version
        self.model = config.model.model_name if config.model else None
        self.cwd = config.environment.cwd if config.environment else None
        self.is_attended = ".interactive" in (config.agent_type or "")
        self.is_by_hand = False
        self.status = info.exit_status
        for number, item in enumerate(messages):
            self.begin_item()
            self.item(item, is_last=number == len(messages) - 1)
        self.end()

    def item(self, item: _Item, is_last: bool) -> None:
        extra = item.extra or _Extra()
        at = self.time(extra.timestamp)
        if item.object == "response":
            self.from_responses_api(item, at)
        elif item.type == "function_call_output":
            self.result(item.call_id, item.output, extra)
        elif item.role == "assistant":
            self.said(item, extra, at)
        elif item.role == "tool":
            self.result(item.tool_call_id, item.content, extra)
        elif item.role == "user":
            self.user(item, extra, at, is_last)
        elif item.role in ("system", "developer"):
            self.say("system", "harness", self.content(item.content)[0], at)
        elif item.role == "exit":
            self.status = extra.exit_status or self.status
        else:
            self.lose("unknown_role" if item.role else "no_role")

    # a response

    def said(self, item: _Item, extra: _Extra, at: datetime | None) -> None:
        answer = extra.response or _Response()
        draft = self.response(self.content(item.content)[0], item, at, answer.model)
        draft.usage = usage_of(answer.usage, answer.id)
        self.is_by_hand = False
        if not draft.calls and extra.actions is not None:
            self.commands(draft, [action.command or "" for action in extra.actions])
        elif not draft.calls:
            self.commands(draft, _blocks(draft.text))
            if len(draft.calls) > 1:
                self.refuse_all(CallStatus.INVALID, "several commands in one response: none was run")

    def from_responses_api(self, item: _Item, at: datetime | None) -> None:
        draft = self.response("", _Item(), at, item.model)
        draft.usage = usage_of(item.usage, item.id)
        self.is_by_hand = False
        texts = []
        try:
            outputs = _OUTPUTS.decode(item.output)
        except BAD_CONTENT:
            self.lose("wrong_type")
            return
        for output in outputs:
            if output.type == "message":
                texts += [part.text for part in output.content or () if part.text]
            elif output.type == "function_call":
                self.tool_call(draft, output.call_id, Function(output.name, output.arguments))
            elif output.type == "reasoning":
                summary = [part.text or "" for part in output.summary or ()]
                self.think(draft, summary, len(output.encrypted_content or ""), "ciphertext")
            else:
                self.lose("unknown_block" if output.type else "no_type")
        draft.text = "\n".join(texts)

    def commands(self, draft: Draft, commands: list[str]) -> None:
        for command in commands:
            call = DraftCall("bash", "shell", None, draft.at, command=command)
            call.input = text_body(command, self.source)
            call.hash = input_hash({"command": command})
            self.add_call(draft, call)

    def refuse_all(self, status: CallStatus, why: str) -> None:
        for call in self.open:
            call.answer(Judgement(status, why))

    # what comes back

    def result(self, call_id: str | None, raw: msgspec.Raw, extra: _Extra) -> None:
        call = self.calls.get(call_id or "")
        if call is None:
            self.lose("orphan_result")
        else:
            call.answer(self.judge(call, self.content(raw)[0], extra), self.body(raw))

    def judge(self, call: DraftCall, text: str, extra: _Extra) -> Judgement:
        if extra.exception_info == _NEVER_RAN:
            return Judgement(CallStatus.CANCELLED, f"exception_info: {_NEVER_RAN}")
        if extra.exception_info:
            return Judgement(CallStatus.FAILED, f"exception_info: {extra.exception_type or 'the command broke'}")
        found = MINI_RETURNCODE.match(text)
        if extra.returncode is not None:
            output = text if extra.raw_output is None else extra.raw_output
            return by_exit_code(call.command, extra.returncode, output, "returncode")
        if found is not None:
            return by_exit_code(call.command, int(found[1]), text[found.end() :], "returncode")
        if text.startswith(_TIMED_OUT):
            return Judgement(CallStatus.FAILED, "text: the last command timed out")
        return Judgement(CallStatus.UNKNOWN, "a result without returncode")

    def user(self, item: _Item, extra: _Extra, at: datetime | None, is_last: bool) -> None:
        text, has_image = self.content(item.content)
        waiting = next((call for call in self.open if call.verdict is None), None)
        rejected = _REJECTED.match(text)
        if extra.returncode is not None or text.startswith(_TIMED_OUT) or MINI_RETURNCODE.match(text):
            if self.is_by_hand:
                self.context(text, at)
            elif waiting is not None:
                waiting.answer(self.judge(waiting, text, extra), self.body(item.content))
            else:
                self.lose("orphan_result")
        elif text.startswith(_INTERRUPTED):
            self.refuse_all(CallStatus.CANCELLED, "interrupted by the user")
            self.interrupt("interrupted by the user", at)
            self.typed(text.removeprefix(_INTERRUPTED).replace(_NO_COMMENT, ""), at)
        elif rejected is not None:
            self.refuse_all(CallStatus.DECLINED, "text: the user rejected it")
            self.typed(rejected[1], at)
        elif text.startswith(_NEW_TASK):
            self.typed(text.removeprefix(_NEW_TASK), at)
        elif text.startswith(_BY_HAND):
            self.is_by_hand = True
            self.context(text, at)
        elif not self.has_begun:
            self.has_begun = True
            task = _TASK.match(text) if self.is_attended else None
            author: Author = "human" if self.is_attended else "harness"
            self.say("user", author, task[1] if task else text, at, has_image=has_image)
        elif is_last and waiting is not None and _SUBMITS.search(waiting.command or ""):
            waiting.result = self.body(item.content)  # mini 1: the command's output, without a code
            self.status = self.status or "Submitted"
        else:
            self.complaint(text, extra, at)

    def typed(self, text: str, at: datetime | None) -> None:
        if text.strip():
            self.say("user", "human", text.strip(), at)

    def complaint(self, text: str, extra: _Extra, at: datetime | None) -> None:
        """mini asks the model again: its response held no command, or several."""
        if is_given(extra.model_response):  # mini 2 keeps the response here only
            draft = self.response(self.content(extra.model_response)[0], _Item(), at)
            self.commands(draft, _blocks(draft.text))
            self.refuse_all(CallStatus.INVALID, "FormatError")
        self.context(text, at)

    def end(self) -> None:
        status = self.status
        self.is_terminal = bool(status)
        for call in self.open:
            if call.verdict is None and status == "Submitted":
                call.verdict = Judgement(CallStatus.OK, "its output ended the run: Submitted")
        if status == "KeyboardInterrupt":
            self.interrupt(status)
        elif status in _API_ERRORS:
            self.api_error(status)


def _is_demo(item: _Item) -> bool:
    return bool(item.is_demo) or item.message_type == "demonstration"


def _by_form(call: DraftCall, text: str) -> Judgement:
    """Status of a call of SWE-agent, which logs none: by its own tools' fixed texts at the start of a result."""
    found = next(filter(None, (form.match(text) for form in _FORMS)), None)
    if found is not None:
        return Judgement(CallStatus.FAILED, f"text: {found[0].splitlines()[0][:80]}")
    if call.name == "submit" and text.startswith(_WRONG_FLAG):
        return Judgement(CallStatus.FAILED, f"text: {_WRONG_FLAG}")
    found = _EDITED.match(text) if call.category in ("edit", "write") else None
    if found is not None:
        return Judgement(CallStatus.OK, f"text: {found[0].strip()}")
    return Judgement(CallStatus.UNKNOWN, "a result; SWE-agent logs no status")


def _blocks(text: str) -> list[str]:
    """The commands in a response of mini in text."""
    found = []
    for opening, closing in _BLOCKS:
        begin = opening.search(text)
        while begin is not None:
            end = text.find(closing, begin.end())
            if end < 0:
                break
            found.append(text[begin.end() : end].strip())
            begin = opening.search(text, end + len(closing))
    return found


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The runs in a file: one, or one for each attempt at the task."""
    sessions: list[Session] = []
    losses = Losses()
    name = source.name.removesuffix(".traj")
    is_empty = True
    for record in records:
        is_empty = False
        if record.data.lstrip()[:1] == b"[":  # mini's messages alone
            record = Record(b'{"messages":' + record.data + b"}", None)
        for file in _FILES.decode(record, losses):
            runs = [file] if file.messages is not None else file.attempts or [file]
            for run in runs:
                number = f"#{len(sessions) + 1}" if sessions else ""
                reader = _read(file, run, record, source, losses)
                sessions.append(reader.session("swe-agent", (file.instance_id or name) + number))
                losses = Losses()
    if not sessions and not is_empty:
        return [Transcript(source, losses).session("swe-agent", name)]
    return sessions


def _read(file: _File, run: _Attempt, record: Record, source: Source, losses: Losses) -> _Reader:
    if file.messages is not None:
        mini = _Mini(record, source, losses)
        mini.read(file.messages, file.info or _Info())
        return mini
    swe = _Swe(record, source, losses)
    swe.read(run)
    return swe


def sniff(sample: Sample) -> bool:
    first = sample.values[0] if sample.values else None
    if isinstance(first, list):  # messages alone
        return any(map(is_mini_result, first[:6]))
    return isinstance(first, dict) and (_is_swe(first) or _is_mini(first))


def _is_swe(value: dict[str, Any]) -> bool:
    attempts = value.get("attempts")
    if isinstance(attempts, list) and attempts and isinstance(attempts[0], dict):
        value = attempts[0]
    history, steps = value.get("history"), value.get("trajectory")
    if not isinstance(history, list):
        return False
    if isinstance(steps, list):
        return not steps or (isinstance(steps[0], dict) and {"action", "observation"} <= steps[0].keys())
    # A demonstration has the conversation alone.
    return bool(history) and all(isinstance(item, dict) and {"role", "agent"} <= item.keys() for item in history[:2])


def _is_mini(value: dict[str, Any]) -> bool:
    info = value.get("info")
    if not isinstance(value.get("messages"), list) or not isinstance(info, dict):
        return False
    return str(value.get("trajectory_format", "")).startswith("mini-swe-agent") or "mini_version" in info


PARSER = Parser(
    agent="swe-agent",
    title="SWE-agent",
    homes=(
        Home(".config/mini-swe-agent", "*.traj.json", "MSWEA_GLOBAL_CONFIG_DIR", ".config/mini-swe-agent"),
        Home("Library/Application Support/mini-swe-agent", "*.traj.json"),
    ),
    sniff=sniff,
    parse=parse,
    coverage=Coverage(
        statuses="partly",
        exit_codes="partly",
        declined="partly",
        usage="partly",
        models="partly",
        times="partly",
        subagents="no",
        compaction="no",
        thinking="partly",
    ),
    suffixes=(".jsonl", ".json", ".traj"),
)

"""OpenHands: the SDK's conversations (`base_state.json` and one file an event), and the older trajectories (one list).

What is easy to get wrong, and is decided here:
- Several actions with one response id are one message; its thought and its reasoning stand in the first alone.
- Exit code -1 is no failure: the command is still running, or never ran, and the program's note tells which. The call
  that later sees the end of a running command decides the call that began it.
- An `AgentErrorEvent` answers a call that the model made wrongly, unless it says that the tool itself broke.
- Times have no zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from demerit.model import Author, CallStatus, Category, Relation, Session, Usage
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
    BROKEN_CALL,
    Judgement,
    by_exit_code,
    category_of,
    is_harness_text,
    patch_paths,
    paths_in,
    without_wrappers,
)
from demerit.parsers.records import (
    BAD_CONTENT,
    NOTHING,
    Bundle,
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
    lenient,
    salvage,
    text_body,
    token_count,
)

# --- the format of the SDK's conversations ------------------------------------------------------------------


class _Metadata(msgspec.Struct):
    exit_code: int | None = None
    suffix: str | None = None


class _Tokens(msgspec.Struct):
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    response_id: str | None = None


class _Metrics(msgspec.Struct):
    token_usages: list[_Tokens] | None = None
    accumulated_token_usage: _Tokens | None = None


class _Stats(msgspec.Struct):
    usage_to_metrics: dict[str, _Metrics] | None = None


class _Llm(msgspec.Struct):
    model: str | None = None


class _Agent(msgspec.Struct):
    llm: _Llm | None = None
    acp_model: str | None = None


class _Workspace(msgspec.Struct):
    working_dir: str | None = None


class _Base(msgspec.Struct):
    id: str | None = None
    agent: _Agent | None = None
    workspace: _Workspace | None = None
    persistence_dir: str | None = None
    execution_status: str | None = None
    agent_status: str | None = None  # the same in the first versions
    stats: _Stats | None = None
    title: str | None = None


class _Said(msgspec.Struct):
    content: list[Part] | None = None
    reasoning_content: str | None = None
    thinking_blocks: list[ThinkingBlock] | None = None
    responses_reasoning_item: _Reasoning | None = None


class _Reasoning(msgspec.Struct):
    encrypted_content: str | None = None


class _Action(msgspec.Struct):
    kind: str | None = None


class _Observation(msgspec.Struct):
    content: msgspec.Raw = NOTHING
    output: msgspec.Raw = NOTHING  # the same in the first versions
    is_error: bool | None = None
    error: str | bool | None = None
    exit_code: int | None = None
    metadata: _Metadata | None = None
    status: str | None = None


class _Event(msgspec.Struct):
    kind: str | None = None
    id: str | None = None
    timestamp: str | int | float | None = None
    source: str | None = None
    parent_id: str | None = None
    llm_response_id: str | None = None
    # of what is said
    llm_message: _Said | None = None
    system_prompt: Part | None = None
    sender: str | None = None
    # of a call
    thought: list[Part] | None = None
    reasoning_content: str | None = None
    thinking_blocks: list[ThinkingBlock] | None = None
    responses_reasoning_item: _Reasoning | None = None
    action: _Action | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    tool_call: Function | None = None
    # of what came back
    observation: _Observation | None = None
    action_id: str | None = None
    error: str | None = None
    rejection_source: str | None = None
    # of another agent's call, behind the Agent Client Protocol
    status: str | None = None
    tool_kind: str | None = None
    raw_input: msgspec.Raw = NOTHING
    raw_output: msgspec.Raw = NOTHING
    is_error: bool | None = None
    # of the rest
    summary: str | None = None
    reason: str | None = None
    code: str | None = None
    detail: str | None = None


# --- the older trajectories ---------------------------------------------------------------------------------


class _OldCall(msgspec.Struct):
    id: str | None = None
    function: Function | None = None


class _OldMessage(msgspec.Struct):
    content: str | None = None
    tool_calls: list[_OldCall] | None = None
    reasoning_content: str | None = None
    thinking_blocks: list[ThinkingBlock] | None = None


class _Choice(msgspec.Struct):
    message: _OldMessage | None = None


class _Response(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: ApiUsage | None = None


class _CallMetadata(msgspec.Struct):
    function_name: str | None = None
    tool_call_id: str | None = None
    model_response: _Response | None = None


class _Arguments(msgspec.Struct):
    content: str | None = None
    thought: str | None = None
    final_thought: str | None = None
    summary: str | None = None
    image_urls: list[str] | None = None
    command: str | None = None
    name: str | None = None
    agent_state: str | None = None
    openhands_version: str | None = None


class _Extras(msgspec.Struct):
    metadata: _Metadata | None = None
    exit_code: int | None = None
    error: bool | None = None
    error_id: str | None = None
    impl_source: str | None = None
    agent_state: str | None = None
    reason: str | None = None


class _Old(msgspec.Struct):
    id: int | None = None
    timestamp: str | int | float | None = None
    source: str | None = None
    cause: int | None = None
    action: str | None = None
    args: msgspec.Raw = NOTHING
    observation: str | None = None
    content: msgspec.Raw = NOTHING
    extras: _Extras | None = None
    tool_call_metadata: _CallMetadata | None = None


_BASES = LineDecoder(_Base)
_EVENTS = LineDecoder(_Event)
_ARGUMENTS = LineDecoder(_Arguments)
_OLD = msgspec.json.Decoder(list[_Old])

# --- tools and fixed texts ----------------------------------------------------------------------------------

_CATEGORIES: dict[str, Category] = {}
for _category, _names in {
    "shell": "terminal execute_bash execute_ipython_cell execute_powershell run_ipython",
    "edit": "file_editor planning_file_editor str_replace_editor edit_file llm_based_edit",
    "web": "browse browse_interactive web_read tavily_search",
    "plan": "task_tracker task_tracking",
    "agent": "delegate start_child_conversation task_output task_stop delegate_to_browsing_agent",
    "mcp": "call_tool_mcp mcp",
    "other": "finish reject",
}.items():
    _CATEGORIES.update(dict.fromkeys(_names.split(), _category))  # type: ignore[arg-type]
_EDITORS = frozenset(("file_editor", "planning_file_editor", "str_replace_editor"))
_BY_COMMAND: dict[str, Category] = {"view": "read", "create": "write"}
_BY_ACP_KIND: dict[str, Category] = {
    "execute": "shell",
    "delete": "edit",
    "move": "edit",
    "fetch": "web",
    "think": "plan",
}
_TERMINALS = frozenset(("terminal", "execute_bash", "run", "bash", "execute_powershell"))
# What the SDK has the model say with every call: how risky it is, and what for.
_REMARKS = frozenset(("security_risk", "summary"))
_MALFORMED = "_openhands_malformed_tool_call"

# The program's notes about a command, in `suffix` and at the end of the text.
_RUNNING = re.compile(r"\[The command (?:has no new output after|timed out after) ")
_NOT_EXECUTED = "is NOT executed."
_BY_REQUEST = "[The command was interrupted by user request"
_NOTHING_RUNS = "No previous running command"
_NOTE_CHARS = 1000

_TOOL_BROKE = "Error executing tool "
_RESTARTED = "A restart occurred while this tool was in progress"
# Under the role of the user, but nobody typed them.
_HARNESS = (
    "<<RESUMED CONVERSATION>>",
    "Your previous response was blocked by the model's content filter",
    "The model provider rejected the previous turn",
    "Please continue working on the task on whatever approach you think is suitable",
    "Your last response did not include a function call or a message",
)
_API_ERRORS = re.compile(
    r"LLM|litellm\.|STATUS\$ERROR_LLM|(?:API|APIConnection|RateLimit|Authentication|BadRequest|InternalServer|"
    r"ServiceUnavailable|ContextWindowExceeded|NotFound)Error\b|Timeout\b"
)

# --- reading ------------------------------------------------------------------------------------------------


class _Reader(Transcript):
    """What both formats have in common."""

    def __init__(self, source: Source, losses: Losses) -> None:
        super().__init__(source, losses)
        self.responses: dict[str, Draft] = {}
        self.running: DraftCall | None = None  # whose command runs in the terminal
        self.depth = 0  # of delegates that are at work

    def prompt(self, text: str, at: datetime | None, has_image: bool, from_agent: bool) -> None:
        kept = without_wrappers(text)
        if not text.strip() and not has_image:
            self.lose("empty_message")
        elif text.startswith(_HARNESS) or is_harness_text(text) or not (kept.strip() or has_image):
            self.context(text, at)
        else:
            author: Author = "agent" if from_agent else "human"
            self.say("user", author, kept, at, has_image=has_image, sidechain=self.depth > 0)

    def broke_off(self, name: str, text: str, at: datetime | None) -> None:
        """The run ended with an error of the model's interface, or for another reason."""
        if _API_ERRORS.match(name):
            self.api_error(f"{name}: {text}" if text and text != name else name, at)
        else:
            self.context(text or name, at)

    def response(self, response_id: str | None, text: str, at: datetime | None) -> Draft:
        """The message of a response: several events may belong to it."""
        draft = self.responses.get(response_id or "")
        if draft is None:
            draft = self.say("assistant", "agent", text, at, model=self.model, sidechain=self.depth > 0)
            if response_id:
                self.responses[response_id] = draft
        elif text:
            draft.text = f"{draft.text}\n{text}" if draft.text else text
        return draft

    def thought(self, draft: Draft, text: str | None, blocks: list[ThinkingBlock] | None) -> None:
        texts = [block.thinking or "" for block in blocks or ()] or [text or ""]
        self.think(draft, texts, sum(len(block.signature or block.data or "") for block in blocks or ()))

    def call(self, draft: Draft, name: str, call_id: str | None, at: datetime | None, raw: msgspec.Raw) -> DraftCall:
        call = DraftCall(name, _CATEGORIES.get(name) or category_of(name), call_id, at, is_poll=name == "task_output")
        self.describe(call, raw)
        return self.add_call(draft, call)

    def describe(self, call: DraftCall, raw: msgspec.Raw) -> None:
        """Note what a call's arguments say: what makes it the same call, its files, its command."""
        if not is_given(raw):
            return
        call.input = self.body(raw)
        arguments = self.arguments(raw)
        if isinstance(arguments, dict):
            if _MALFORMED in arguments:
                call.verdict, call.may_change = Judgement(CallStatus.INVALID, "arguments that do not parse"), True
            arguments = {name: value for name, value in arguments.items() if name not in _REMARKS}
            command = arguments.get("command")
            call.command = command if isinstance(command, str) else None
            if call.name in _EDITORS:
                call.category = _BY_COMMAND.get(call.command or "", "edit")
            elif call.name in _TERMINALS and not arguments.get("reset"):
                call.is_poll = call.command is not None and not call.command.strip()
                call.continues = call.is_poll or arguments.get("is_input") in (True, "true")
            patch = arguments.get("patch")
            call.paths = paths_in(arguments) or (patch_paths(patch) if isinstance(patch, str) else ())
        call.hash = input_hash([call.call_id, arguments] if call.is_poll else arguments)

    def by_terminal(self, call: DraftCall, code: int, note: str, is_error: bool | None, output: str) -> Judgement:
        """Status of a call of the terminal. note: what the program itself says about the command."""
        if code != -1:
            begun, self.running = self.running if call.continues else None, None
            if begun is None:
                return by_exit_code(None if call.continues else call.command, code, output)
            if (call.command or "").strip() == "C-c" and code == 130:
                begun.verdict = Judgement(CallStatus.OK, "exit code 130 by the model's own ^C", code)
            else:
                begun.verdict = by_exit_code(begun.command, code, output, "a later call saw exit code")
            return Judgement(CallStatus.OK, "it saw a command end")
        if _NOT_EXECUTED in note:
            return Judgement(CallStatus.FAILED, "not executed: another command was still running", code)
        if _BY_REQUEST in note:
            self.running = None
            return Judgement(CallStatus.CANCELLED, "interrupted by user request", code)
        if is_error:
            return Judgement(CallStatus.FAILED, "is_error true", code)
        if output.removeprefix("ERROR: ").startswith(_NOTHING_RUNS):
            return Judgement(CallStatus.FAILED, f"text: {_NOTHING_RUNS}", code)
        if not _RUNNING.search(note):
            return Judgement(CallStatus.UNKNOWN, "exit code -1", code)
        if call.continues:
            return Judgement(CallStatus.OK, "a look at a command that still ran", code)
        self.running = call
        return Judgement(CallStatus.UNKNOWN, "exit code -1: still running when last seen", code)


class _Conversation(_Reader):
    """A conversation of the SDK."""

    def __init__(self, source: Source, losses: Losses) -> None:
        super().__init__(source, losses)
        self.name = source.name
        self.parent = source.parent
        self.usages: list[tuple[str | None, str | None, Usage]] = []
        self.leaf: str | None = None
        self.places: dict[str, int] = {}  # of each event, how many messages had come with it

    def base(self, base: _Base) -> None:
        if base.id:
            self.name = base.id.replace("-", "")  # as its folder is called
        agent = base.agent or _Agent()
        self.model = (agent.llm.model if agent.llm else None) or agent.acp_model
        self.cwd = base.workspace.working_dir if base.workspace else None
        self.title = base.title
        self.is_terminal = (base.execution_status or base.agent_status) in ("finished", "error", "stuck")
        above, _, _ = (base.persistence_dir or "").replace("\\", "/").rstrip("/").rpartition("/")
        if above.endswith("/subagents"):
            self.parent = above.split("/")[-2]
        metrics = base.stats.usage_to_metrics if base.stats else None
        for spent in (metrics or {}).values():
            for tokens in spent.token_usages or ():
                usage = _usage(tokens)
                if not usage.is_empty:
                    self.usages.append((tokens.response_id, tokens.model, usage))
            if not spent.token_usages and spent.accumulated_token_usage is not None:
                total = msgspec.structs.replace(_usage(spent.accumulated_token_usage), is_sum=True)
                self.loose += [] if total.is_empty else [total]

    def read(self, event: _Event, record: Record) -> None:
        self.record = record
        at = self.time(event.timestamp)
        back = self.places.get(event.parent_id or "")
        if back is not None and event.parent_id != self.leaf and back < len(self.drafts):
            self.event("rewind", at, f"back over {len(self.drafts) - back} messages")
        handler = _HANDLERS.get(event.kind or "")
        if handler is not None:
            handler(self, event, at)
        elif event.kind not in _IGNORED:
            self.lose("unknown_type" if event.kind else "no_type")
        if event.id:
            self.leaf = event.id
            self.places[event.id] = len(self.drafts)

    def system(self, event: _Event, at: datetime | None) -> None:
        self.say("system", "harness", (event.system_prompt.text if event.system_prompt else None) or "", at)

    def message(self, event: _Event, at: datetime | None) -> None:
        said = event.llm_message or _Said()
        text = _joined(said.content)
        if event.source == "agent":
            self.reason(self.response(event.llm_response_id, text, at), said)
        elif event.source == "user":
            has_image = any(part.type == "image" for part in said.content or ())
            self.prompt(text, at, has_image, self.parent is not None or bool(event.sender))
        else:
            self.context(text, at)

    def reason(self, draft: Draft, said: _Said | _Event) -> None:
        item = said.responses_reasoning_item
        if item is not None and item.encrypted_content:
            self.think(draft, [said.reasoning_content or ""], len(item.encrypted_content), "ciphertext")
        else:
            self.thought(draft, said.reasoning_content, said.thinking_blocks)

    def action(self, event: _Event, at: datetime | None) -> None:
        draft = self.response(event.llm_response_id, _joined(event.thought), at)
        self.reason(draft, event)
        function = event.tool_call or Function()
        call = self.call(draft, event.tool_name or function.name or "", event.tool_call_id, at, function.arguments)
        if event.action is not None and event.action.kind == "MCPToolAction":
            call.category = "mcp"
        if event.id:
            self.calls.setdefault(event.id, call)
        if event.action is None and call.verdict is None:  # why, says the AgentErrorEvent that follows
            call.verdict, call.may_change = Judgement(CallStatus.INVALID, "the call is no action"), True

    def answered(self, event: _Event) -> DraftCall | None:
        call = self.calls.get(event.tool_call_id or "") or self.calls.get(event.action_id or "")
        if call is None:
            self.lose("orphan_result")
        return call

    def observed(self, event: _Event, at: datetime | None) -> None:
        call = self.answered(event)
        if call is not None:
            seen = event.observation or _Observation()
            content = seen.content if is_given(seen.content) else seen.output
            call.answer(self.judge(call, seen, content), self.body(content))

    def judge(self, call: DraftCall, seen: _Observation, content: msgspec.Raw) -> Judgement:
        is_error = seen.is_error
        if is_error is None and seen.error is not None:
            is_error = bool(seen.error)
        if call.name in _TERMINALS:
            code = seen.metadata.exit_code if seen.metadata else None
            code = seen.exit_code if code is None else code
            if code is not None:
                text, _ = self.content(content)
                note = (seen.metadata.suffix if seen.metadata else None) or text[-_NOTE_CHARS:]
                return self.by_terminal(call, code, note, is_error, text)
            self.running = None  # the terminal was reset
        if is_error is None:
            return Judgement(CallStatus.UNKNOWN, "an observation without is_error")
        if is_error and call.category == "mcp" and BROKEN_CALL.match(self.content(content)[0]):
            return Judgement(CallStatus.INVALID, "is_error true: the server refused the arguments")
        if is_error or seen.status == "error":
            return Judgement(CallStatus.FAILED, "is_error true" if is_error else "status error")
        return Judgement(CallStatus.OK, "is_error false")

    def broke(self, event: _Event, at: datetime | None) -> None:
        call = self.answered(event)
        if call is None:
            return
        text = event.error or ""
        why = f"AgentErrorEvent: {text.splitlines()[0][:80] if text else ''}"
        if text.startswith(_RESTARTED):
            if call.verdict is None:
                call.verdict, call.may_change = Judgement(CallStatus.CANCELLED, why), True
        else:
            status = CallStatus.FAILED if text.startswith(_TOOL_BROKE) else CallStatus.INVALID
            call.answer(Judgement(status, why), text_body(text, self.source))

    def rejected(self, event: _Event, at: datetime | None) -> None:
        call = self.answered(event)
        if call is not None:
            call.answer(Judgement(CallStatus.DECLINED, f"rejected by {event.rejection_source or 'user'}"))

    def driven(self, event: _Event, at: datetime | None) -> None:
        """A call of another agent that OpenHands only drives: each event tells all that is known by then."""
        call = self.calls.get(event.tool_call_id or "")
        if call is None:
            last = self.drafts[-1] if self.drafts else None
            goes_on = last is not None and last.role == "assistant" and bool(last.calls)
            draft = last if goes_on and last is not None else self.response(None, "", at)
            kind = event.tool_kind or "other"
            call = self.call(draft, kind, event.tool_call_id, at, NOTHING)
            call.category = _BY_ACP_KIND.get(kind) or category_of(kind)
        if call.hash is None:
            self.describe(call, event.raw_input)
        if event.status in ("completed", "failed"):
            failed = event.status == "failed" or event.is_error
            why = f"status {event.status}" + (", is_error true" if event.is_error else "")
            call.verdict = Judgement(CallStatus.FAILED if failed else CallStatus.OK, why)
            call.result = self.body(event.raw_output)

    def condensed(self, event: _Event, at: datetime | None) -> None:
        self.compaction(event.summary or "", at)

    def stopped(self, event: _Event, at: datetime | None) -> None:
        self.interrupt(event.reason or "paused by the user", at)

    def failed(self, event: _Event, at: datetime | None) -> None:
        self.broke_off(event.code or "", event.detail or "", at)

    def spend(self) -> None:
        """Give each request's tokens to its message; those of no message are the condenser's and the like."""
        for response_id, model, usage in self.usages:
            draft = self.responses.get(response_id or "")
            if draft is not None and draft.usage is None:
                draft.usage, draft.model = usage, model or draft.model
            else:
                self.loose.append(usage)


_Handler = Callable[[_Conversation, _Event, datetime | None], None]
_HANDLERS: dict[str, _Handler] = {
    "SystemPromptEvent": _Conversation.system,
    "SystemPromptUpdateEvent": _Conversation.system,
    "MessageEvent": _Conversation.message,
    "ActionEvent": _Conversation.action,
    "ObservationEvent": _Conversation.observed,
    "AgentErrorEvent": _Conversation.broke,
    "UserRejectObservation": _Conversation.rejected,
    "ACPToolCallEvent": _Conversation.driven,
    "Condensation": _Conversation.condensed,
    "PauseEvent": _Conversation.stopped,
    "InterruptEvent": _Conversation.stopped,
    "ConversationErrorEvent": _Conversation.failed,
    "ConversationIterationLimitEvent": _Conversation.failed,
}
_IGNORED = frozenset(
    (
        "ConversationStateUpdateEvent CondensationRequest CondensationSummaryEvent TokenEvent StreamingDeltaEvent "
        "LLMCompletionLogEvent HookExecutionEvent WarningEvent AskUserRequestEvent AskUserResponseEvent"
    ).split()
)


class _Trajectory(_Reader):
    """A trajectory of the versions before the SDK."""

    def __init__(self, source: Source, losses: Losses) -> None:
        super().__init__(source, losses)
        self.by_action: dict[int, DraftCall] = {}
        self.state: str | None = None

    def read(self, event: _Old) -> None:
        self.begin_item()
        at = self.time(event.timestamp)
        if event.action is not None:
            self.acted(event, event.action, at)
        elif event.observation is not None:
            self.observed(event, event.observation, at)
        else:
            self.lose("no_type")

    def acted(self, event: _Old, kind: str, at: datetime | None) -> None:
        args = _Arguments()
        if is_given(event.args):
            found = _ARGUMENTS.decode(Record(bytes(event.args), self.record.offset), self.losses)
            args = found[0] if found else args
        text = args.content or ""
        if kind == "message" and event.source == "agent":
            self.response(None, text, at)
        elif kind == "message" and event.source == "user":
            self.is_terminal = False
            self.prompt(text, at, bool(args.image_urls), self.depth > 0)
        elif kind == "message":
            self.context(text, at)
        elif kind == "system":
            self.version = args.openhands_version or self.version
            self.say("system", "harness", text, at)
        elif kind == "condensation":
            self.compaction(args.summary or "", at)
        elif kind == "change_agent_state":
            if event.source == "user" and args.agent_state in ("paused", "stopped") and self.state == "running":
                self.interrupt(f"{args.agent_state} by the user", at)
        elif kind in _OLD_CALLS and event.source == "user":  # typed into the terminal beside the chat
            self.context(args.command or "", at)
        elif kind in _OLD_CALLS:
            self.called(event, kind, args, at)
        elif kind not in _OLD_IGNORED:
            self.lose("unknown_type")

    def called(self, event: _Old, kind: str, args: _Arguments, at: datetime | None) -> None:
        meta = event.tool_call_metadata or _CallMetadata()
        answer = meta.model_response or _Response()
        said = (answer.choices[0].message if answer.choices else None) or _OldMessage()
        draft = self.responses.get(answer.id or "")
        if draft is None:
            draft = self.response(answer.id, said.content or args.thought or args.final_thought or "", at)
            draft.model = answer.model or draft.model
            draft.usage = usage_of(answer.usage, answer.id)
            self.thought(draft, said.reasoning_content, said.thinking_blocks)
        function = next((call.function for call in said.tool_calls or () if call.id == meta.tool_call_id), None)
        function = function or Function(None, event.args)
        name = meta.function_name or function.name or (args.name if kind in _OLD_MCP else None) or kind
        call = self.call(draft, name, meta.tool_call_id, at, function.arguments)
        if kind in _OLD_MCP:
            call.category = "mcp"
        if event.id is not None:
            self.by_action[event.id] = call
        if kind in ("finish", "reject"):  # nothing comes back
            call.verdict = Judgement(CallStatus.OK, f"{kind} ends the task")
            self.is_terminal = self.depth == 0
        elif kind == "delegate":
            self.depth += 1

    def observed(self, event: _Old, kind: str, at: datetime | None) -> None:
        extras = event.extras or _Extras()
        call = self.by_action.get(event.cause if event.cause is not None else -1)
        if kind == "delegate":
            self.depth = max(0, self.depth - 1)
        if kind == "agent_state_changed":
            self.state = extras.agent_state
            self.is_terminal = extras.agent_state in ("finished", "rejected", "error", "stopped")
            if extras.agent_state == "error" and extras.reason:
                self.broke_off(extras.reason, "", at)
        elif kind not in _OLD_OBSERVATIONS:
            self.lose("unknown_type")
        elif call is not None:
            call.answer(self.judge(call, kind, event, extras), self.body(event.content))
        elif kind == "error":  # a response that held no readable call, or the run itself
            self.context(self.content(event.content)[0], at)
        elif kind in _OLD_RESULTS and event.cause is None:
            self.lose("orphan_result")

    def judge(self, call: DraftCall, kind: str, event: _Old, extras: _Extras) -> Judgement:
        text, _ = self.content(event.content)
        if kind == "run":
            code = extras.metadata.exit_code if extras.metadata else None
            code = extras.exit_code if code is None else code
            if code is not None:
                note = (extras.metadata.suffix if extras.metadata else None) or text[-_NOTE_CHARS:]
                return self.by_terminal(call, code, note, None, text)
        if kind == "error":
            error = extras.error_id or "none"
            if "ACTION_NOT_EXECUTED" in error:
                return Judgement(CallStatus.CANCELLED, f"error_id {error}")
            status = CallStatus.INVALID if "BAD_ACTION" in error else CallStatus.FAILED
            return Judgement(status, f"an error observation, error_id {error}")
        if kind == "user_rejected":
            return Judgement(CallStatus.DECLINED, "a user_rejected observation")
        if kind in ("edit", "read"):
            if extras.impl_source == "oh_aci" and text.startswith("ERROR:\n"):
                return Judgement(CallStatus.FAILED, "text: ERROR:")
        elif kind in _OLD_UNSURE:
            is_error = _server_flag(text) if kind == "mcp" else extras.error
            if is_error is None:
                return Judgement(CallStatus.UNKNOWN, f"a {kind} observation without a status")
            if is_error and "MCP error -3260" in text[:400]:
                return Judgement(CallStatus.INVALID, "isError true: the server refused the arguments")
            return Judgement(CallStatus.FAILED if is_error else CallStatus.OK, f"error {str(is_error).lower()}")
        return Judgement(CallStatus.OK, f"observation {kind}, no error")


class _ServerResult(msgspec.Struct):
    isError: bool | None = None


_SERVER_RESULT = msgspec.json.Decoder(_ServerResult)


def _server_flag(text: str) -> bool | None:
    """The flag in an MCP server's result, which the observation holds as a JSON text."""
    try:
        return _SERVER_RESULT.decode(text).isError
    except BAD_CONTENT:
        return None


_OLD_MCP = frozenset(("call_tool_mcp", "mcp"))
_OLD_CALLS = _OLD_MCP | frozenset(
    "run run_ipython read write edit browse browse_interactive delegate think finish reject task_tracking".split()
)
_OLD_IGNORED = frozenset("start recall null pause resume stop push send_pr condensation_request loop_recovery".split())
_OLD_UNSURE = frozenset("run run_ipython browse browse_interactive mcp".split())
_OLD_RESULTS = _OLD_UNSURE | frozenset("read write edit delegate user_rejected".split())
_OLD_OBSERVATIONS = _OLD_RESULTS | frozenset(
    "error think task_tracking success null recall condense chat message file_download loop_detection".split()
)


def _joined(parts: list[Part] | None) -> str:
    return "\n".join(part.text for part in parts or () if part.text)


def _usage(tokens: _Tokens) -> Usage:
    """The usage of one request. Cached tokens are counted within the prompt, but not by agents behind ACP."""
    sent, read = token_count(tokens.prompt_tokens), token_count(tokens.cache_read_tokens)
    written = token_count(tokens.cache_write_tokens)
    fresh = sent - read - written if sent >= read + written else sent
    made = token_count(tokens.completion_tokens)
    return Usage(fresh, read, written, 0, made, tokens.reasoning_tokens, tokens.response_id or None)


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The one conversation in a folder, or in a trajectory."""
    losses = Losses()
    conversation = _Conversation(source, losses)
    late: list[tuple[int, Record]] = []
    is_empty = True
    for record in records:
        if is_empty and record.data.lstrip()[:1] == b"[":
            return [_trajectory(record, source, losses)]
        is_empty = False
        conversation.record = record
        number = _NUMBER.search(record.part)
        if not record.part:
            for base in _BASES.decode(record, losses):
                conversation.base(base)
        elif number is not None and len(number[1]) > 5:  # sorted by name, it comes too early
            late.append((int(number[1]), record))
        else:
            _read_event(conversation, record)
    for _, record in sorted(late, key=lambda pair: pair[0]):
        _read_event(conversation, record)
    if is_empty:
        return []
    conversation.spend()
    relation: Relation | None = "subagent" if conversation.parent else None
    return [
        conversation.session("openhands", conversation.name, parent_source_id=conversation.parent, relation=relation)
    ]


_NUMBER = re.compile(r"event-(\d{1,18})-[^/]*\Z")


def _read_event(conversation: _Conversation, record: Record) -> None:
    for event in _EVENTS.decode(record, conversation.losses):
        conversation.read(event, record)


def _trajectory(record: Record, source: Source, losses: Losses) -> Session:
    reader = _Trajectory(source, losses)
    reader.record = record
    try:
        events = _OLD.decode(record.data)
    except BAD_CONTENT:
        events = []
        for value in salvage(record, losses):
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, dict):
                    events.append(lenient(item, _Old, losses, record.offset))
                else:
                    losses.add("not_an_object", record.offset)
    for event in events:
        reader.read(event)
    return reader.session("openhands", source.name)


def sniff(sample: Sample) -> bool:
    first = sample.values[0] if sample.values else None
    if isinstance(first, list):
        return bool(first) and all(_is_old_event(item) for item in first[:3])
    return (
        isinstance(first, dict)
        and isinstance(first.get("agent"), dict)
        and ("execution_status" in first or "agent_status" in first)
        and ("persistence_dir" in first or "confirmation_policy" in first)
    )


def _is_old_event(item: object) -> bool:
    if not isinstance(item, dict) or item.get("source") not in ("agent", "user", "environment"):
        return False
    acted = isinstance(item.get("action"), str) and "args" in item
    return acted or (isinstance(item.get("observation"), str) and "content" in item)


PARSER = Parser(
    agent="openhands",
    title="OpenHands",
    homes=(
        Home(
            ".openhands/conversations", "**/base_state.json", "OPENHANDS_CONVERSATIONS_DIR", ".openhands/conversations"
        ),
    ),
    sniff=sniff,
    parse=parse,
    coverage=Coverage(usage="partly", models="partly", subagents="partly"),
    bundle=Bundle("base_state.json", ("events/event-*.json",)),
)

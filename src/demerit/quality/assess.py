"""From a session's messages and calls to its report card: one fold over messages in transcript order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from demerit.model import CallStatus, Event, Message, Session, ToolCall, Usage
from demerit.quality.advice import AdviceFolder
from demerit.quality.archetype import ArchetypeFacts, classify_archetype
from demerit.quality.context import ContextHealth, ContextHealthFolder
from demerit.quality.outcome import Facts, Outcome, Verdict, classify
from demerit.quality.prompts import PromptFacts, classify_prompt
from demerit.quality.report import (
    Advice,
    BreakdownLine,
    CallRef,
    Context,
    Evidence,
    Hygiene,
    Report,
    ToolTally,
    UsageTotals,
    reference,
)
from demerit.quality.score import Signals, penalties, score
from demerit.quality.thinking import Thinking, ThinkingFolder, estimate_tokens
from demerit.quality.usage import RequestTotals

IDLE_AFTER = timedelta(minutes=30)
"""A session without activity for this long is not coming back. Source: the reference implementation."""
_TITLE_CHARS = 80


def assess(session: Session, now: datetime, path: str | None = None) -> Report:
    """The report card of one session.

    now: aware time; a session without activity for 30 minutes before it is idle.
    path: where the session was read from, handed through to the report.
    """
    assessor = Assessor(now)
    for message in session.messages:
        assessor.add(message, message.calls)
    return assessor.result(session, path)


class CallFolder:
    """Folds the calls of a session, each once and in order, into the counts of `Signals`, in O(1) state."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.failures = Evidence()
        self.retries = Evidence()
        self.run = Evidence()
        self.longest = Evidence()
        self.previous: tuple[str, str | None] | None = None
        self.with_input = 0

    def add(self, call: ToolCall) -> None:
        status = call.status._value_  # .value goes through a descriptor, and this runs for every call
        self.statuses[status] += 1
        self.with_input += call.input_hash is not None
        if status == "failed" or status == "invalid":
            self.failures.add(call, status)
            self.run.add(call, "part of the longest run of failed calls")
            if self.run.count > self.longest.count:
                self.longest = self.run
        elif call.is_poll:
            return  # waiting is no work: what came before it is still what came last
        elif self.run.count:
            self.run = Evidence()
        same = (call.name, call.input_hash)
        if call.input_hash is not None and same == self.previous:
            self.retries.add(call, "same tool and input as the call right before")
        self.previous = same

    @property
    def total(self) -> int:
        return self.statuses.total()

    @property
    def statuses_are_logged(self) -> bool:
        """Whether the log tells how calls went: of at least half of those with a result. Without any, it does."""
        silent = self.statuses["unknown"]
        return silent * 2 <= self.total - self.statuses["pending"]


def changed_files(call: ToolCall) -> tuple[str, ...]:
    """The known files that a call changed, each once: those that count for edit churn."""
    status = call.status._value_
    if call.changes_files and (status == "ok" or status == "unknown"):
        return tuple(dict.fromkeys(call.file_paths))
    return ()


def churned(call: ToolCall, path: str, change: int) -> CallRef:
    """The reason that a call is when it changed a file that had been changed before."""
    return reference(call, f"change {change} to this file", path)


class Replays:
    """Tells a call from the repeated lines of it: same id, tool, input and status. A call without an id is none."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str, str | None, str]] = set()

    def is_one(self, call: ToolCall) -> bool:
        if call.call_id is None:
            return False
        key = (call.call_id, call.name, call.input_hash, call.status._value_)
        if key in self._seen:
            return True
        self._seen.add(key)
        return False


class _Tallies:
    """What must be told apart by name: calls of each tool and server, and changes to each file."""

    def __init__(self) -> None:
        self.by_tool: Counter[str] = Counter()
        self.failed_by_tool: Counter[str] = Counter()
        self.by_server: Counter[str] = Counter()
        self.failed_by_server: Counter[str] = Counter()
        self.edited: Counter[str] = Counter()
        self.churn = Evidence()

    def add(self, call: ToolCall) -> None:
        status = call.status._value_
        failed = status == "failed" or status == "invalid"
        self.by_tool[call.name] += 1
        self.failed_by_tool[call.name] += failed
        server = call.server if call.category == "mcp" else None
        if server is not None:
            self.by_server[server] += 1
            self.failed_by_server[server] += failed
        for path in changed_files(call):
            self.edited[path] += 1
            if self.edited[path] > 1:
                self.churn.keep(churned(call, path, self.edited[path]))


class Ending:
    """Follows who spoke last in the session's own conversation, and what stood open then."""

    def __init__(self) -> None:
        self.user_messages = 0
        self.last_assistant = -1
        self.last_user = -1
        self.interrupt: int | None = None
        self.api_error: int | None = None
        self.open_calls: list[ToolCall] = []
        self.worked = self.is_silent = False
        self.last_human = -1
        self.failed_children = 0

    def add(self, message: Message) -> None:
        if message.role == "user" and message.author == "human":
            self.user_messages += 1
            self.last_human = message.ordinal
            self.failed_children = 0
        self.children(message.calls)
        if message.sidechain:
            return
        if message.notice == "interrupt":
            self.interrupt = message.ordinal
        elif message.notice == "api_error":
            self.api_error = message.ordinal
        elif message.author != "harness" and message.role in ("user", "assistant"):
            self.interrupt = self.api_error = None
            self.open_calls = [c for c in message.calls if c.status._value_ in ("pending", "cancelled")]
            self.worked = message.role == "assistant" and (self.worked or bool(message.calls))
            self.is_silent = message.role == "assistant" and not message.has_substance
        if message.has_substance:
            if message.role == "user":
                self.last_user = message.ordinal
            else:
                self.last_assistant = message.ordinal

    def children(self, calls: tuple[ToolCall, ...]) -> None:
        """Count sub-agents that failed since the last prompt; one that worked in a later message makes up for one."""
        failed = worked = 0
        for call in calls:
            if call.category == "agent":
                failed += call.status is CallStatus.FAILED
                worked += call.status is CallStatus.OK
        self.failed_children = max(0, self.failed_children - worked) + failed

    def facts(self, trailing_failures: int, idle: bool) -> Facts:
        return Facts(
            user_messages=self.user_messages,
            last_assistant_ord=self.last_assistant,
            last_user_ord=self.last_user if self.interrupt is None else self.interrupt,
            tool_call_pending=bool(self.open_calls),
            trailing_failures=trailing_failures,
            idle_long_enough=idle,
        )

    def name(self, events: Sequence[Event]) -> str | None:
        """`interrupted`, `api_error` or `children_failed`; None when the session ended in none of these ways."""
        if self.interrupt is not None:
            return "interrupted"
        last_word = max(self.last_user, self.last_assistant)
        children = self.failed_children
        for event in events:
            at = -1 if event.message_ordinal is None else event.message_ordinal
            if event.kind == "api_error" and at >= last_word:  # retries that came to nothing
                return "api_error"
            children += event.kind == "subagent" and event.detail == "failed" and at >= self.last_human
        if self.api_error is not None:
            return "api_error"
        return "children_failed" if children else None

    def stopped_by(self, ending: str | None) -> str:
        """Why nobody answered the user, for a session that was abandoned without an open call."""
        if ending == "interrupted":
            return "the user stopped it and wrote no more"
        if ending == "api_error":
            return "the API failed, and nothing came after"
        if self.worked:
            return "the agent worked on it and never answered"
        return "the model answered with nothing" if self.is_silent else "nobody answered the user's last word"


_TAG = re.compile(r"</?[\w-]+>")
_ITEM = re.compile(r"[-*+•] |\d+[.)] ")


def title_from(text: str) -> str:
    """A title that only names a session, from the first words of a person, a program or a parent agent.

    It is the first line that says something: of "Implement the following plan:" and a heading, the heading."""
    lines = [line.strip() for line in text.lstrip()[:2000].splitlines()]
    lines = [line for line in lines if line]
    said = [line for line in lines if not _TAG.fullmatch(line)] or lines
    at = 0
    while at < len(said) - 1 and said[at].endswith(":") and not _ITEM.match(said[at + 1]):
        at += 1
    line = said[at].lstrip("# ") or said[at]
    return line if len(line) <= _TITLE_CHARS else f"{line[: _TITLE_CHARS - 1]}…"


class _Prompts:
    """Counts hygiene over the human prompts that have text, keeping one digest a prompt."""

    def __init__(self) -> None:
        self.count = self.short = self.no_code = self.eligible = 0
        self.digests: set[int] = set()
        self.opener: PromptFacts | None = None

    def add(self, text: str) -> None:
        facts = classify_prompt(text)
        if self.opener is None:
            self.opener = facts
        self.count += 1
        self.short += facts.short
        self.no_code += facts.no_code_context
        if not facts.short:
            self.eligible += 1
            self.digests.add(facts.digest)

    def hygiene(self) -> Hygiene:
        opener = self.opener
        return Hygiene(
            prompts=self.count,
            short=self.short,
            duplicate=self.eligible - len(self.digests),
            no_code_context=self.no_code,
            unstructured_start=opener is not None and (opener.short or opener.bare_greeting),
        )


class SessionFold:
    """The part of `Assessor` that needs O(1) state: `add` each message of a session, in transcript order."""

    def __init__(self) -> None:
        self.messages = 0
        self.calls = CallFolder()
        self.ending = Ending()

    def add(self, message: Message, calls: Iterable[ToolCall]) -> None:
        """The next message, and of its calls those that no earlier line has told."""
        self.messages += 1
        self.ending.add(message)
        for call in calls:
            self.calls.add(call)


class Findings(msgspec.Struct, frozen=True):
    """What `report_from` needs beside a `SessionFold`: what takes a set, or a sort, to find out."""

    churn: Evidence
    hygiene: Hygiene
    health: ContextHealth | None
    usage: UsageTotals | None
    thinking: Thinking | None
    advice: tuple[Advice, ...]
    models: tuple[str, ...]
    title: str | None
    tools: Mapping[str, ToolTally]
    """Without failures where the log does not tell how calls went: `report_from` sees to that."""
    servers: Mapping[str, ToolTally]


class Assessor:
    """`assess` in the form of a fold: `add` each message with its calls, in transcript order, then `result`.

    Memory grows with what must be told apart (call ids, requests, edited files, prompts: a few dozen bytes
    each), never with text.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._fold = SessionFold()
        self._replays = Replays()
        self._tallies = _Tallies()
        self._models: dict[str, None] = {}
        self._requests = RequestTotals()
        self._context = ContextHealthFolder()
        self._prompts = _Prompts()
        self._thinking = ThinkingFolder()
        self._title: str | None = None
        self._advice = AdviceFolder()

    def add(self, message: Message, calls: Sequence[ToolCall]) -> None:
        """The next message, and the calls that it made, each with its final status."""
        if message.model:
            self._models.setdefault(message.model)
        self._request(message.usage, own=not message.sidechain)
        if message.role == "user" and message.text.strip():
            self._title = self._title or title_from(message.text)
            if message.author == "human":
                self._prompts.add(message.text)
        if is_turn(message):
            self._thinking.add(thinking_tokens(message))
        own = [call for call in calls if not self._replays.is_one(call)]
        self._fold.add(message, own)
        for call in own:
            self._tallies.add(call)
            self._advice.add(call, message.model)

    def _request(self, usage: Usage | None, own: bool) -> None:
        """Count a request. own: of the session's own conversation, so that its size belongs to the context."""
        if usage is not None and self._requests.add_one(usage) and own and not usage.is_sum:
            self._context.add(usage.context_tokens)

    def result(self, session: Session, path: str | None = None) -> Report:
        """The report, with all that is not in the messages (times, names, losses) taken from `session`."""
        # Where no message has a usage, the requests outside of messages are the conversation's own.
        own = self._requests.result() is None
        for request in session.loose_usage:
            self._request(request, own)
        for model in session.models:
            self._models.setdefault(model)
        hygiene, health = self._prompts.hygiene(), self._context.result()
        tallies = self._tallies
        findings = Findings(
            churn=tallies.churn,
            hygiene=hygiene,
            health=health,
            usage=self._requests.result(),
            thinking=self._thinking.result(),
            advice=self._advice.result(hygiene, health),
            models=tuple(self._models),
            title=self._title,
            tools=_by_name(tallies.by_tool, tallies.failed_by_tool),
            servers=_by_name(tallies.by_server, tallies.failed_by_server),
        )
        return report_from(session, self._fold, findings, self._now, path)


def is_turn(message: Message) -> bool:
    """Whether it is an answer of the session's own model: what is thought in it counts."""
    return message.role == "assistant" and message.author == "agent" and not message.sidechain


def thinking_tokens(message: Message) -> float:
    """Reasoning tokens of one answer, reported or estimated; 0.0 when it did not think."""
    reported = message.usage.reasoning_tokens if message.usage else None
    return estimate_tokens(reported, message.thinking_bytes, message.thinking_kind)


def report_from(session: Session, fold: SessionFold, findings: Findings, now: datetime, path: str | None) -> Report:
    """The report card of a session whose messages went through `fold`. Of `session`, no message is looked at."""
    calls, ending, health, usage = fold.calls, fold.ending, findings.health, findings.usage
    judged = calls.statuses_are_logged and "statuses" not in session.untold
    facts = ending.facts(calls.run.count if judged else 0, is_idle(session, now))
    verdict = classify(facts)
    inputs_are_logged = bool(calls.with_input) or not calls.total
    signals = Signals(
        tool_calls=calls.total,
        tool_failures=calls.failures.count if judged else None,
        tool_retries=calls.retries.count if inputs_are_logged else None,
        edit_churn=findings.churn.count if inputs_are_logged else None,
        longest_failure_streak=calls.longest.count if judged else None,
        outcome=verdict.outcome,
    )
    graded = score(signals)
    minutes = (session.ended - session.started).total_seconds() / 60 if session.started and session.ended else 0.0
    name = ending.name(session.events)
    failures = signals.tool_failures
    return Report(
        path=path,
        agent=session.agent,
        session_id=session.source_id,
        title=session.title or findings.title,
        models=findings.models,
        started_at=session.started,
        ended_at=session.ended,
        outcome=verdict.outcome,
        confidence=verdict.confidence,
        score=graded.score,
        grade=graded.grade,
        archetype=classify_archetype(ArchetypeFacts(facts.user_messages, fold.messages, minutes)),
        ending=name,
        terminal=session.terminal,
        parent_session_id=session.parent_source_id,
        statuses=dict(calls.statuses),
        failures_per_100_calls=round(failures * 100 / calls.total, 1) if failures is not None and calls.total else None,
        basis=tuple(_unmeasured(signals, session, usage, health, findings.models)),
        advice=findings.advice,
        facts=facts,
        signals=signals,
        breakdown=tuple(
            BreakdownLine(
                line.label,
                line.points,
                tuple(_behind(line.kind, fold, findings.churn, verdict, facts, name)),
                line.is_capped,
            )
            for line in penalties(signals)
        ),
        hygiene=findings.hygiene,
        context=Context(health.peak, health.resets) if health else None,
        thinking=None if "thinking" in session.untold else findings.thinking,
        usage=usage,
        losses={loss.kind: loss.count for loss in session.losses},
        relation=session.relation,
        messages=fold.messages,
        duration_minutes=round(minutes, 2),
        cwd=session.cwd,
        branch=session.branch,
        agent_version=session.agent_version,
        tools=_judged(findings.tools, judged),
        mcp_servers=_judged(findings.servers, judged),
        events=dict(Counter(event.kind for event in session.events)),
    )


def _behind(
    kind: str, fold: SessionFold, churn: Evidence, verdict: Verdict, facts: Facts, ending: str | None
) -> Iterable[CallRef]:
    """The calls that cost one line of the breakdown."""
    calls = fold.calls
    if kind == "tool_failures":
        return calls.failures.calls
    if kind == "tool_retries":
        return calls.retries.calls
    if kind == "edit_churn":
        return churn.calls
    if kind == "failure_streak":
        return calls.longest.calls
    if verdict.outcome is Outcome.errored and facts.trailing_failures >= 3:
        return [
            msgspec.structs.replace(ref, why="the session ended on this run of failures") for ref in calls.run.calls
        ]
    if facts.tool_call_pending:
        return [reference(call, "the log ends before its result") for call in fold.ending.open_calls]
    return [CallRef(facts.last_user_ord, None, None, None, fold.ending.stopped_by(ending), "")]


def _unmeasured(
    signals: Signals, session: Session, usage: UsageTotals | None, health: ContextHealth | None, models: Sequence[str]
) -> Iterable[str]:
    """The facts that this session's log did not tell."""
    for name in ("tool_failures", "tool_retries", "edit_churn", "longest_failure_streak"):
        if getattr(signals, name) is None:
            yield name
    if session.started is None:
        yield "duration"
    if usage is None:
        yield "usage"
    elif usage.output_is_partial:
        yield "output_tokens"
    if health is None:
        yield "context"
    if not models:
        yield "models"
    yield from (name for name in session.untold if name not in ("usage", "models"))


def _by_name(calls: Counter[str], failures: Counter[str]) -> dict[str, ToolTally]:
    return {name: ToolTally(n, failures[name]) for name, n in calls.most_common()}


def _judged(tallies: Mapping[str, ToolTally], judged: bool) -> dict[str, ToolTally]:
    return dict(tallies) if judged else {name: ToolTally(tally.calls, None) for name, tally in tallies.items()}


def is_idle(session: Session, now: datetime) -> bool:
    """Whether nothing more is to be expected: the session is terminal, or silent for 30 minutes or more.

    Without a time in the log, the log's own modification time counts; with neither, it is not idle.
    """
    last = session.ended or session.modified
    return session.terminal or (last is not None and now - last >= IDLE_AFTER)

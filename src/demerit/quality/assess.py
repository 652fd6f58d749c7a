"""From a session's messages and calls to its report card: one fold over messages in transcript order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from demerit.model import CallStatus, Event, Message, Session, ToolCall, Usage
from demerit.quality.advice import AdviceFolder
from demerit.quality.archetype import ArchetypeFacts, classify_archetype
from demerit.quality.context import ContextHealth, ContextHealthFolder
from demerit.quality.outcome import Facts, Outcome, Verdict, classify
from demerit.quality.prompts import PromptFacts, classify_prompt
from demerit.quality.report import (
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
from demerit.quality.thinking import ThinkingFolder, estimate_tokens
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


class _Calls:
    """Folds the deduplicated calls into the counts of `Signals`."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str, str | None, str]] = set()
        self.statuses: Counter[str] = Counter()
        self.by_tool: Counter[str] = Counter()
        self.failed_by_tool: Counter[str] = Counter()
        self.by_server: Counter[str] = Counter()
        self.failed_by_server: Counter[str] = Counter()
        self.failures = Evidence()
        self.retries = Evidence()
        self.churn = Evidence()
        self.run = Evidence()
        self.longest = Evidence()
        self.edited: Counter[str] = Counter()
        self.previous: tuple[str, str | None] | None = None
        self.with_input = 0

    def is_replay(self, call: ToolCall) -> bool:
        if call.call_id is None:
            return False
        key = (call.call_id, call.name, call.input_hash, call.status._value_)
        if key in self.seen:
            return True
        self.seen.add(key)
        return False

    def add(self, call: ToolCall) -> None:
        status = call.status._value_  # .value goes through a descriptor, and this runs for every call
        self.statuses[status] += 1
        self.by_tool[call.name] += 1
        server = call.server if call.category == "mcp" else None
        if server is not None:
            self.by_server[server] += 1
        self.with_input += call.input_hash is not None
        if status == "failed" or status == "invalid":
            self.failures.add(call, status)
            self.failed_by_tool[call.name] += 1
            if server is not None:
                self.failed_by_server[server] += 1
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
        if call.changes_files and (status == "ok" or status == "unknown"):
            for path in dict.fromkeys(call.file_paths):
                self.edited[path] += 1
                if self.edited[path] > 1:
                    self.churn.add(call, f"change {self.edited[path]} to this file", path)

    @property
    def total(self) -> int:
        return self.statuses.total()

    @property
    def statuses_are_logged(self) -> bool:
        """Whether the log tells how calls went: of at least half of those with a result. Without any, it does."""
        silent = self.statuses["unknown"]
        return silent * 2 <= self.total - self.statuses["pending"]


class _Ending:
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


def _first_line(text: str) -> str:
    """The first line that says something: of "Implement the following plan:" and a heading, the heading."""
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


class Assessor:
    """`assess` in the form of a fold: `add` each message with its calls, in transcript order, then `result`.

    Memory grows with what must be told apart (call ids, requests, edited files, prompts: a few dozen bytes
    each), never with text.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._messages = 0
        self._models: dict[str, None] = {}
        self._calls = _Calls()
        self._ending = _Ending()
        self._requests = RequestTotals()
        self._context = ContextHealthFolder()
        self._prompts = _Prompts()
        self._thinking = ThinkingFolder()
        self._title: str | None = None
        self._advice = AdviceFolder()

    def add(self, message: Message, calls: Sequence[ToolCall]) -> None:
        """The next message, and the calls that it made, each with its final status."""
        self._messages += 1
        if message.model:
            self._models.setdefault(message.model)
        self._ending.add(message)
        self._request(message.usage, own=not message.sidechain)
        if message.role == "user" and message.text.strip():
            # A title only names the session, so here a program's or a parent agent's order counts too.
            self._title = self._title or _first_line(message.text)
            if message.author == "human":
                self._prompts.add(message.text)
        if message.role == "assistant" and message.author == "agent" and not message.sidechain:
            reported = message.usage.reasoning_tokens if message.usage else None
            self._thinking.add(estimate_tokens(reported, message.thinking_bytes, message.thinking_kind))
        for call in calls:
            if not self._calls.is_replay(call):
                self._calls.add(call)
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
        calls = self._calls
        judged = calls.statuses_are_logged and "statuses" not in session.untold
        idle = is_idle(session, self._now)
        facts = self._ending.facts(calls.run.count if judged else 0, idle)
        verdict = classify(facts)
        signals = Signals(
            tool_calls=calls.total,
            tool_failures=calls.failures.count if judged else None,
            tool_retries=calls.retries.count if calls.with_input or not calls.total else None,
            edit_churn=calls.churn.count if calls.with_input or not calls.total else None,
            longest_failure_streak=calls.longest.count if judged else None,
            outcome=verdict.outcome,
        )
        graded = score(signals)
        started, ended = session.started, session.ended
        minutes = (ended - started).total_seconds() / 60 if started and ended else 0.0
        hygiene = self._prompts.hygiene()
        health = self._context.result()
        usage = self._requests.result()
        thinking = None if "thinking" in session.untold else self._thinking.result()
        events: Counter[str] = Counter(event.kind for event in session.events)
        ending = self._ending.name(session.events)
        failures = signals.tool_failures
        return Report(
            path=path,
            agent=session.agent,
            session_id=session.source_id,
            title=session.title or self._title,
            models=tuple(self._models),
            started_at=started,
            ended_at=ended,
            outcome=verdict.outcome,
            confidence=verdict.confidence,
            score=graded.score,
            grade=graded.grade,
            archetype=classify_archetype(ArchetypeFacts(facts.user_messages, self._messages, minutes)),
            ending=ending,
            terminal=session.terminal,
            parent_session_id=session.parent_source_id,
            statuses=dict(calls.statuses),
            failures_per_100_calls=round(failures * 100 / calls.total, 1)
            if failures is not None and calls.total
            else None,
            basis=tuple(self._unmeasured(signals, session, usage, health)),
            advice=self._advice.result(hygiene, health),
            facts=facts,
            signals=signals,
            breakdown=tuple(
                BreakdownLine(
                    line.label, line.points, tuple(self._behind(line.kind, verdict, facts, ending)), line.is_capped
                )
                for line in penalties(signals)
            ),
            hygiene=hygiene,
            context=Context(health.peak, health.resets) if health else None,
            thinking=thinking,
            usage=usage,
            losses={loss.kind: loss.count for loss in session.losses},
            relation=session.relation,
            messages=self._messages,
            duration_minutes=round(minutes, 2),
            cwd=session.cwd,
            branch=session.branch,
            agent_version=session.agent_version,
            tools=_tallies(calls.by_tool, calls.failed_by_tool if judged else None),
            mcp_servers=_tallies(calls.by_server, calls.failed_by_server if judged else None),
            events=dict(events),
        )

    def _behind(self, kind: str, verdict: Verdict, facts: Facts, ending: str | None) -> Iterable[CallRef]:
        """The calls that cost one line of the breakdown."""
        calls = self._calls
        if kind == "tool_failures":
            return calls.failures.calls
        if kind == "tool_retries":
            return calls.retries.calls
        if kind == "edit_churn":
            return calls.churn.calls
        if kind == "failure_streak":
            return calls.longest.calls
        if verdict.outcome is Outcome.errored and facts.trailing_failures >= 3:
            return [
                msgspec.structs.replace(ref, why="the session ended on this run of failures") for ref in calls.run.calls
            ]
        if facts.tool_call_pending:
            return [reference(call, "the log ends before its result") for call in self._ending.open_calls]
        return [CallRef(facts.last_user_ord, None, None, None, self._ending.stopped_by(ending), "")]

    def _unmeasured(
        self, signals: Signals, session: Session, usage: UsageTotals | None, health: ContextHealth | None
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
        if not self._models:
            yield "models"
        yield from (name for name in session.untold if name not in ("usage", "models"))


def _tallies(calls: Counter[str], failures: Counter[str] | None) -> dict[str, ToolTally]:
    return {name: ToolTally(n, None if failures is None else failures[name]) for name, n in calls.most_common()}


def is_idle(session: Session, now: datetime) -> bool:
    """Whether nothing more is to be expected: the session is terminal, or silent for 30 minutes or more.

    Without a time in the log, the log's own modification time counts; with neither, it is not idle.
    """
    last = session.ended or session.modified
    return session.terminal or (last is not None and now - last >= IDLE_AFTER)

"""The tables, for SQLite and PostgreSQL alike, and the constraints that no code may get around.

Times are microseconds since 1970 in UTC (columns `*_us`), hours are whole hours since 1970; NULL is "not measured".
A change here is a new file in `migrations/versions/` as well: a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.schema import SchemaItem

from demerit.model import CallStatus
from demerit.quality.outcome import Confidence, Outcome
from demerit.quality.score import GRADE_FLOORS

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite numbers rows by itself only in a column of this very type.
_Id = BigInteger().with_variant(Integer, "sqlite")


def _session_id(*, primary_key: bool = False) -> Column[int]:
    return Column(
        "session_id", _Id, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=primary_key, nullable=False
    )


def _one_of(column: str, values: Iterable[object]) -> str:
    return f"{column} in ({', '.join(repr(str(value)) for value in values)})"


def _clustered(name: str, metadata: MetaData, *parts: SchemaItem) -> Table:
    """A table whose rows lie in the order of their key: a session's rows are read together."""
    return Table(name, metadata, *parts, sqlite_with_rowid=False)


# --- what was read --------------------------------------------------------------------------------------------

logs = Table(
    "logs",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("key", Text, nullable=False, unique=True),  # digest of machine and path: a path need not be text
    Column("machine", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("agent", Text),
    Column("fingerprint", Text, nullable=False),  # size, time and inode of all its files: equal means unchanged
    Column("bytes", BigInteger, nullable=False),
    Column("modified_us", BigInteger),
    Column("generation", Integer, nullable=False, server_default="0"),  # of its archived bytes
    Column("epoch", Integer, nullable=False),  # the parsers that read it; 0: none did
    Column("reason", Text),  # why it gave no session, in words
    Column("known_agent", Boolean, nullable=False),  # it is, or lies among, the logs of an agent that we know
    Column("is_gone", Boolean, nullable=False, server_default=text("false")),
    Column("checkpoint", Text),  # where reading goes on when it grew, as JSON; NULL: from its beginning
    Column("read_us", BigInteger, nullable=False),
    Index(None, "epoch", "modified_us"),
)

counters = Table(
    "counters",  # the last number given out; they are taken in blocks, so that rows can be made before they are kept
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

projects = Table(
    "projects",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("key", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    CheckConstraint(_one_of("kind", ("remote", "folder")), "kind"),
)

# What every list leaves out, and what it may be sorted by.
_NO_COPY: dict[str, Any] = {"sqlite_where": text("copy_of is null"), "postgresql_where": text("copy_of is null")}
_TOKENS = "(input_tokens + coalesce(cache_read_tokens, 0) + coalesce(cache_write_tokens, 0) + output_tokens)"

sessions = Table(
    "sessions",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("log_id", _Id, ForeignKey("logs.id", ondelete="CASCADE"), nullable=False),
    Column("agent", Text, nullable=False),
    Column("source_id", Text, nullable=False),  # the agent's own name of it
    Column("place", Integer, nullable=False),  # among the sessions of its log
    Column("parent_source_id", Text),
    Column("parent_id", _Id, ForeignKey("sessions.id", ondelete="SET NULL")),
    Column("relation", Text),
    Column("copy_of", _Id, ForeignKey("sessions.id", ondelete="SET NULL")),  # all of it stands in that one as well
    Column("project_id", _Id, ForeignKey("projects.id")),
    Column("cwd", Text),
    Column("branch", Text),
    Column("agent_version", Text),
    Column("title", Text),
    Column("model", Text),  # the one with the most answers
    Column("models", Text, nullable=False),  # JSON list, in the order of their first answer
    Column("started_us", BigInteger),
    Column("ended_us", BigInteger),
    Column("last_us", BigInteger),  # last sign of life: `ended_us`, or when a log without times was written
    Column("duration_us", BigInteger, Computed("ended_us - started_us", persisted=True)),
    Column("tokens", BigInteger, Computed(_TOKENS, persisted=True)),  # of all classes; NULL where there is no usage
    Column("begun_us", BigInteger, Computed("coalesce(started_us, last_us)", persisted=True)),  # to sort and cut by
    Column("is_terminal", Boolean, nullable=False),
    Column("messages", Integer, nullable=False),  # its own, without what it repeats of another session
    Column("user_messages", Integer, nullable=False),
    Column("replayed_messages", Integer, nullable=False),
    Column("requests", Integer, nullable=False),
    Column("input_tokens", BigInteger),  # this and the rest: NULL where the log has no usage
    Column("cache_read_tokens", BigInteger),
    Column("cache_write_tokens", BigInteger),
    Column("cache_write_1h_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("reasoning_tokens", BigInteger),
    Column("output_is_partial", Boolean, nullable=False),
    Column("cost_usd", Float),  # of the requests with a price; NULL where none has one
    Column("unpriced_requests", Integer, nullable=False),
    Column("untold", Text, nullable=False),  # JSON list: facts that its agent's logs never tell
    Column("losses", Text, nullable=False),  # JSON object: kind -> count
    Column("advice", Text),  # JSON list; NULL: to be found when it is graded
    Column("digest", Text, nullable=False),  # of all that was read: equal means nothing to write
    Column("generation", Integer, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("is_stale", Boolean, nullable=False),  # its signals are to be derived (again): nobody shows them
    UniqueConstraint("log_id", "source_id", "place"),
    CheckConstraint("relation is null or " + _one_of("relation", ("subagent", "fork", "continuation")), "relation"),
    CheckConstraint("parent_id is null or parent_id <> id", "no_own_parent"),
    CheckConstraint("copy_of is null or copy_of <> id", "no_own_copy"),
    CheckConstraint("messages >= 0 and user_messages between 0 and messages", "messages"),
    CheckConstraint("(input_tokens is null) = (output_tokens is null)", "usage_together"),
    Index(None, "agent", "source_id"),
    Index("ix_sessions_of_agent", "agent", "epoch", "begun_us", "id", "project_id", "relation", "copy_of", **_NO_COPY),
    Index(None, "agent", "parent_source_id"),
    Index(None, "parent_id"),
    # Nearly all have none: an index of all would look to SQLite as if it led to a few.
    Index(
        "ix_sessions_copy_of",
        "copy_of",
        sqlite_where=text("copy_of is not null"),
        postgresql_where=text("copy_of is not null"),
    ),
    Index(None, "begun_us", "id"),
    Index("ix_sessions_by_start", "epoch", "begun_us", "id", "agent", "project_id", "relation", "copy_of", **_NO_COPY),
    Index("ix_sessions_by_length", "epoch", "duration_us", "id", **_NO_COPY),
    Index("ix_sessions_by_cost", "epoch", "cost_usd", "id", **_NO_COPY),
    Index("ix_sessions_by_tokens", "epoch", "tokens", "id", **_NO_COPY),
    Index("ix_sessions_by_messages", "epoch", "messages", "id", **_NO_COPY),
    Index(None, "project_id", "begun_us"),
    Index(None, "epoch"),
    Index("ix_sessions_due", "last_us", "id", sqlite_where=text("is_stale = 1"), postgresql_where=text("is_stale")),
    Index(
        "ix_sessions_due_terminal",
        "id",
        sqlite_where=text("is_stale = 1 and is_terminal = 1"),
        postgresql_where=text("is_stale and is_terminal"),
    ),
)

# The first messages of each session, by which a session that repeats another is found.
session_heads = _clustered(
    "session_heads",
    metadata,
    Column("key", BigInteger, primary_key=True),
    _session_id(primary_key=True),
    Index(None, "session_id"),
)

texts = Table(
    "texts",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=False),  # session_id * 2**24 + a number in the session
    _session_id(),
    Column("digest", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("message_ordinal", Integer, nullable=False),  # its first place: a text that repeats is kept once
    Column("call_index", Integer),
    Column("bytes", BigInteger, nullable=False),  # of the whole text, of which `data` may hold the beginning
    Column("is_indexed", Boolean, nullable=False),
    Column("data", LargeBinary, nullable=False),  # zstd
    CheckConstraint(
        _one_of("kind", ("prompt", "answer", "context", "thinking", "input", "output")),
        "kind",
    ),
    Index(None, "session_id", "digest"),
)

messages = _clustered(
    "messages",
    metadata,
    _session_id(primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("role", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("notice", Text),
    Column("is_sidechain", Boolean, nullable=False),
    Column("is_replayed", Boolean, nullable=False),  # it stands in an earlier session, and counts there
    Column("has_substance", Boolean, nullable=False),
    Column("has_image", Boolean, nullable=False),
    Column("model", Text),
    Column("at_us", BigInteger),
    Column("stop_reason", Text),
    Column("calls", Integer, nullable=False),
    Column("text_bytes", BigInteger, nullable=False),
    Column("text_id", BigInteger),
    Column("thinking_bytes", BigInteger, nullable=False),
    Column("thinking_tokens", Float),  # an estimate; NULL: no turn of the model's
    Column("thinking_id", BigInteger),
    Column("key", BigInteger),  # tells the same message in another log; NULL: it cannot be told
    Column("prompt_version", SmallInteger),  # of the next four, which only human prompts with text have
    Column("prompt_short", Boolean),
    Column("prompt_no_code", Boolean),
    Column("prompt_greeting", Boolean),
    Column("prompt_digest", BigInteger),
    CheckConstraint(_one_of("role", ("user", "assistant", "system", "context")), "role"),
    CheckConstraint(_one_of("author", ("human", "agent", "harness")), "author"),
    CheckConstraint(
        "(prompt_version is null) = (prompt_short is null) and (prompt_version is null) = (prompt_no_code is null)"
        " and (prompt_version is null) = (prompt_greeting is null)"
        " and (prompt_version is null) = (prompt_digest is null)",
        "prompt_facts_together",
    ),
    Index(
        "ix_messages_prompts",
        "session_id",
        "prompt_digest",
        "ordinal",
        "prompt_short",
        "is_replayed",
        sqlite_where=text("prompt_digest is not null"),
        postgresql_where=text("prompt_digest is not null"),
    ),
)


tool_calls = _clustered(
    "tool_calls",
    metadata,
    _session_id(primary_key=True),
    Column("message_ordinal", Integer, primary_key=True),
    Column("call_index", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("category", Text, nullable=False),
    Column("mcp_server", Text),
    Column("status", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("call_id", Text),
    Column("input_hash", Text),
    Column("exit_code", BigInteger),
    Column("is_poll", Boolean, nullable=False),
    Column("is_counted", Boolean, nullable=False),  # not replayed, and not a repeated line of the same call
    Column("file_paths", Text),  # JSON list; NULL: it names none
    Column("at_us", BigInteger),
    Column("input_id", BigInteger),
    Column("result_id", BigInteger),
    CheckConstraint(_one_of("status", CallStatus), "status"),
)

file_changes = _clustered(
    "file_changes",  # one row for each file that a call changed
    metadata,
    _session_id(primary_key=True),
    Column("message_ordinal", Integer, primary_key=True),
    Column("call_index", Integer, primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("path", Text, nullable=False),
)

usage_events = _clustered(
    "usage_events",  # one row a model request, though its log may repeat it
    metadata,
    _session_id(primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("message_ordinal", Integer),
    Column("key", BigInteger),  # identity over all logs; NULL: none
    Column("model", Text),
    Column("at_us", BigInteger),
    Column("input_tokens", BigInteger, nullable=False),
    Column("cache_read_tokens", BigInteger, nullable=False),
    Column("cache_write_5m_tokens", BigInteger, nullable=False),
    Column("cache_write_1h_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger),
    Column("is_sum", Boolean, nullable=False),
    Column("is_partial", Boolean, nullable=False),
    Column("context_tokens", BigInteger),  # size of the prompt; NULL: no request of the session's own conversation
    Column("is_counted", Boolean, nullable=False),  # no other session has it, or this one has more of it
    Column("cost_usd", Float),  # NULL: no price is known
    Index(None, "session_id", "message_ordinal"),
    Index("ix_usage_events_key", "key", sqlite_where=text("key is not null"), postgresql_where=text("key is not null")),
)

events = _clustered(
    "events",
    metadata,
    _session_id(primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("message_ordinal", Integer),
    Column("at_us", BigInteger),
    Column("detail", Text, nullable=False),
    Index(None, "session_id", "message_ordinal"),
)

# --- sums of a session, from its own rows ---------------------------------------------------------------------

_ACTIVITY = ("messages", "prompts", "tool_calls", "active_us")
_USAGE = (
    "requests",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost_usd",
    "unpriced_requests",
    "unpriced_tokens",
)
_HAS_USAGE = "requests + input_tokens + cache_read_tokens + output_tokens > 0"

session_hours = _clustered(
    "session_hours",
    metadata,
    _session_id(primary_key=True),
    Column("hour", Integer, primary_key=True),  # -1: without a time
    Column("model", Text, primary_key=True),  # '': no model
    Column("messages", Integer, nullable=False),
    Column("prompts", Integer, nullable=False),
    Column("tool_calls", Integer, nullable=False),
    Column("active_us", BigInteger, nullable=False),
    Column("requests", Integer, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("cache_read_tokens", BigInteger, nullable=False),
    Column("cache_write_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger),
    Column("cost_usd", Float),
    Column("unpriced_requests", Integer, nullable=False),
    Column("unpriced_tokens", BigInteger, nullable=False),
    # These, and those of the next tables, hold all that is summed up: a sum over years reads nothing else.
    Index("ix_session_hours_by_hour", "hour", "model", "session_id", *_ACTIVITY, *_USAGE),
    Index(
        "ix_session_hours_usage",
        "model",
        "session_id",
        "hour",
        *_USAGE,
        sqlite_where=text(_HAS_USAGE),
        postgresql_where=text(_HAS_USAGE),
    ),
)

session_tools = _clustered(
    "session_tools",
    metadata,
    _session_id(primary_key=True),
    Column("tool", Text, primary_key=True),
    Column("model", Text, primary_key=True),  # '': the log does not tell
    Column("category", Text, nullable=False),
    Column("mcp_server", Text),
    Column("calls", Integer, nullable=False),
    *(Column(status.value, Integer, nullable=False) for status in CallStatus),
    Column("is_judged", Boolean, nullable=False),  # the log tells how calls went
    Column("is_first", Boolean, nullable=False),  # of the rows of its tool, the one that counts the session
    Index(
        "ix_session_tools_sums",
        "tool",
        "model",
        "is_judged",
        "session_id",
        "is_first",
        "calls",
        *("failed", "invalid", "benign", "declined", "cancelled", "pending", "unknown"),
    ),
)

session_files = _clustered(
    "session_files",
    metadata,
    _session_id(primary_key=True),
    Column("path", Text, primary_key=True),  # below the working folder where it lies there
    Column("changes", Integer, nullable=False),
    Index("ix_session_files_path", "path", "session_id", "changes"),
)

REPETITIONS = (
    "batches",  # turns with calls
    "repeats_seen",
    "identical_repeats",
    "repeats_not_evaluated",
    "repeats_rescued",
    "loops",
    "stagnations",
    "cycles",
)

session_defects = _clustered(
    "session_defects",
    metadata,
    _session_id(primary_key=True),
    Column("model", Text, primary_key=True),  # '': the log does not tell
    Column("responses", Integer, nullable=False),
    Column("truncated", Integer, nullable=False),
    Column("empty", Integer, nullable=False),
    Column("reasoning_only", Integer, nullable=False),
    Column("calls", Integer, nullable=False),
    Column("invalid", Integer, nullable=False),
    # What the guard would have reported of the turns with calls; NULL: read by a version that did not look.
    *(Column(name, Integer) for name in REPETITIONS),
    Index(
        "ix_session_defects_sums",
        "model",
        "session_id",
        *("responses", "truncated", "empty", "reasoning_only", "calls", "invalid", *REPETITIONS),
    ),
    CheckConstraint("truncated <= responses and empty <= responses and reasoning_only <= empty", "responses"),
    CheckConstraint("invalid <= calls", "calls"),
)

# --- what the settle pass finds -------------------------------------------------------------------------------

session_signals = Table(
    "session_signals",
    metadata,
    _session_id(primary_key=True),
    Column("version", Integer, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("confidence", Text, nullable=False),
    Column("ending", Text),
    Column("score", Integer),
    Column("grade", Text),
    Column("tool_calls", Integer, nullable=False),
    Column("tool_failures", Integer),
    Column("tool_retries", Integer),
    Column("edit_churn", Integer),
    Column("longest_failure_streak", Integer),
    Column("prompts", Integer, nullable=False),
    Column("short_prompts", Integer, nullable=False),
    Column("duplicate_prompts", Integer, nullable=False),
    Column("no_code_prompts", Integer, nullable=False),
    Column("unstructured_start", Boolean, nullable=False),
    Column("peak_context_tokens", BigInteger),
    Column("context_resets", Integer),
    Column("assistant_turns", Integer),
    Column("thinking_turns", Integer),
    Column("thinking_tail_tokens", BigInteger),
    Column("thinking_peak_tokens", BigInteger),
    CheckConstraint(_one_of("outcome", Outcome), "outcome"),
    CheckConstraint(_one_of("confidence", Confidence), "confidence"),
    CheckConstraint("score between 0 and 100", "score"),
    CheckConstraint("(score is null) = (grade is null)", "score_and_grade"),
    CheckConstraint(
        "grade is null or grade = case "
        + " ".join(f"when score >= {floor} then '{grade}'" for grade, floor in GRADE_FLOORS)
        + " else 'F' end",
        "grade_of_score",
    ),
    CheckConstraint(
        "tool_calls >= 0 and coalesce(tool_failures, 0) between 0 and tool_calls"
        " and coalesce(tool_retries, 0) between 0 and tool_calls and coalesce(edit_churn, 0) >= 0"
        " and coalesce(longest_failure_streak, 0) between 0 and coalesce(tool_failures, 0)",
        "calls",
    ),
    CheckConstraint(
        "short_prompts between 0 and prompts and duplicate_prompts between 0 and prompts"
        " and no_code_prompts between 0 and prompts and (prompts > 0 or not unstructured_start)",
        "hygiene",
    ),
    CheckConstraint(
        "(peak_context_tokens is null) = (context_resets is null)"
        " and coalesce(peak_context_tokens, 0) >= 0 and coalesce(context_resets, 0) >= 0",
        "context",
    ),
    CheckConstraint(
        "(assistant_turns is null) = (thinking_turns is null)"
        " and (assistant_turns is null) = (thinking_tail_tokens is null)"
        " and (assistant_turns is null) = (thinking_peak_tokens is null)"
        " and coalesce(thinking_turns, 0) between 0 and coalesce(assistant_turns, 0)"
        " and coalesce(thinking_tail_tokens, 0) between 0 and coalesce(thinking_peak_tokens, 0)",
        "thinking",
    ),
    Index(None, "version", "score", "session_id"),
)

session_reports = _clustered(
    "session_reports",  # apart from the signals, which are gone through by the thousand
    metadata,
    _session_id(primary_key=True),
    Column("data", LargeBinary, nullable=False),  # the whole card: a Report as JSON, zstd
)

session_advice = _clustered(
    "session_advice",
    metadata,
    _session_id(primary_key=True),
    Column("rule", Text, primary_key=True),
)

# --- what people say ------------------------------------------------------------------------------------------

verdicts = Table(
    "verdicts",  # by the agent's own name of the session: it outlives a rebuild
    metadata,
    Column("agent", Text, primary_key=True),
    Column("source_id", Text, primary_key=True),
    Column("verdict", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("at_us", BigInteger, nullable=False),
    CheckConstraint(_one_of("verdict", ("good", "bad")), "verdict"),
)

pruned = Table(
    "pruned",  # sessions that were thrown away: they come back only when they go on
    metadata,
    Column("agent", Text, primary_key=True),
    Column("source_id", Text, primary_key=True),
    Column("last_us", BigInteger),
)

# --- the raw bytes, in a database of their own where the engine is SQLite -----------------------------------------

archive_metadata = MetaData(naming_convention=metadata.naming_convention)

archived_logs = Table(
    "archived_logs",
    archive_metadata,
    Column("key", Text, primary_key=True),
    Column("machine", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("os_path", LargeBinary, nullable=False),  # its very bytes
    Column("agent", Text),
    Column("is_framed", Boolean, nullable=False),  # records of several files or of a database, each with a header
    Column("generation", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("modified_us", BigInteger),
)

archived_frames = _clustered(
    "archived_frames",
    archive_metadata,
    Column("key", Text, primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("start", BigInteger, primary_key=True),
    Column("bytes", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),  # zstd
)

# --- what a proxy counted and decided ---------------------------------------------------------------------------

model_counts = _clustered(
    "model_counts",  # differences of a proxy's ledger, added up by the hour; a counter that is not there is 0
    metadata,
    Column("hour", Integer, primary_key=True),  # since 1970
    Column("model", Text, primary_key=True),
    Column("version", Text, primary_key=True),  # of demerit
    Column("counter", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
    CheckConstraint("value >= 0", "value"),
)

guard_trips = Table(
    "guard_trips",  # one row a decision of the loop guard, whatever became of the request
    metadata,
    Column("id", _Id, primary_key=True),
    Column("at_us", BigInteger, nullable=False),
    Column("model", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("detector", Text, nullable=False),
    Column("signature_hash", Text),
    Column("session_hash", Text),
    Column("count", Integer, nullable=False),
    Column("limit", Integer, nullable=False),
    CheckConstraint(_one_of("mode", ("note", "refuse")), "mode"),
    CheckConstraint(_one_of("detector", ("loop", "stagnation")), "detector"),
    Index(None, "at_us"),
)

guard_scans = _clustered(
    "guard_scans",  # how many requests the guard read
    metadata,
    Column("day", Integer, primary_key=True),  # since 1970, UTC
    Column("model", Text, primary_key=True),
    Column("version", Text, primary_key=True),
    Column("mode", Text, primary_key=True),
    Column("scanned", BigInteger, nullable=False),
    CheckConstraint(_one_of("mode", ("note", "refuse")), "mode"),
)

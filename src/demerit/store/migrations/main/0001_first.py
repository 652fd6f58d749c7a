"""The first schema."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "counters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.create_table(
        "logs",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=True),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("modified_us", sa.BigInteger(), nullable=True),
        sa.Column("generation", sa.Integer(), server_default="0", nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("known_agent", sa.Boolean(), nullable=False),
        sa.Column("is_gone", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("checkpoint", sa.Text(), nullable=True),
        sa.Column("read_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_logs")),
        sa.UniqueConstraint("key", name=op.f("uq_logs_key")),
    )
    op.create_index(op.f("ix_logs_epoch_modified_us"), "logs", ["epoch", "modified_us"], unique=False)
    op.create_table(
        "projects",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.CheckConstraint("kind in ('remote', 'folder')", name=op.f("ck_projects_kind")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
        sa.UniqueConstraint("key", name=op.f("uq_projects_key")),
    )
    op.create_table(
        "pruned",
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("last_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("agent", "source_id", name=op.f("pk_pruned")),
    )
    op.create_table(
        "verdicts",
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("verdict in ('good', 'bad')", name=op.f("ck_verdicts_verdict")),
        sa.PrimaryKeyConstraint("agent", "source_id", name=op.f("pk_verdicts")),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("log_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("parent_source_id", sa.Text(), nullable=True),
        sa.Column("parent_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("relation", sa.Text(), nullable=True),
        sa.Column("copy_of", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("cwd", sa.Text(), nullable=True),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("agent_version", sa.Text(), nullable=True),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("models", sa.Text(), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=True),
        sa.Column("ended_us", sa.BigInteger(), nullable=True),
        sa.Column("last_us", sa.BigInteger(), nullable=True),
        sa.Column("duration_us", sa.BigInteger(), sa.Computed("ended_us - started_us", persisted=True), nullable=True),
        sa.Column(
            "tokens",
            sa.BigInteger(),
            sa.Computed(
                "(input_tokens + coalesce(cache_read_tokens, 0) + coalesce(cache_write_tokens, 0) + output_tokens)",
                persisted=True,
            ),
            nullable=True,
        ),
        sa.Column(
            "begun_us", sa.BigInteger(), sa.Computed("coalesce(started_us, last_us)", persisted=True), nullable=True
        ),
        sa.Column("is_terminal", sa.Boolean(), nullable=False),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.Column("user_messages", sa.Integer(), nullable=False),
        sa.Column("replayed_messages", sa.Integer(), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cache_read_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cache_write_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cache_write_1h_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("reasoning_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_is_partial", sa.Boolean(), nullable=False),
        sa.Column("cost_usd", sa.Float(), nullable=True),
        sa.Column("unpriced_requests", sa.Integer(), nullable=False),
        sa.Column("untold", sa.Text(), nullable=False),
        sa.Column("losses", sa.Text(), nullable=False),
        sa.Column("advice", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("is_stale", sa.Boolean(), nullable=False),
        sa.CheckConstraint(
            "relation is null or relation in ('subagent', 'fork', 'continuation')", name=op.f("ck_sessions_relation")
        ),
        sa.CheckConstraint("(input_tokens is null) = (output_tokens is null)", name=op.f("ck_sessions_usage_together")),
        sa.CheckConstraint("copy_of is null or copy_of <> id", name=op.f("ck_sessions_no_own_copy")),
        sa.CheckConstraint("messages >= 0 and user_messages between 0 and messages", name=op.f("ck_sessions_messages")),
        sa.CheckConstraint("parent_id is null or parent_id <> id", name=op.f("ck_sessions_no_own_parent")),
        sa.ForeignKeyConstraint(["copy_of"], ["sessions.id"], name=op.f("fk_sessions_copy_of"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["log_id"], ["logs.id"], name=op.f("fk_sessions_log_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["parent_id"], ["sessions.id"], name=op.f("fk_sessions_parent_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_sessions_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("log_id", "source_id", "place", name=op.f("uq_sessions_log_id_source_id_place")),
    )
    op.create_index(op.f("ix_sessions_agent_parent_source_id"), "sessions", ["agent", "parent_source_id"], unique=False)
    op.create_index(op.f("ix_sessions_agent_source_id"), "sessions", ["agent", "source_id"], unique=False)
    op.create_index(op.f("ix_sessions_begun_us_id"), "sessions", ["begun_us", "id"], unique=False)
    op.create_index(
        "ix_sessions_by_cost",
        "sessions",
        ["epoch", "cost_usd", "id"],
        unique=False,
        sqlite_where=sa.text("copy_of is null"),
        postgresql_where=sa.text("copy_of is null"),
    )
    op.create_index(
        "ix_sessions_by_length",
        "sessions",
        ["epoch", "duration_us", "id"],
        unique=False,
        sqlite_where=sa.text("copy_of is null"),
        postgresql_where=sa.text("copy_of is null"),
    )
    op.create_index(
        "ix_sessions_by_messages",
        "sessions",
        ["epoch", "messages", "id"],
        unique=False,
        sqlite_where=sa.text("copy_of is null"),
        postgresql_where=sa.text("copy_of is null"),
    )
    op.create_index(
        "ix_sessions_by_start",
        "sessions",
        ["epoch", "begun_us", "id", "agent", "project_id", "relation", "copy_of"],
        unique=False,
        sqlite_where=sa.text("copy_of is null"),
        postgresql_where=sa.text("copy_of is null"),
    )
    op.create_index(
        "ix_sessions_by_tokens",
        "sessions",
        ["epoch", "tokens", "id"],
        unique=False,
        sqlite_where=sa.text("copy_of is null"),
        postgresql_where=sa.text("copy_of is null"),
    )
    op.create_index(
        "ix_sessions_copy_of",
        "sessions",
        ["copy_of"],
        unique=False,
        sqlite_where=sa.text("copy_of is not null"),
        postgresql_where=sa.text("copy_of is not null"),
    )
    op.create_index(
        "ix_sessions_due",
        "sessions",
        ["last_us", "id"],
        unique=False,
        sqlite_where=sa.text("is_stale = 1"),
        postgresql_where=sa.text("is_stale"),
    )
    op.create_index(
        "ix_sessions_due_terminal",
        "sessions",
        ["id"],
        unique=False,
        sqlite_where=sa.text("is_stale = 1 and is_terminal = 1"),
        postgresql_where=sa.text("is_stale and is_terminal"),
    )
    op.create_index(op.f("ix_sessions_epoch"), "sessions", ["epoch"], unique=False)
    op.create_index(
        "ix_sessions_of_agent",
        "sessions",
        ["agent", "epoch", "begun_us", "id", "project_id", "relation", "copy_of"],
        unique=False,
        sqlite_where=sa.text("copy_of is null"),
        postgresql_where=sa.text("copy_of is null"),
    )
    op.create_index(op.f("ix_sessions_parent_id"), "sessions", ["parent_id"], unique=False)
    op.create_index(op.f("ix_sessions_project_id_begun_us"), "sessions", ["project_id", "begun_us"], unique=False)
    op.create_table(
        "events",
        sa.Column("session_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("message_ordinal", sa.Integer(), nullable=True),
        sa.Column("at_us", sa.BigInteger(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_events_session_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session_id", "place", name=op.f("pk_events")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_events_session_id_message_ordinal"), "events", ["session_id", "message_ordinal"], unique=False
    )
    op.create_table(
        "file_changes",
        sa.Column("session_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("message_ordinal", sa.Integer(), nullable=False),
        sa.Column("call_index", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_file_changes_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "message_ordinal", "call_index", "place", name=op.f("pk_file_changes")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "messages",
        sa.Column("session_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("notice", sa.Text(), nullable=True),
        sa.Column("is_sidechain", sa.Boolean(), nullable=False),
        sa.Column("is_replayed", sa.Boolean(), nullable=False),
        sa.Column("has_substance", sa.Boolean(), nullable=False),
        sa.Column("has_image", sa.Boolean(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("at_us", sa.BigInteger(), nullable=True),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("text_bytes", sa.BigInteger(), nullable=False),
        sa.Column("text_id", sa.BigInteger(), nullable=True),
        sa.Column("thinking_bytes", sa.BigInteger(), nullable=False),
        sa.Column("thinking_tokens", sa.Float(), nullable=True),
        sa.Column("thinking_id", sa.BigInteger(), nullable=True),
        sa.Column("key", sa.BigInteger(), nullable=True),
        sa.Column("prompt_version", sa.SmallInteger(), nullable=True),
        sa.Column("prompt_short", sa.Boolean(), nullable=True),
        sa.Column("prompt_no_code", sa.Boolean(), nullable=True),
        sa.Column("prompt_greeting", sa.Boolean(), nullable=True),
        sa.Column("prompt_digest", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("author in ('human', 'agent', 'harness')", name=op.f("ck_messages_author")),
        sa.CheckConstraint("role in ('user', 'assistant', 'system', 'context')", name=op.f("ck_messages_role")),
        sa.CheckConstraint(
            "(prompt_version is null) = (prompt_short is null) and (prompt_version is null) = (prompt_no_code is null) and (prompt_version is null) = (prompt_greeting is null) and (prompt_version is null) = (prompt_digest is null)",
            name=op.f("ck_messages_prompt_facts_together"),
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_messages_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "ordinal", name=op.f("pk_messages")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_messages_prompts",
        "messages",
        ["session_id", "prompt_digest", "ordinal", "prompt_short", "is_replayed"],
        unique=False,
        sqlite_where=sa.text("prompt_digest is not null"),
        postgresql_where=sa.text("prompt_digest is not null"),
    )
    op.create_table(
        "session_advice",
        sa.Column("session_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_session_advice_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "rule", name=op.f("pk_session_advice")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "session_defects",
        sa.Column("session_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("responses", sa.Integer(), nullable=False),
        sa.Column("truncated", sa.Integer(), nullable=False),
        sa.Column("empty", sa.Integer(), nullable=False),
        sa.Column("reasoning_only", sa.Integer(), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("invalid", sa.Integer(), nullable=False),
        sa.CheckConstraint("invalid <= calls", name=op.f("ck_session_defects_calls")),
        sa.CheckConstraint(
            "truncated <= responses and empty <= responses and reasoning_only <= empty",
            name=op.f("ck_session_defects_responses"),
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_session_defects_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "model", name=op.f("pk_session_defects")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_session_defects_sums",
        "session_defects",
        ["model", "session_id", "responses", "truncated", "empty", "reasoning_only", "calls", "invalid"],
        unique=False,
    )
    op.create_table(
        "session_files",
        sa.Column("session_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("changes", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_session_files_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "path", name=op.f("pk_session_files")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_session_files_path", "session_files", ["path", "session_id", "changes"], unique=False)
    op.create_table(
        "session_heads",
        sa.Column("key", sa.BigInteger(), nullable=False),
        sa.Column("session_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_session_heads_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", "session_id", name=op.f("pk_session_heads")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_session_heads_session_id"), "session_heads", ["session_id"], unique=False)
    op.create_table(
        "session_hours",
        sa.Column("session_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("hour", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.Column("prompts", sa.Integer(), nullable=False),
        sa.Column("tool_calls", sa.Integer(), nullable=False),
        sa.Column("active_us", sa.BigInteger(), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_read_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_write_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("reasoning_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cost_usd", sa.Float(), nullable=True),
        sa.Column("unpriced_requests", sa.Integer(), nullable=False),
        sa.Column("unpriced_tokens", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_session_hours_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "hour", "model", name=op.f("pk_session_hours")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_session_hours_by_hour",
        "session_hours",
        [
            "hour",
            "model",
            "session_id",
            "messages",
            "prompts",
            "tool_calls",
            "active_us",
            "requests",
            "input_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
            "output_tokens",
            "reasoning_tokens",
            "cost_usd",
            "unpriced_requests",
            "unpriced_tokens",
        ],
        unique=False,
    )
    op.create_index(
        "ix_session_hours_usage",
        "session_hours",
        [
            "model",
            "session_id",
            "hour",
            "requests",
            "input_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
            "output_tokens",
            "reasoning_tokens",
            "cost_usd",
            "unpriced_requests",
            "unpriced_tokens",
        ],
        unique=False,
        sqlite_where=sa.text("requests + input_tokens + cache_read_tokens + output_tokens > 0"),
        postgresql_where=sa.text("requests + input_tokens + cache_read_tokens + output_tokens > 0"),
    )
    op.create_table(
        "session_reports",
        sa.Column("session_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_session_reports_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_session_reports")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "session_signals",
        sa.Column("session_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("confidence", sa.Text(), nullable=False),
        sa.Column("ending", sa.Text(), nullable=True),
        sa.Column("score", sa.Integer(), nullable=True),
        sa.Column("grade", sa.Text(), nullable=True),
        sa.Column("tool_calls", sa.Integer(), nullable=False),
        sa.Column("tool_failures", sa.Integer(), nullable=True),
        sa.Column("tool_retries", sa.Integer(), nullable=True),
        sa.Column("edit_churn", sa.Integer(), nullable=True),
        sa.Column("longest_failure_streak", sa.Integer(), nullable=True),
        sa.Column("prompts", sa.Integer(), nullable=False),
        sa.Column("short_prompts", sa.Integer(), nullable=False),
        sa.Column("duplicate_prompts", sa.Integer(), nullable=False),
        sa.Column("no_code_prompts", sa.Integer(), nullable=False),
        sa.Column("unstructured_start", sa.Boolean(), nullable=False),
        sa.Column("peak_context_tokens", sa.BigInteger(), nullable=True),
        sa.Column("context_resets", sa.Integer(), nullable=True),
        sa.Column("assistant_turns", sa.Integer(), nullable=True),
        sa.Column("thinking_turns", sa.Integer(), nullable=True),
        sa.Column("thinking_tail_tokens", sa.BigInteger(), nullable=True),
        sa.Column("thinking_peak_tokens", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("confidence in ('high', 'medium', 'low')", name=op.f("ck_session_signals_confidence")),
        sa.CheckConstraint(
            "grade is null or grade = case when score >= 90 then 'A' when score >= 75 then 'B' when score >= 60 then 'C' when score >= 40 then 'D' else 'F' end",
            name=op.f("ck_session_signals_grade_of_score"),
        ),
        sa.CheckConstraint(
            "outcome in ('completed', 'abandoned', 'errored', 'unknown')", name=op.f("ck_session_signals_outcome")
        ),
        sa.CheckConstraint(
            "(assistant_turns is null) = (thinking_turns is null) and (assistant_turns is null) = (thinking_tail_tokens is null) and (assistant_turns is null) = (thinking_peak_tokens is null) and coalesce(thinking_turns, 0) between 0 and coalesce(assistant_turns, 0) and coalesce(thinking_tail_tokens, 0) between 0 and coalesce(thinking_peak_tokens, 0)",
            name=op.f("ck_session_signals_thinking"),
        ),
        sa.CheckConstraint(
            "(peak_context_tokens is null) = (context_resets is null) and coalesce(peak_context_tokens, 0) >= 0 and coalesce(context_resets, 0) >= 0",
            name=op.f("ck_session_signals_context"),
        ),
        sa.CheckConstraint("(score is null) = (grade is null)", name=op.f("ck_session_signals_score_and_grade")),
        sa.CheckConstraint("score between 0 and 100", name=op.f("ck_session_signals_score")),
        sa.CheckConstraint(
            "short_prompts between 0 and prompts and duplicate_prompts between 0 and prompts and no_code_prompts between 0 and prompts and (prompts > 0 or not unstructured_start)",
            name=op.f("ck_session_signals_hygiene"),
        ),
        sa.CheckConstraint(
            "tool_calls >= 0 and coalesce(tool_failures, 0) between 0 and tool_calls and coalesce(tool_retries, 0) between 0 and tool_calls and coalesce(edit_churn, 0) >= 0 and coalesce(longest_failure_streak, 0) between 0 and coalesce(tool_failures, 0)",
            name=op.f("ck_session_signals_calls"),
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_session_signals_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_session_signals")),
    )
    op.create_index(
        op.f("ix_session_signals_version_score_session_id"),
        "session_signals",
        ["version", "score", "session_id"],
        unique=False,
    )
    op.create_table(
        "session_tools",
        sa.Column("session_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("mcp_server", sa.Text(), nullable=True),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("ok", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("invalid", sa.Integer(), nullable=False),
        sa.Column("declined", sa.Integer(), nullable=False),
        sa.Column("cancelled", sa.Integer(), nullable=False),
        sa.Column("benign", sa.Integer(), nullable=False),
        sa.Column("pending", sa.Integer(), nullable=False),
        sa.Column("unknown", sa.Integer(), nullable=False),
        sa.Column("is_judged", sa.Boolean(), nullable=False),
        sa.Column("is_first", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_session_tools_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "tool", "model", name=op.f("pk_session_tools")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_session_tools_sums",
        "session_tools",
        [
            "tool",
            "model",
            "is_judged",
            "session_id",
            "is_first",
            "calls",
            "failed",
            "invalid",
            "benign",
            "declined",
            "cancelled",
            "pending",
            "unknown",
        ],
        unique=False,
    )
    op.create_table(
        "texts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("session_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("message_ordinal", sa.Integer(), nullable=False),
        sa.Column("call_index", sa.Integer(), nullable=True),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("is_indexed", sa.Boolean(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint(
            "kind in ('prompt', 'answer', 'context', 'thinking', 'input', 'output')", name=op.f("ck_texts_kind")
        ),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_texts_session_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_texts")),
    )
    op.create_index(op.f("ix_texts_session_id_digest"), "texts", ["session_id", "digest"], unique=False)
    op.create_table(
        "tool_calls",
        sa.Column("session_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("message_ordinal", sa.Integer(), nullable=False),
        sa.Column("call_index", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("mcp_server", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("input_hash", sa.Text(), nullable=True),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("is_poll", sa.Boolean(), nullable=False),
        sa.Column("is_counted", sa.Boolean(), nullable=False),
        sa.Column("file_paths", sa.Text(), nullable=True),
        sa.Column("at_us", sa.BigInteger(), nullable=True),
        sa.Column("input_id", sa.BigInteger(), nullable=True),
        sa.Column("result_id", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "status in ('ok', 'failed', 'invalid', 'declined', 'cancelled', 'benign', 'pending', 'unknown')",
            name=op.f("ck_tool_calls_status"),
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_tool_calls_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "message_ordinal", "call_index", name=op.f("pk_tool_calls")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "usage_events",
        sa.Column("session_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("message_ordinal", sa.Integer(), nullable=True),
        sa.Column("key", sa.BigInteger(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("at_us", sa.BigInteger(), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_read_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_write_5m_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_write_1h_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("reasoning_tokens", sa.BigInteger(), nullable=True),
        sa.Column("is_sum", sa.Boolean(), nullable=False),
        sa.Column("is_partial", sa.Boolean(), nullable=False),
        sa.Column("context_tokens", sa.BigInteger(), nullable=True),
        sa.Column("is_counted", sa.Boolean(), nullable=False),
        sa.Column("cost_usd", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_usage_events_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "place", name=op.f("pk_usage_events")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_usage_events_key",
        "usage_events",
        ["key"],
        unique=False,
        sqlite_where=sa.text("key is not null"),
        postgresql_where=sa.text("key is not null"),
    )
    op.create_index(
        op.f("ix_usage_events_session_id_message_ordinal"),
        "usage_events",
        ["session_id", "message_ordinal"],
        unique=False,
    )

    if op.get_context().dialect.name == "sqlite":
        op.execute(
            "create virtual table search using fts5"
            "(body, content='', columnsize=1, tokenize='unicode61 remove_diacritics 2')"
        )
    else:
        op.create_table(
            "search",
            sa.Column("rowid", sa.BigInteger(), autoincrement=False, nullable=False),
            sa.Column("body", postgresql.TSVECTOR(), nullable=False),
            sa.PrimaryKeyConstraint("rowid", name=op.f("pk_search")),
        )
        op.create_index(op.f("ix_search_body"), "search", ["body"], postgresql_using="gin")

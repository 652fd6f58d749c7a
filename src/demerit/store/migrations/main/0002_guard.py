"""What a proxy counted and its guard decided, and the repetitions in the sessions of each model."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_REPETITIONS = (
    "batches",
    "repeats_seen",
    "identical_repeats",
    "repeats_not_evaluated",
    "repeats_rescued",
    "loops",
    "stagnations",
    "cycles",
)


def upgrade() -> None:
    for name in _REPETITIONS:
        op.add_column("session_defects", sa.Column(name, sa.Integer(), nullable=True))
    op.drop_index("ix_session_defects_sums", table_name="session_defects")
    sums = ["responses", "truncated", "empty", "reasoning_only", "calls", "invalid", *_REPETITIONS]
    op.create_index("ix_session_defects_sums", "session_defects", ["model", "session_id", *sums])
    op.create_table(
        "model_counts",
        sa.Column("hour", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("counter", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("value >= 0", name=op.f("ck_model_counts_value")),
        sa.PrimaryKeyConstraint("hour", "model", "version", "counter", name=op.f("pk_model_counts")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "guard_trips",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("detector", sa.Text(), nullable=False),
        sa.Column("signature_hash", sa.Text(), nullable=True),
        sa.Column("session_hash", sa.Text(), nullable=True),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("limit", sa.Integer(), nullable=False),
        sa.CheckConstraint("mode in ('note', 'refuse')", name=op.f("ck_guard_trips_mode")),
        sa.CheckConstraint("detector in ('loop', 'stagnation')", name=op.f("ck_guard_trips_detector")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_guard_trips")),
    )
    op.create_index(op.f("ix_guard_trips_at_us"), "guard_trips", ["at_us"])
    op.create_table(
        "guard_scans",
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("scanned", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("mode in ('note', 'refuse')", name=op.f("ck_guard_scans_mode")),
        sa.PrimaryKeyConstraint("day", "model", "version", "mode", name=op.f("pk_guard_scans")),
        sqlite_with_rowid=False,
    )

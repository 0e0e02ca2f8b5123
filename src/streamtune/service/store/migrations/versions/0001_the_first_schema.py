"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
DOCUMENT = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("detail", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audit")),
    )
    with op.batch_alter_table("audit", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_audit_time"), ["time"], unique=False)

    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("first_seen", MOMENT, nullable=False),
        sa.Column("last_seen", MOMENT, nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("bounds", DOCUMENT, nullable=False),
        sa.Column("tuned_for", DOCUMENT, nullable=True),
        sa.Column("summary", DOCUMENT, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_table(
        "lease_epoch",
        sa.Column("boot", sa.Text(), nullable=False),
        sa.Column("steady", sa.Float(), nullable=False),
        sa.Column("wall", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("boot", name=op.f("pk_lease_epoch")),
    )
    op.create_table(
        "leases",
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until", MOMENT, nullable=False),
        sa.Column("term", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("job", name=op.f("pk_leases")),
    )
    op.create_table(
        "models",
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("data", DOCUMENT, nullable=False),
        sa.Column("scores", DOCUMENT, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("compared_with", sa.Text(), nullable=True),
        sa.Column("changed", sa.Text(), nullable=False),
        sa.Column("promoted", MOMENT, nullable=True),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_models")),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_try", MOMENT, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
    )
    with op.batch_alter_table("outbox", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_outbox_state_next_try"), ["state", "next_try"], unique=False)

    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("salt", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("expires", MOMENT, nullable=True),
        sa.Column("revoked", MOMENT, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
    )
    op.create_table(
        "decisions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("before", DOCUMENT, nullable=False),
        sa.Column("after", DOCUMENT, nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("reasons", DOCUMENT, nullable=False),
        sa.Column("curves", DOCUMENT, nullable=False),
        sa.Column("tuner", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("outcome", DOCUMENT, nullable=True),
        sa.Column("began", MOMENT, nullable=True),
        sa.Column("reverts", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name=op.f("fk_decisions_job"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
    )
    with op.batch_alter_table("decisions", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_decisions_job_time"), ["job", "time"], unique=False)
        batch_op.create_index(batch_op.f("ix_decisions_status"), ["status"], unique=False)

    op.create_table(
        "observations",
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.Column("window_s", sa.Float(), nullable=False),
        sa.Column("rate", sa.Float(), nullable=True),
        sa.Column("backpressure", sa.Float(), nullable=True),
        sa.Column("backpressured", sa.Boolean(), nullable=False),
        sa.Column("instances", sa.Integer(), nullable=False),
        sa.Column("recommended", sa.Integer(), nullable=True),
        sa.Column("autoscaler", sa.Integer(), nullable=True),
        sa.Column("parallelism", DOCUMENT, nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name=op.f("fk_observations_job"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job", "time", name=op.f("pk_observations")),
    )
    with op.batch_alter_table("observations", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_observations_time"), ["time"], unique=False)

    op.create_table(
        "decision_steps",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["decision"], ["decisions.id"], name=op.f("fk_decision_steps_decision"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_decision_steps")),
    )
    with op.batch_alter_table("decision_steps", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_decision_steps_decision"), ["decision"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("decision_steps", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_decision_steps_decision"))

    op.drop_table("decision_steps")
    with op.batch_alter_table("observations", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_observations_time"))

    op.drop_table("observations")
    with op.batch_alter_table("decisions", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_decisions_status"))
        batch_op.drop_index(batch_op.f("ix_decisions_job_time"))

    op.drop_table("decisions")
    op.drop_table("tokens")
    with op.batch_alter_table("outbox", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_outbox_state_next_try"))

    op.drop_table("outbox")
    op.drop_table("models")
    op.drop_table("leases")
    op.drop_table("lease_epoch")
    op.drop_table("jobs")
    with op.batch_alter_table("audit", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_audit_time"))

    op.drop_table("audit")

"""The tables of the store. ``migrations`` makes them; a test compares the two."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Moment(TypeDecorator[datetime]):
    """A moment in UTC: with its zone in PostgreSQL, as text in SQLite, which has no zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        moved = value.astimezone(UTC)
        return moved.replace(tzinfo=None) if dialect.name == "sqlite" else moved

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        if value is None:
            return None
        found: datetime = value
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


Document = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")

jobs = Table(
    "jobs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("engine", Text, nullable=False),
    Column("first_seen", Moment, nullable=False),
    Column("last_seen", Moment, nullable=False),
    Column("paused", Boolean, nullable=False, default=False),
    Column("bounds", Document, nullable=False, default=dict),
    Column("tuned_for", Document),
    Column("summary", Document),
)

observations = Table(
    "observations",
    metadata,
    Column("job", Text, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("time", Moment, primary_key=True),
    Column("window_s", Float, nullable=False),
    Column("rate", Float),
    Column("backpressure", Float),
    Column("backpressured", Boolean, nullable=False),
    Column("instances", Integer, nullable=False),
    Column("recommended", Integer),
    Column("autoscaler", Integer),
    Column("parallelism", Document, nullable=False),
    Index(None, "time"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("job", Text, ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("time", Moment, nullable=False),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("before", Document, nullable=False),
    Column("after", Document, nullable=False),
    Column("summary", Text, nullable=False),
    Column("reasons", Document, nullable=False),
    Column("curves", Document, nullable=False),
    Column("tuner", Text, nullable=False),
    Column("model", Text),
    Column("policy", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("outcome", Document),
    Column("began", Moment),
    Column("reverts", Text),
    Index(None, "job", "time"),
    Index(None, "status"),
)

steps = Table(
    "decision_steps",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("decision", Text, ForeignKey("decisions.id", ondelete="CASCADE"), nullable=False),
    Column("time", Moment, nullable=False),
    Column("status", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("text", Text, nullable=False),
    Index(None, "decision"),
)

leases = Table(
    "leases",
    metadata,
    Column("job", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until", Moment, nullable=False),
    Column("term", Integer, nullable=False),
)

# Instances of jobs that share a budget: what runs, or what a change under way may come to.
claims = Table(
    "claims",
    metadata,
    Column("job", Text, primary_key=True),
    Column("group", Text, nullable=False),
    Column("instances", Integer, nullable=False),
    Index(None, "group"),
)

# The time that leases go by on SQLite: one moment of the machine's steady clock, and what it is called.
epoch = Table(
    "lease_epoch",
    metadata,
    Column("boot", Text, primary_key=True),
    Column("steady", Float, nullable=False),
    Column("wall", Moment, nullable=False),
)

models = Table(
    "models",
    metadata,
    Column("version", Text, primary_key=True),
    Column("created", Moment, nullable=False),
    Column("path", Text, nullable=False),
    Column("data", Document, nullable=False),
    Column("scores", Document, nullable=False),
    Column("status", Text, nullable=False),
    Column("compared_with", Text),
    Column("changed", Text, nullable=False),
    Column("promoted", Moment),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("salt", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("created", Moment, nullable=False),
    Column("expires", Moment),
    Column("revoked", Moment),
)

audit = Table(
    "audit",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("time", Moment, nullable=False),
    Column("who", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("detail", Document, nullable=False),
    Index(None, "time"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Text, primary_key=True),
    Column("time", Moment, nullable=False),
    Column("url", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_try", Moment, nullable=False),
    Column("state", Text, nullable=False),
    Column("error", Text),
    Index(None, "state", "next_try"),
)

"""Alembic's entry: runs migrations on the connection that ``schema.upgrade`` brings."""

from __future__ import annotations

from alembic import context

from streamtune.service.store.tables import metadata


def run() -> None:
    """All migrations that the store lacks."""
    connection = context.config.attributes["connection"]
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
    context.run_migrations()


if hasattr(context, "config"):  # only while Alembic runs this file; an import alone runs nothing
    run()

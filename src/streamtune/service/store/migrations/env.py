"""Alembic's entry: runs migrations on the connection that ``schema.upgrade`` brings."""

from __future__ import annotations

from alembic import context

from streamtune.service.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()

"""What the service knows, in SQLite or PostgreSQL: observations, decisions, leases, models, tokens, the audit trail."""

from __future__ import annotations

from streamtune.service.store.store import Store

__all__ = ["Store"]

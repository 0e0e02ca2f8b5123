"""``Store``: the tables behind one door."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, select

from streamtune.clock import Clock
from streamtune.service.settings import RetentionSettings
from streamtune.service.store import tables
from streamtune.service.store.audit import AuditTable
from streamtune.service.store.claims import ClaimTable
from streamtune.service.store.database import Database
from streamtune.service.store.decisions import DecisionTable
from streamtune.service.store.jobs import JobTable
from streamtune.service.store.lease_clock import LeaseClock
from streamtune.service.store.leases import LeaseTable
from streamtune.service.store.models import ModelTable
from streamtune.service.store.outbox import OutboxTable
from streamtune.service.store.schema import upgrade
from streamtune.service.store.tokens import TokenTable

_OVER = ("observed", "rejected", "applied", "failed", "rolled_back", "expired", "refused")


class Store:
    """The store, brought to the newest schema when it is opened.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(f"sqlite:///{folder}/service.db")
    ...     found = store.jobs.all(), store.tokens.all()
    ...     store.close()
    >>> found
    ([], [])
    """

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        upgrade(self.database)
        self.jobs = JobTable(self.database)
        self.decisions = DecisionTable(self.database)
        self.leases = LeaseTable(self.database)
        self.claims = ClaimTable(self.database)
        self.lease_clock: Clock = LeaseClock(self.database)
        self.models = ModelTable(self.database)
        self.tokens = TokenTable(self.database)
        self.audit = AuditTable(self.database)
        self.outbox = OutboxTable(self.database)

    def ping(self) -> None:
        """Fails where the store cannot be read."""
        with self.database.read() as connection:
            connection.execute(select(1))

    def forget(self, now: datetime, keep: RetentionSettings) -> dict[str, int]:
        """Delete what is older than the settings say; what is still under way stays."""
        old = {
            "observations": (tables.observations, tables.observations.c.time, keep.observations_days),
            "decisions": (tables.decisions, tables.decisions.c.time, keep.decisions_days),
            "audit": (tables.audit, tables.audit.c.time, keep.audit_days),
            "outbox": (tables.outbox, tables.outbox.c.time, keep.observations_days),
        }
        gone = {}
        for name, (table, column, days) in old.items():
            which = column < now - timedelta(days=days)
            if name == "decisions":
                which &= tables.decisions.c.status.in_(_OVER)
            if name == "outbox":
                which &= tables.outbox.c.state != "waiting"
            with self.database.write() as connection:
                gone[name] = connection.execute(delete(table).where(which)).rowcount
        return gone

    def close(self) -> None:
        self.database.close()

"""The schema, by Alembic's migrations in this package."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from streamtune.service.errors import StoreError
from streamtune.service.store.database import Database

_MIGRATIONS = "streamtune.service.store:migrations"
_LOCK = 7_311_842_206  # any number, the same for all of us


def alembic_config() -> Config:
    """Alembic's configuration, without a file."""
    config = Config()
    config.set_main_option("script_location", _MIGRATIONS)
    return config


def upgrade(database: Database) -> None:
    """Bring a store to the newest schema; services that start at the same moment do it one after the other."""
    config = alembic_config()
    newest = ScriptDirectory.from_config(config)
    with database.read() as connection:
        current = MigrationContext.configure(connection).get_current_revision()
    if current == newest.get_current_head():
        return
    known = {revision.revision for revision in newest.walk_revisions()}
    if current is not None and current not in known:
        raise StoreError(
            f"the store {database.shown} was made by a newer StreamTune (schema {current}): install that one, or "
            "choose another --store"
        )
    with database.write() as connection:
        if not database.is_sqlite:
            connection.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

"""One connection pool, and transactions that are whole or not at all, on SQLite and on PostgreSQL."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from streamtune.service.errors import StoreError

_WRITES = "streamtune_writes"


class Database:
    """Reads and writes by transactions. Writers of SQLite wait for each other before they begin, not in the middle.

    >>> Database("mysql://host/name")
    Traceback (most recent call last):
    streamtune.service.errors.StoreError: the store must be sqlite:///FILE or postgresql://…, but got 'mysql://host/name'
    """

    def __init__(self, url: str) -> None:
        self.url = _parsed(url)
        self.shown = self.url.render_as_string(hide_password=True)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        options: dict[str, Any] = {"pool_pre_ping": not self.is_sqlite}
        if self.is_sqlite:
            _prepare_file(self.url)
            options["connect_args"] = {"timeout": 30.0, "check_same_thread": False}
        else:
            options |= {"pool_size": 10, "max_overflow": 10, "connect_args": {"connect_timeout": 10}}
        self.engine: Engine = create_engine(self.url, **options)
        if self.is_sqlite:
            event.listen(self.engine, "connect", _set_up_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        try:
            with self.engine.connect() as connection, connection.begin():
                yield connection
        except SQLAlchemyError as error:
            raise self._unusable(error) from error

    @contextmanager
    def write(self) -> Iterator[Connection]:
        try:
            with self.engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
                yield connection
        except SQLAlchemyError as error:
            raise self._unusable(error) from error

    def close(self) -> None:
        self.engine.dispose()

    def _unusable(self, error: SQLAlchemyError) -> StoreError:
        reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        return StoreError(f"the store {self.shown} cannot be used: {reason}. Check that it is there and has room")


def _parsed(url: str) -> URL:
    try:
        found = make_url(url)
        kind = found.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        kind = ""
    if kind not in ("sqlite", "postgresql"):
        raise StoreError(f"the store must be sqlite:///FILE or postgresql://…, but got {url!r}")
    if kind == "postgresql":
        return found.set(drivername="postgresql+psycopg")
    if not found.database or found.database == ":memory:":
        raise StoreError("the store must be a file, which outlives the service: sqlite:///FILE")
    return found


def _prepare_file(url: URL) -> None:
    """Only this user reads the store: it holds hashes of tokens and names of jobs."""
    path = Path(url.database or "")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600, exist_ok=True)
        if not stat.S_ISREG(path.stat().st_mode):
            raise StoreError(f"the store {path} must be a file: choose another one with --store")
    except OSError as error:
        raise StoreError(
            f"the store {path} cannot be written: {error.strerror}. Choose another one with --store"
        ) from error


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say, see below
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

"""Stores of both kinds for the tests of the service."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamtune.service.store import Store

_POSTGRES = Path("/usr/lib/postgresql")


def postgres_binaries() -> Path | None:
    """The newest PostgreSQL of this machine, Debian's or one on the path."""
    found = sorted(_POSTGRES.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])) if _POSTGRES.is_dir() else []
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server of its own, gone at the end; PostgreSQL does not run as root, so root lends it a user."""
    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL on this machine: the store was tested on SQLite alone (apt-get install postgresql)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path("/tmp") / f"streamtune-postgres-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    user: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
        user = ["runuser", "-u", "postgres", "--"]

    def run(*command: str) -> None:
        subprocess.run([*user, *command], check=True, capture_output=True, cwd="/", timeout=60)

    data = folder / "data"
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    try:
        run(str(binaries / "initdb"), "-D", str(data), "-U", "tester", "--auth=trust", "-E", "UTF8", "--no-sync")
        run(str(binaries / "pg_ctl"), "-D", str(data), "-o", options, "-l", str(folder / "log"), "-w", "start")
        yield f"postgresql://tester@127.0.0.1:{port}"
    finally:
        if data.exists():
            subprocess.run(
                [*user, str(binaries / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop"],
                check=False,
                capture_output=True,
                cwd="/",
                timeout=60,
            )
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/service.db"
    server = request.getfixturevalue("postgres")
    import psycopg

    name = f"test_{uuid.uuid4().hex[:10]}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f'create database "{name}"')
    return f"{server}/{name}"


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = Store(store_url)
    yield opened
    opened.close()


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(f"sqlite:///{tmp_path}/service.db")
    yield opened
    opened.close()

"""Who a service is to others that share its store: the same after a crash, and never two at once."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
from pathlib import Path

from streamtune.service.errors import ServiceError


class Holder:
    """A name that stays with a data folder, and the lock that keeps a second process from using both.

    After a crash the system lets go of the lock, so that the service started again is the one it was: its leases are
    still its own, and it goes on at once.
    """

    def __init__(self, data: Path) -> None:
        path = data / "service.id"
        try:
            data.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ServiceError(
                f"{path} cannot be written: {error.strerror}. Choose another folder with --data"
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise ServiceError(
                f"another service uses {data}: stop it, or give this one a folder of its own with --data"
            ) from error
        number = os.pread(self._descriptor, 64, 0).decode("ascii", "ignore").strip()
        if not number.isalnum():
            number = secrets.token_hex(4)
            os.pwrite(self._descriptor, number.encode(), 0)
        self.name = f"serve@{socket.gethostname()}#{number}"

    def release(self) -> None:
        os.close(self._descriptor)

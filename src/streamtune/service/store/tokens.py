"""Tokens: what is stored is a salted hash, so that whoever reads the store cannot use it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import insert, select, update

from streamtune.service.errors import ServiceError
from streamtune.service.store.database import Database
from streamtune.service.store.tables import tokens

Role = Literal["viewer", "operator"]
_PREFIX = "st"


@dataclass(frozen=True)
class Token:
    """Who a token belongs to and what it may do; never the token itself."""

    id: str
    name: str
    role: Role
    created: datetime
    expires: datetime | None
    revoked: datetime | None

    def is_valid(self, now: datetime) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


class TokenTable:
    """Tokens by id. A token reads ``st_ID_SECRET``: the id finds the row, the secret is compared with its hash."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, role: Role, now: datetime, expires: datetime | None = None) -> tuple[Token, str]:
        """A new token: the one moment in which its text is known."""
        with self._database.write() as connection:
            same = (tokens.c.name == name) & tokens.c.revoked.is_(None)
            if connection.execute(select(tokens.c.id).where(same)).first() is not None:
                raise ServiceError(
                    f"there is a token called '{name}': choose another name, or 'streamtune token revoke {name}' first"
                )
            token = Token(secrets.token_hex(6), name, role, now, expires, None)
            secret, salt = secrets.token_urlsafe(32), secrets.token_hex(16)
            values = {**token.__dict__, "salt": salt, "hash": _hash(secret, salt)}
            connection.execute(insert(tokens).values(**values))
        return token, f"{_PREFIX}_{token.id}_{secret}"

    def find(self, text: str, now: datetime) -> Token | None:
        """Whose token this is; None for one that is wrong, revoked or too old."""
        prefix, _, rest = text.partition("_")
        token_id, _, secret = rest.partition("_")
        if prefix != _PREFIX or not token_id.isalnum() or not secret or len(text) > 200:
            return None
        with self._database.read() as connection:
            row = connection.execute(select(tokens).where(tokens.c.id == token_id)).one_or_none()
        if row is None or not hmac.compare_digest(row.hash, _hash(secret, row.salt)):
            return None
        found = _token(row)
        return found if found.is_valid(now) else None

    def by_id(self, token_id: str) -> Token | None:
        with self._database.read() as connection:
            row = connection.execute(select(tokens).where(tokens.c.id == token_id)).one_or_none()
        return None if row is None else _token(row)

    def all(self) -> list[Token]:
        with self._database.read() as connection:
            return [_token(row) for row in connection.execute(select(tokens).order_by(tokens.c.created))]

    def revoke(self, name: str, now: datetime) -> Token:
        """Make a token useless, by its name or its id."""
        with self._database.write() as connection:
            which = ((tokens.c.name == name) | (tokens.c.id == name)) & tokens.c.revoked.is_(None)
            row = connection.execute(select(tokens).where(which)).first()
            if row is None:
                raise ServiceError(f"no token '{name}' is in use: 'streamtune token list' shows which are")
            connection.execute(update(tokens).where(tokens.c.id == row.id).values(revoked=now))
        return _token(row)


def _hash(secret: str, salt: str) -> str:
    """SHA-256: the secret has 256 random bits, so that no slow hash is needed against guessing."""
    return hashlib.sha256(f"{salt}:{secret}".encode()).hexdigest()


def _token(row: Any) -> Token:
    return Token(row.id, row.name, row.role, row.created, row.expires, row.revoked)

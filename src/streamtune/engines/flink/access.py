"""Ways in: who we are to a JobManager behind a proxy, from environment or files, and never on a screen."""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from streamtune.engines.flink.settings import AccessSettings
from streamtune.errors import EngineError

# Up to the last @ of what stands before the path: a password may hold one.
_USERINFO = re.compile(r"^(https?://)([^/]*)@")


@dataclass(frozen=True)
class Access:
    """What a client needs beyond the address: headers, credentials and whom to trust. Never shown."""

    headers: dict[str, str] = field(default_factory=dict, repr=False)
    login: tuple[str, str] | None = field(default=None, repr=False)
    verify: ssl.SSLContext | bool = True

    @classmethod
    def of(cls, settings: AccessSettings | None = None) -> Access:
        """Read secrets from where the settings say they are; a file that is not there is an error that names it."""
        settings = settings or AccessSettings()
        headers = {
            name: _in_header(_secret(value, f"header {name}"), f"header {name}")
            for name, value in settings.headers.items()
        }
        token = _first(settings.token_file, settings.token_env, "token")
        if token is not None:
            headers["Authorization"] = f"Bearer {_in_header(token, 'token')}"
        user = settings.user or _of_environment(settings.user_env)
        password = _first(settings.password_file, settings.password_env, "password")
        login = (user, password or "") if user is not None and token is None else None
        return cls(headers, login, _trust(settings))


def split_login(url: str) -> tuple[str, tuple[str, str] | None]:
    """An address without its user and password, and these.

    >>> split_login("https://me:secret@flink.example/prod")
    ('https://flink.example/prod', ('me', 'secret'))
    """
    match = _USERINFO.match(url)
    if match is None:
        return url, None
    user, _, password = match[2].partition(":")
    return f"{match[1]}{url[match.end() :]}", (unquote(user), unquote(password))


def _first(file: Path | None, variable: str, what: str) -> str | None:
    if file is not None:
        return _read(file, what)
    return _of_environment(variable)


def _of_environment(variable: str) -> str | None:
    """A line break at its end comes from the file or command that it was read from, and is no part of it."""
    return os.environ.get(variable, "").strip() or None


def _in_header(value: str, what: str) -> str:
    """A value that HTTP can carry; what refuses the others would quote them."""
    if not (value.isascii() and value.isprintable()):
        raise EngineError(f"the {what} holds a line break or a letter that is not ASCII: check where it is kept")
    return value


def _secret(value: str, what: str) -> str:
    """A header's value, or where it is: ``env:NAME`` or ``file:PATH``."""
    kind, _, place = value.partition(":")
    if kind == "env" and place:
        found = _of_environment(place)
        if found is None:
            raise EngineError(f"{what}: the environment has no variable {place}: set it")
        return found
    if kind == "file" and place:
        return _read(Path(place), what)
    return value.strip()


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise EngineError(f"the {what} cannot be read from {path}: {reason}. Check the path") from error


def _trust(settings: AccessSettings) -> ssl.SSLContext | bool:
    if settings.ca_file is None and settings.client_cert is None:
        return True
    try:
        context = ssl.create_default_context(cafile=None if settings.ca_file is None else str(settings.ca_file))
        if settings.client_cert is not None:
            key = None if settings.client_key is None else str(settings.client_key)
            context.load_cert_chain(str(settings.client_cert), key)
    except (OSError, ssl.SSLError) as error:
        named = settings.client_cert or settings.ca_file
        raise EngineError(f"the certificates cannot be used ({named}): {error}. Check the paths") from error
    return context

"""Who is asking, and what they may do: tokens, sessions of the dashboard, and reading on this machine."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from streamtune.service.api.state import state_of
from streamtune.service.clocks import RealClock
from streamtune.service.errors import RequestError
from streamtune.service.store.tokens import Token
from streamtune.service.views import Identity

COOKIE = "streamtune_session"
CSRF_HEADER = "X-CSRF-Token"
HOW_TO_GET_A_TOKEN = "run 'streamtune token create NAME --role operator' and send it as 'Authorization: Bearer TOKEN'"

router = APIRouter(prefix="/api/v1", tags=["login"])
_CLOCK = RealClock()  # tokens and sessions last real hours, also where the demo's clock runs faster


@dataclass(frozen=True)
class Session:
    """A login of the dashboard."""

    token_id: str
    csrf: str
    until: datetime


class Sessions:
    """Logins, in memory: a restart of the service ends them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Session] = {}

    def begin(self, token: Token, hours: float) -> tuple[str, Session]:
        key = secrets.token_urlsafe(32)
        session = Session(token.id, secrets.token_urlsafe(32), _CLOCK.now() + timedelta(hours=hours))
        with self._lock:
            self._known = {k: s for k, s in self._known.items() if s.until > _CLOCK.now()}
            self._known[key] = session
        return key, session

    def find(self, key: str) -> Session | None:
        with self._lock:
            found = self._known.get(key)
        return found if found is not None and found.until > _CLOCK.now() else None

    def end(self, key: str) -> None:
        with self._lock:
            self._known.pop(key, None)


@dataclass(frozen=True)
class Caller:
    """Who is asking: a token's owner, or somebody on this machine without one."""

    identity: Identity | None
    may_read: bool
    session: Session | None = None
    problem: str | None = None


def caller_of(request: Request) -> Caller:
    """Who is asking; worked out once per request."""
    found = getattr(request.state, "caller", None)
    if found is None:
        found = _find_caller(request)
        request.state.caller = found
    caller: Caller = found
    return caller


def _find_caller(request: Request) -> Caller:
    service, sessions = state_of(request), request.app.state.sessions
    header = request.headers.get("authorization")
    if header is not None:
        scheme, _, text = header.partition(" ")
        token = service.store.tokens.find(text.strip(), _CLOCK.now()) if scheme.lower() == "bearer" else None
        if token is None:
            return Caller(None, False, problem="the token is wrong, revoked or too old")
        return Caller(Identity(name=token.name, role=token.role), True)
    key = request.cookies.get(COOKIE)
    session = None if key is None else sessions.find(key)
    if session is not None:
        token = service.store.tokens.by_id(session.token_id)
        if token is not None and token.is_valid(_CLOCK.now()):
            return Caller(Identity(name=token.name, role=token.role), True, session)
    settings = service.context.settings.api
    return Caller(None, settings.anonymous_read and is_this_machine(request))


def is_this_machine(request: Request) -> bool:
    """Whether a request was sent on this machine, and not passed on by a proxy on it."""
    forwarded = any(name in request.headers for name in ("forwarded", "x-forwarded-for", "x-real-ip", "via"))
    try:
        return request.client is not None and not forwarded and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def identity_of(request: Request) -> Identity | None:
    return caller_of(request).identity


def needs_reader(request: Request) -> None:
    """Refuse who may not even read."""
    caller = caller_of(request)
    if caller.problem is not None:
        request.app.state.limits.note_failure(request)
        raise RequestError(401, "bad_token", caller.problem, HOW_TO_GET_A_TOKEN)
    if not caller.may_read:
        raise RequestError(401, "no_token", "a token is needed from here", HOW_TO_GET_A_TOKEN)


def needs_operator(request: Request) -> Identity:
    """Refuse who may not change anything, and changes that another site made a browser send."""
    needs_reader(request)
    caller = caller_of(request)
    if caller.identity is None:
        raise RequestError(
            401, "no_token", "without a token this service can be read but not changed", HOW_TO_GET_A_TOKEN
        )
    if caller.identity.role != "operator":
        raise RequestError(
            403,
            "wrong_role",
            f"'{caller.identity.name}' is a {caller.identity.role}, and changes need an operator",
            "use a token with --role operator",
        )
    if caller.session is not None:
        sent = request.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(sent.encode(), caller.session.csrf.encode()):
            raise RequestError(
                403, "csrf", f"the header {CSRF_HEADER} is missing or wrong", "log in again and send what login answers"
            )
    return caller.identity


Operator = Annotated[Identity, Depends(needs_operator)]


class Login(BaseModel):
    """What the dashboard sends to log in."""

    model_config = ConfigDict(extra="forbid")

    token: str = Field(min_length=1, max_length=200)


class LoggedIn(BaseModel):
    """Who is logged in, and what to send with changes."""

    identity: Identity
    csrf: str


@router.post("/login", response_model=LoggedIn)
def log_in(request: Request, response: Response, login: Login) -> LoggedIn:
    """Trade a token for a cookie that no script can read, and a CSRF token for changes."""
    service = state_of(request)
    token = service.store.tokens.find(login.token, _CLOCK.now())
    if token is None:
        request.app.state.limits.note_failure(request)
        raise RequestError(401, "bad_token", "the token is wrong, revoked or too old", HOW_TO_GET_A_TOKEN)
    settings = service.context.settings.api
    key, session = request.app.state.sessions.begin(token, settings.session_hours)
    response.set_cookie(
        COOKIE,
        key,
        max_age=int(settings.session_hours * 3600),
        httponly=True,
        samesite="strict",
        # Not by request.url, which reads the query as UTF-8: nobody has to send that.
        secure=request.scope["scheme"] == "https",
        path="/",
    )
    service.store.audit.write(service.context.now(), token.name, "login", "dashboard")
    return LoggedIn(identity=Identity(name=token.name, role=token.role), csrf=session.csrf)


@router.get("/login", response_model=LoggedIn)
def who_am_i(request: Request) -> LoggedIn:
    """The session of this browser again, after its page was loaded anew."""
    caller = caller_of(request)
    if caller.session is None or caller.identity is None:
        raise RequestError(404, "no_session", "nobody is logged in here", "POST /api/v1/login with a token")
    return LoggedIn(identity=caller.identity, csrf=caller.session.csrf)


@router.post("/logout")
def log_out(request: Request, response: Response) -> dict[str, str]:
    """End the session of this browser."""
    key = request.cookies.get(COOKIE)
    if key is not None:
        request.app.state.sessions.end(key)
    response.delete_cookie(COOKIE, path="/")
    return {"status": "ok"}

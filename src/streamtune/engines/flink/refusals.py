"""What went wrong when Flink was asked, by what came back, and what to do about it."""

from __future__ import annotations

import httpx

from streamtune.errors import EngineError
from streamtune.outputs import redacted

_SHOWN_CHARACTERS = 300
# What OpenSSL calls an answer that is no TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
_NO_COMMON_TLS = ("UNSUPPORTED_PROTOCOL", "ALERT_PROTOCOL_VERSION", "HANDSHAKE_FAILURE", "NO_PROTOCOLS_AVAILABLE")


class FlinkUnreachableError(EngineError):
    """No response, or only server errors: worth another try later."""


class FlinkRefusedError(EngineError):
    """Flink understood the request and refused it."""


class FlinkNotFoundError(FlinkRefusedError):
    """No such job, vertex or jar."""


def refusal(what: str, answer: httpx.Response) -> EngineError:
    """What an answer means that is not what was asked for."""
    if answer.is_redirect:
        return FlinkRefusedError(_sent_on(what, answer))
    message = f"{what} was answered with {answer.status_code}" + (f": {_reason(answer)}" if answer.content else "")
    if answer.status_code == 401:
        told = "authorization" in answer.request.headers
        return FlinkRefusedError(
            f"{message}. "
            + ("It does not know the user, password or token that it was given" if told else "It asks who you are")
            + ": set STREAMTUNE_FLINK_TOKEN, or STREAMTUNE_FLINK_USER and STREAMTUNE_FLINK_PASSWORD"
        )
    if answer.status_code == 403:
        return FlinkRefusedError(f"{message}. You are known there, but not allowed to do this: ask for the right")
    if answer.status_code == 404:
        where = "" if answer.content else ": check the address and its path"
        return FlinkNotFoundError(f"{message}{where}")
    if answer.status_code >= 500 and not _is_final(answer):
        return FlinkUnreachableError(message)
    return FlinkRefusedError(message)


def _is_final(answer: httpx.Response) -> bool:
    """Flink refuses some requests with status 500: those name the reason, and a retry would not help."""
    return "UnsupportedOperationException" in answer.text


def _reason(answer: httpx.Response) -> str:
    """The last cause in Flink's list of errors, on one line."""
    try:
        return root_cause("\n".join(str(error) for error in answer.json()["errors"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return shown(answer.text)


def _sent_on(what: str, answer: httpx.Response) -> str:
    where = str(answer.headers.get("location", "nowhere")).partition("?")[0]
    asked, there = answer.request.url, answer.request.url.join(where)
    if (asked.scheme, there.scheme) == ("http", "https") and asked.host == there.host:
        return f"{what} was sent on to {redacted(where)}: the cluster speaks TLS there, so give it as https://"
    return (
        f"{what} was sent on to {redacted(where)}, as by a login page: set STREAMTUNE_FLINK_TOKEN, or "
        "STREAMTUNE_FLINK_USER and _PASSWORD, or check the address"
    )


def is_of_flink(answer: httpx.Response) -> bool:
    """Whether Flink itself has answered, be it with one of its errors, and not something before it."""
    try:
        said = answer.json()
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and (answer.is_success or isinstance(said.get("errors"), list))


def broken_off(url: str, path: str, error: httpx.HTTPError) -> EngineError:
    """What it means that no answer came at all."""
    if isinstance(error, httpx.LocalProtocolError):  # it would quote the header, which may be a secret
        return FlinkRefusedError(
            f"{url}{path} was not asked: a header that is to be sent is not allowed in HTTP. Check "
            "engines.flink.access in streamtune.yaml, and STREAMTUNE_FLINK_TOKEN"
        )
    said = str(error)
    if isinstance(error, httpx.TimeoutException):
        return FlinkUnreachableError(f"{url}{path} did not answer in time: check that the JobManager is healthy")
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return FlinkRefusedError(
            f"the certificate of {url} is not trusted ({said}): give the certificate that signed it as "
            "engines.flink.access.ca_file in streamtune.yaml"
        )
    if "CERTIFICATE_REQUIRED" in said.upper().replace(" ", "_"):
        return FlinkRefusedError(
            f"{url} asks for a certificate of yours: give engines.flink.access.client_cert in streamtune.yaml"
        )
    if any(sign in said for sign in _NO_TLS):
        return FlinkRefusedError(f"{url} does not speak TLS ({said}): give it as http://, or the port that does")
    if any(sign in said for sign in _NO_COMMON_TLS):
        return FlinkRefusedError(
            f"{url} and we agree on no TLS ({said}): see which versions it allows, and whether it wants a certificate "
            "of yours (engines.flink.access.client_cert)"
        )
    return FlinkUnreachableError(f"{url} cannot be reached ({said}): check the address and that the JobManager runs")


def root_cause(stack_trace: str) -> str:
    """The innermost cause of a Java stack trace.

    >>> root_cause("java.lang.Exception: outer\\n\\tat a.b(C.java:1)\\nCaused by: x.IOException: disk full\\n\\tat")
    'x.IOException: disk full'
    """
    lines = [line.strip() for line in stack_trace.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    if causes:
        return shown(causes[-1])
    said = [line for line in lines if not line.startswith(("at ", "...", "End of exception"))]
    return shown(said[0] if said else "no reason given")


def shown(value: object) -> str:
    text = " ".join(str(value).split()) or "nothing"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"

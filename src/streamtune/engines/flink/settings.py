"""What can be set about Flink; loads no HTTP client."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_serializer

from streamtune.engines.base import MeasurementWindow
from streamtune.errors import EngineError
from streamtune.outputs import without_login
from streamtune.settings import Settings, with_default

_NOT_IN_ADDRESSES = re.compile(r"[\s\"'\x00-\x1f\x7f]")


def check_address(url: str) -> None:
    """Refuse what cannot be the address of a JobManager, before any client is loaded."""
    if not url.startswith(("http://", "https://")):
        raise EngineError(f"--url must start with http:// or https://, but got '{without_login(url)}'")
    authority = re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]
    try:
        parts = urlsplit(url)
        is_address = parts.port != 0 and bool(parts.hostname)
    except ValueError:
        is_address = False
    # The address is not quoted: what does not fit may be a part of the password.
    if url.count("@") > authority.count("@") or _NOT_IN_ADDRESSES.search(url) or not is_address:
        raise EngineError(
            "--url must be http[s]://[user:password@]host[:port][/path], with a port from 1 to 65535: percent-encode "
            "/, @, quotes and spaces in a password (%2F, %40, …)"
        )


class PressureSettings(Settings):
    """When a cluster is in no state to be judged: nothing is rescaled then."""

    max_heap_share: float | None = Field(
        default=None, gt=0, le=1, description="no rescale while a TaskManager uses more of its heap; none: off"
    )
    max_gc_share: float | None = Field(
        default=None, gt=0, le=1, description="no rescale while one spends more of its time on garbage; none: off"
    )


class RescaleSettings(Settings):
    """How a job is rescaled."""

    mode: Literal["auto", "live", "restart"] = Field(
        default="auto", description="auto is live where Flink can, else by savepoint and restart"
    )
    timeout_s: float = Field(default=120.0, gt=0, description="how long a rescale may take")
    savepoint_timeout_s: float = Field(default=300.0, gt=0, description="how long a savepoint may take")
    savepoint_folder: str | None = Field(default=None, description="where savepoints go; None: as Flink is configured")
    poll_s: float = Field(default=0.5, gt=0, description="seconds between two looks")
    max_checkpoint_age_s: float = Field(
        default=1800.0, gt=0, description="a job whose last completed checkpoint is older is not rescaled"
    )
    first_checkpoint_s: float = Field(
        default=60.0, ge=0, description="how long the first checkpoint of a young job is waited for before a rescale"
    )
    pressure: PressureSettings = Field(
        default_factory=PressureSettings, description="when the cluster is in no state to be judged"
    )
    without_checkpoint: bool = Field(
        default=False, description="rescale jobs without a recent checkpoint too: they may lose state"
    )


class AccessSettings(Settings):
    """Who we are to a cluster behind a proxy. Secrets are read from environment or files, and never shown."""

    user: str | None = Field(default=None, description="user of basic authentication")
    user_env: str = Field(default="STREAMTUNE_FLINK_USER", description="variable that holds the user instead")
    password_env: str = Field(default="STREAMTUNE_FLINK_PASSWORD", description="variable that holds the password")
    password_file: Path | None = Field(default=None, description="file that holds the password instead")
    token_env: str = Field(default="STREAMTUNE_FLINK_TOKEN", description="variable that holds a bearer token")
    token_file: Path | None = Field(default=None, description="file that holds the token instead")
    headers: dict[str, str] = Field(
        default_factory=dict, repr=False, description="further headers; a value is a text, env:NAME or file:PATH"
    )
    ca_file: Path | None = Field(default=None, description="certificates to trust, PEM; none: those of the system")
    client_cert: Path | None = Field(default=None, description="own certificate, PEM")
    client_key: Path | None = Field(default=None, description="key of the own certificate, where it is another file")

    @field_serializer("headers", when_used="json")
    def _without_secrets(self, headers: dict[str, str]) -> dict[str, str]:
        """A value may be a password: only where it is read from is shown."""
        return {name: value if value.startswith(("env:", "file:")) else "***" for name, value in headers.items()}


class FlinkSettings(Settings):
    """Where Flink is, and how patient the engine is."""

    url: str = Field(default="http://127.0.0.1:8081", description="address of the JobManager's REST endpoint")
    poll_s: float = Field(default=1.0, gt=0, description="seconds between two looks at a job that is changing")
    start_timeout_s: float = Field(default=60.0, gt=0, description="how long a job may take until it runs")
    fetch_patience_s: float = Field(
        default=25.0, gt=0, description="how long to wait for the JobManager to fetch new metrics (10 s by default)"
    )
    largest_guess: float = Field(
        default=4.0,
        ge=1,
        description="a source that is held up and reports no lag is taken to be offered at most so many times what it "
        "took",
    )
    access: AccessSettings = Field(default_factory=AccessSettings, description="who we are to the cluster")
    rescale: RescaleSettings = Field(default_factory=RescaleSettings, description="how a job is rescaled")


class CollectSettings(Settings):
    """What becomes a record of the history."""

    window_s: float = Field(default=60.0, gt=0, description="seconds that one record covers")
    settle_s: float = Field(default=60.0, ge=0, description="how long a job must have run unchanged before")
    poll_s: float = Field(default=5.0, gt=0, description="seconds between two looks at the cluster")


class FlinkWindow(MeasurementWindow):
    """When a Flink job is measured: its metrics are real some ten seconds after a start, half a minute evens out."""

    settle_s: float = with_default(MeasurementWindow, "settle_s", 20.0)
    length_s: float = with_default(MeasurementWindow, "length_s", 30.0)

"""HTML pages from templates: one environment, and files that are written completely or not at all."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from streamtune.errors import StreamTuneError
from streamtune.outputs import OutputError, write_whole

_OURS = "streamtune.reports"


@cache
def template_environment(package: str = _OURS) -> Environment:
    """The templates of a package beside ours. Escapes everything; a name that a template misspells is an error."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(name, "") for name in dict.fromkeys((package, _OURS))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


class ReportError(StreamTuneError):
    """A report that cannot be made or written."""


def write_page(path: Path, page: str) -> None:
    """Write atomically: a reader sees the old file or the new one, never half of it."""
    try:
        write_whole(path, page)
    except OutputError as error:
        raise ReportError(f"the report cannot be written: {error}") from error

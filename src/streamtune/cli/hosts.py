"""How hosts are given on the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamtune.dataflow.documents import DocumentError, read_document
from streamtune.errors import StreamTuneError

if TYPE_CHECKING:
    from streamtune.dataflow.hosts import Cluster, Host

MOST_HOSTS, MOST_CORES = 10_000, 100_000
_ENTRY = re.compile(r"([0-9]{1,9})x([A-Za-z][\w.-]*|[0-9]{1,9})", re.ASCII)
HOSTS_HELP = "4xm510 (kinds of Table II), 2x16 (cores), several with commas, or a YAML/JSON list; default: as trained."


def parse_hosts(text: str) -> Cluster:
    """``4xm510,1xc6420``, ``2x16`` for two hosts of 16 reference cores, or a file with a list of hosts.

    In a file every entry has ``cores`` and, as far as known, ``ghz``, ``memory_gb``, ``network_gbps`` and ``count``.

    >>> parse_hosts("4xm510,2x16").cores
    64
    """
    from streamtune.dataflow.hosts import Cluster

    if Path(text).suffix in {".yaml", ".yml", ".json"}:
        return Cluster.of(host for entry in _entries(Path(text)) for host in _hosts_of(entry, text))
    return Cluster.of(host for part in text.split(",") for host in _named(part.strip(), text))


def _named(part: str, text: str) -> list[Host]:
    from streamtune.dataflow.hosts import Host
    from streamtune.workloads.cloudlab import KINDS, machine

    match = _ENTRY.fullmatch(part)
    if match is None or not 1 <= int(match[1]) <= MOST_HOSTS:
        raise StreamTuneError(
            f"--hosts: expected entries such as 4xm510 or 2x16, {MOST_HOSTS:,} hosts at most, but got {text!r}"
        )
    count, kind = int(match[1]), match[2]
    if kind.isdigit() and 0 < int(kind) <= MOST_CORES:
        return [Host(cores=int(kind))] * count
    if kind not in KINDS:
        raise StreamTuneError(f"--hosts: unknown kind '{kind}': choose one of {', '.join(KINDS)}, or a number of cores")
    return [machine(kind)] * count


def _entries(path: Path) -> list[Any]:
    try:
        entries = read_document(path)
    except DocumentError as error:
        raise StreamTuneError(f"--hosts: {path} {error.problem}") from error
    if not isinstance(entries, list) or not entries:
        raise StreamTuneError(f"--hosts: {path} must be a list of hosts, but got {entries!r}")
    return entries


def _hosts_of(entry: Any, text: str) -> list[Host]:
    from pydantic import ValidationError

    from streamtune.dataflow.hosts import Host

    if not isinstance(entry, dict):
        raise StreamTuneError(f"--hosts: {text}: a host is a mapping with cores, but got {entry!r}")
    fields = dict(entry)
    count = fields.pop("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_HOSTS:
        raise StreamTuneError(
            f"--hosts: {text}: count must be a whole number from 1 to {MOST_HOSTS}, but got {count!r}"
        )
    try:
        return [Host.model_validate(fields)] * count
    except (ValidationError, TypeError) as error:
        problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise StreamTuneError(f"--hosts: {text}: {entry!r} is not a host: {problem}") from error

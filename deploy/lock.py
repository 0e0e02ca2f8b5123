"""Writes the hashes of all files of every pinned version into requirements.lock, so that pip installs nothing else.

    .venv/bin/python deploy/lock.py    # after a pin was changed

The index is asked for what it lists, on all platforms; ``pip install --require-hashes`` then takes a file only if it is
one of these. torch goes without: its CPU build comes from another index, and PyPI's brings CUDA packages of its own.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import httpx
from pip._internal.models.index import PyPI

UNHASHED = "torch"
LOCK = Path(__file__).parents[1] / "requirements.lock"


def read(text: str) -> dict[str, tuple[str, list[str]]]:
    """Name → version and hashes."""
    found = {}
    for entry in re.sub(r"\\\n\s*", " ", text).splitlines():
        pin, *hashes = entry.split(" --hash=sha256:")
        if "==" in pin:
            name, version = pin.strip().split("==")
            found[name] = (version, [one.strip() for one in hashes])
    return found


def listed(client: httpx.Client, name: str, version: str) -> list[str]:
    """The hashes of all files that the index lists for a version."""
    answer = client.get(f"{PyPI.simple_url}/{name}/")
    answer.raise_for_status()
    links = re.findall(r'href="([^"#]+)#sha256=([0-9a-f]{64})"', answer.text)
    wanted = re.compile(rf"(?i)^{re.sub('[-_.]+', '[-_.]+', name)}-{re.escape(version)}(-|\.tar\.gz$|\.zip$)")
    return [found for link, found in links if wanted.match(unquote(link.rsplit("/", 1)[-1]))]


def write(pins: dict[str, tuple[str, list[str]]]) -> str:
    entries = []
    for name, (version, hashes) in pins.items():
        entries.append(
            " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{one}" for one in sorted(set(hashes)))])
        )
    return "\n".join(entries) + "\n"


def main() -> None:
    pins = read(LOCK.read_text(encoding="utf-8"))
    with httpx.Client(timeout=60, follow_redirects=True) as client, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda one: listed(client, one[0], one[1][0]), pins.items()))
    for (name, (version, _)), hashes in zip(list(pins.items()), found, strict=True):
        if not hashes:
            raise SystemExit(f"the index lists no file of {name} {version}: check the pin")
        pins[name] = (version, [] if name == UNHASHED else hashes)
    LOCK.write_text(write(pins), encoding="utf-8")
    print(f"{len(pins)} pins, {sum(len(hashes) for _, hashes in pins.values())} hashes")


if __name__ == "__main__":
    main()

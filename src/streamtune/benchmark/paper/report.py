"""The findings as one HTML page that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from streamtune import __version__
from streamtune.benchmark.paper.findings import Finding


def write_findings(path: Path, findings: Sequence[Finding], *, title: str, command: str) -> None:
    environment = Environment(
        loader=PackageLoader("streamtune.benchmark.paper", "."), autoescape=True, undefined=StrictUndefined
    )
    made = f"streamtune {__version__}, simulator with its default measurement error unless said otherwise"
    page = environment.get_template("report.html.j2").render(findings=findings, title=title, command=command, made=made)
    partial = path.with_name(f".{path.name}.part")
    partial.write_text(page, encoding="utf-8")
    os.replace(partial, path)

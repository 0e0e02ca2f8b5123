"""The findings as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from streamtune import __version__
from streamtune.experiments.paper.findings import Finding
from streamtune.reports.pages import template_environment, write_page

SIMULATOR = "simulator with its default measurement error unless said otherwise"


def write_findings(
    path: Path, findings: Sequence[Finding], *, title: str, command: str, where: str = SIMULATOR
) -> None:
    made = f"streamtune {__version__}, {where}"
    template = template_environment("streamtune.experiments").get_template("paper/report.html.j2")
    write_page(path, template.render(findings=findings, title=title, command=command, made=made))

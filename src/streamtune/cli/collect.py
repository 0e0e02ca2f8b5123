"""``streamtune collect``: history records of everything that runs on a Flink cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamtune.cli.flink import DEFAULT_URL, UrlOption
from streamtune.cli.output import err, out


def collect(
    out_folder: Annotated[Path, typer.Option("--out", help="Folder for the records, as JSON lines.")],
    url: UrlOption = DEFAULT_URL,
    window: Annotated[float, typer.Option(help="Seconds that one record covers.", min=1)] = 60.0,
    settle: Annotated[float, typer.Option(help="Seconds a job must have run unchanged before.", min=0)] = 60.0,
    poll: Annotated[float, typer.Option(help="Seconds between two looks at the cluster.", min=0.1)] = 5.0,
    duration: Annotated[float | None, typer.Option(help="Stop after so many seconds; else on Ctrl-C.")] = None,
    limit: Annotated[int | None, typer.Option(help="Stop after so many records.", min=1)] = None,
    overrides: Annotated[Path | None, typer.Option(help="A YAML file with what Flink does not tell.")] = None,
) -> None:
    """Watch all jobs of a cluster and write history records; nothing is changed.

    Follows jobs through restarts and rescales, and waits for a JobManager that is away.

    \b
    Examples:
      streamtune collect --url http://flink.example:8081 --out records/
      streamtune collect --out records/ --window 30 --duration 3600 && streamtune history ingest my-history records/
    """
    from streamtune.dataflow.run_files import RunFiles
    from streamtune.engines.flink import FlinkClient, Overrides, load_overrides
    from streamtune.engines.flink.collecting import Collector, CollectSettings
    from streamtune.engines.flink.collecting import collect as run

    settings = CollectSettings(window_s=window, settle_s=settle, poll_s=min(poll, window))
    files = RunFiles(out_folder)
    with FlinkClient(url, retries=1) as client:
        collector = Collector(
            client,
            settings,
            overrides=load_overrides(overrides) if overrides else Overrides(),
            tell=lambda line: err.print(line, highlight=False, soft_wrap=True),
        )
        written = 0
        try:
            written = run(collector, files, settings, duration_s=duration, limit=limit)
        except KeyboardInterrupt:
            err.print("stopped")
            return
    out.print(f"{written} records in {out_folder}", highlight=False, soft_wrap=True)

"""``streamtune collect``: history records of everything that runs on a Flink cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamtune.cli.flink import UrlSetting, flink_client
from streamtune.cli.options import resolved, setting
from streamtune.cli.output import err, out
from streamtune.engines.flink.settings import CollectSettings, FlinkSettings, check_address


def collect(
    out_folder: Annotated[Path, typer.Option("--out", help="Folder for the records, as JSON lines.")],
    url: UrlSetting = None,
    window_s: Annotated[float | None, setting(CollectSettings, "window_s", "--window-s", "--window")] = None,
    settle_s: Annotated[float | None, setting(CollectSettings, "settle_s", "--settle-s", "--settle")] = None,
    poll_s: Annotated[float | None, setting(CollectSettings, "poll_s", "--poll-s", "--poll")] = None,
    duration_s: Annotated[
        float | None, typer.Option("--duration-s", "--duration", min=0, help="Stop after so long; else on Ctrl-C.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Stop after so many records.", min=1)] = None,
    overrides: Annotated[Path | None, typer.Option(help="A YAML file with what Flink does not tell.")] = None,
) -> None:
    """Watch all jobs of a cluster and write history records; nothing is changed.

    Follows jobs through restarts and rescales, and waits for a JobManager that is away.

    \b
    Examples:
      streamtune collect --url http://flink.example:8081 --out records/
      streamtune collect --out records/ --window-s 30 --duration-s 3600 && streamtune history ingest my-history records/
    """
    from streamtune.dataflow.run_files import RunFiles
    from streamtune.engines.flink.overrides import Overrides, load_overrides

    settings = resolved(CollectSettings, window_s=window_s, settle_s=settle_s, poll_s=poll_s)
    settings = settings.replace(poll_s=min(settings.poll_s, settings.window_s))
    cluster, known = resolved(FlinkSettings, url=url), load_overrides(overrides) if overrides else Overrides()
    address = cluster.url
    check_address(address)
    files = RunFiles(out_folder)
    from streamtune.engines.flink.collecting import Collector
    from streamtune.engines.flink.collecting import collect as run

    with flink_client(address, retries=1) as client:
        collector = Collector(
            client,
            settings,
            overrides=known,
            largest_guess=cluster.largest_guess,
            tell=lambda line: err.print(line, highlight=False, soft_wrap=True),
        )
        written = 0
        try:
            written = run(collector, files, settings, duration_s=duration_s, limit=limit)
        except KeyboardInterrupt:
            err.print("stopped")
            return
    out.print(f"{written} records in {out_folder}", highlight=False, soft_wrap=True)

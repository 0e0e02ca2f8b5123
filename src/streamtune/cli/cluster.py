"""``streamtune cluster``: which dataflows of a history belong together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from streamtune.cli.history import Conf, JsonOption, Location, Master, TableFormat, open_history
from streamtune.cli.options import resolved, setting
from streamtune.cli.output import err, out, print_json
from streamtune.errors import StreamTuneError
from streamtune.sealed import check_target
from streamtune.similarity.settings import Init, KMeansSettings

if TYPE_CHECKING:
    from streamtune.history.cluster import ClusteringSummary


def cluster(
    history: Location,
    folder: Annotated[Path, typer.Option("--out", help="Folder for the result; an older clustering is replaced.")],
    k: Annotated[int | None, typer.Option(min=1, help="Number of clusters; default: by the elbow method.")] = None,
    tau: Annotated[int | None, setting(KMeansSettings, "tau")] = None,
    init: Annotated[Init | None, setting(KMeansSettings, "init")] = None,
    seed: Annotated[int | None, setting(KMeansSettings, "seed")] = None,
    restarts: Annotated[int | None, setting(KMeansSettings, "restarts")] = None,
    max_k: Annotated[int | None, setting(KMeansSettings, "max_k")] = None,
    exact_shapes: Annotated[int | None, setting(KMeansSettings, "exact_shapes")] = None,
    sample_shapes: Annotated[int | None, setting(KMeansSettings, "sample_shapes")] = None,
    refinements: Annotated[int | None, setting(KMeansSettings, "refinements")] = None,
    most_shapes: Annotated[
        int | None,
        typer.Option(min=1, help="Cluster only so many shapes, those that most runs have; default: all."),
    ] = None,
    spark_master: Master = None,
    spark_conf: Conf = None,
    table_format: TableFormat = None,
    as_json: JsonOption = False,
) -> None:
    """Cluster the dataflows of a history by graph edit distance, and draw the clusters.

    Writes clusters.json, assignment.parquet, elbow.png and clusters.png. Runs of the same shape count as one data
    point with a weight; the same history, options and seed always give the same clusters.

    \b
    Examples:
      streamtune cluster my-history --out clusters
      streamtune cluster my-history --out clusters --k 6 --tau 5 --init random
      streamtune cluster my-history --out clusters --most-shapes 10000
    """
    if k is not None and max_k is not None:
        raise StreamTuneError(f"--max-k is for the elbow method, but got --k {k} too: leave one out")
    settings = resolved(
        KMeansSettings,
        tau=tau,
        init=init,
        seed=seed,
        restarts=restarts,
        max_k=max_k,
        exact_shapes=exact_shapes,
        sample_shapes=sample_shapes,
        refinements=refinements,
    )
    check_target(folder, "clustering", "clusters.json")
    with open_history(history, spark_master, spark_conf, table_format) as opened:
        from streamtune.history.cluster import cluster as run_cluster
        from streamtune.reports.cluster_pictures import draw_pictures

        with err.status("clustering …") as status:
            summary = run_cluster(
                opened,
                folder,
                k=k,
                settings=settings,
                draw=draw_pictures,
                most_shapes=most_shapes,
                progress=lambda message: status.update(f"{message} …"),
            )
    if as_json:
        print_json(summary.model_dump(mode="json"))
        return
    _print(summary)
    out.print(f"clusters: {folder}", highlight=False, soft_wrap=True)


def _print(summary: ClusteringSummary) -> None:
    table = Table(title=f"{summary.k} clusters of {summary.shapes:,} shapes, {summary.runs:,} runs")
    table.add_column("cluster", justify="right")
    for heading in ("runs", "shapes", "mean distance", "largest distance"):
        table.add_column(heading, justify="right")
    table.add_column("centre")
    for each in summary.clusters:
        table.add_row(
            str(each.cluster),
            f"{each.runs:,}",
            f"{each.shapes:,}",
            f"{each.mean_distance:.1f}",
            str(each.max_distance),
            f"{len(each.types)} operators, {len(each.edges)} edges",
        )
    out.print(table)
    if summary.sampled is not None:
        out.print(
            f"k and the first centres come from a sample of {summary.sampled:,} shapes; all shapes then moved "
            f"the centres {summary.iterations} time{'s' * (summary.iterations != 1)}",
            soft_wrap=True,
        )
    known = summary.distances
    if known.unproven:
        err.print(
            f"{known.unproven:,} of {known.pairs:,} distances, {known.unproven_to_centre:,} of them of a shape to "
            "its own centre, could not be proven and may be smaller than assumed",
            style="yellow",
        )

"""``streamtune pretrain`` and ``streamtune model show``: make a model from a history, and look at one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from streamtune.cli.history import Conf, JsonOption, Location, Master, TableFormat, check_clustering, open_history
from streamtune.cli.options import changed, resolved, setting
from streamtune.cli.output import err, out, print_json, styled
from streamtune.cli.signing import key, sign, verify
from streamtune.errors import StreamTuneError
from streamtune.models.encoder.settings import TrainingSettings
from streamtune.outputs import check_picture
from streamtune.sealed import check_target
from streamtune.training.settings import PretrainSettings

if TYPE_CHECKING:
    from streamtune.models.bundle import Manifest

app = typer.Typer(name="model", help="Look at trained models, sign them.", no_args_is_help=True, rich_markup_mode=None)
for _command in (key, sign, verify):
    app.command()(_command)


def pretrain(
    location: Location,
    model: Annotated[Path, typer.Option("--out", help="Folder of the model bundle to write.")],
    clusters: Annotated[
        Path | None, typer.Option(help="Folder that 'streamtune cluster' wrote; without it, one global encoder.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="Engine whose runs to learn from, if there are several.")] = None,
    seed: Annotated[int | None, setting(TrainingSettings, "seed", help="Of weights, order and dropout.")] = None,
    epochs: Annotated[int | None, setting(TrainingSettings, "epochs")] = None,
    min_cluster_runs: Annotated[int | None, setting(PretrainSettings, "min_cluster_runs")] = None,
    spark_master: Master = None,
    spark_conf: Conf = None,
    table_format: TableFormat = None,
    as_json: JsonOption = False,
) -> None:
    """Train encoders on a history that was labelled and featurised: one per cluster, and a global one.

    \b
    Examples:
      streamtune pretrain my-history --out model
      streamtune cluster my-history --out clusters && streamtune pretrain my-history --clusters clusters --out model
    """
    if min_cluster_runs is not None and clusters is None:
        raise StreamTuneError(f"--min-cluster-runs needs --clusters, but got {min_cluster_runs} alone: leave it out")
    settings = resolved(PretrainSettings, min_cluster_runs=min_cluster_runs)
    settings = settings.replace(training=changed(settings.training, seed=seed, epochs=epochs))
    check_target(model, "model bundle")
    if clusters is not None:
        check_clustering(clusters)
    with open_history(location, spark_master, spark_conf, table_format) as history:
        from streamtune.history.cluster import assignment, centres
        from streamtune.training.pretrain import Clustering
        from streamtune.training.pretrain import pretrain as run_pretrain

        clustering = Clustering(assignment(history, clusters), centres(clusters)) if clusters else None
        manifest = run_pretrain(
            history,
            model,
            clustering=clustering,
            engine=engine,
            settings=settings,
            progress=lambda name, message: err.print(f"{name}: {message}", style="dim", highlight=False),
        )
    if as_json:
        print_json({"model": str(model), **manifest.model_dump(mode="json", exclude={"checksums"})})
        return
    _print(manifest)
    out.print(f"model: {model}", highlight=False, soft_wrap=True)


@app.command()
def show(
    model: Annotated[Path, typer.Argument(help="Folder of a model bundle.")],
    plot: Annotated[
        Path | None, typer.Option(help="Draw the clusters' centres and scores to this file (PNG or SVG).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the encoders of a model: clusters, sizes, scores on jobs they never saw. Checks every file first.

    \b
    Examples:
      streamtune model show model
      streamtune model show model --plot model.png
    """
    from streamtune.models.names import check_model

    check_model(model)
    if plot is not None:
        check_picture(plot)
    from streamtune.models.bundle import ModelBundle

    bundle = ModelBundle.load(model)
    if plot is not None:
        from streamtune.reports.model_picture import draw_model

        draw_model(bundle, plot)
    if as_json:
        print_json(bundle.manifest.model_dump(mode="json"))
        return
    _print(bundle.manifest)
    if plot is not None:
        out.print(f"picture: {plot}", highlight=False, soft_wrap=True)


def _print(manifest: Manifest) -> None:
    data = manifest.data
    table = Table(title=f"model of {data['runs']:,} runs of {data['jobs']:,} jobs on {manifest.engine}")
    table.add_column("encoder")
    for heading in ("runs", "jobs", "epochs", "AUC-PR", "F1", "calibration", "test runs", "seconds"):
        table.add_column(heading, justify="right")
    for member in manifest.members:
        metrics = member.metrics
        table.add_row(
            member.name,
            f"{member.runs:,}",
            f"{member.jobs:,}",
            _figure(metrics.get("epochs"), 0),
            _figure(metrics.get("auc_pr")),
            _figure(metrics.get("f1")),
            _figure(metrics.get("calibration_error")),
            _figure(metrics.get("test_runs"), 0),
            f"{member.seconds:.0f}",
        )
    out.print(table)
    for name, problem in manifest.failed.items():
        out.print(styled((f"{name} failed:", "red"), f" {problem}"), highlight=False, soft_wrap=True)


def _figure(value: Any, digits: int = 3) -> str:
    return "–" if value is None or value != value else f"{value:,.{digits}f}"

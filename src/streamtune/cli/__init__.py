"""The command line. Commands import what they need when they run, so that ``--help`` stays fast."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from streamtune import __version__
from streamtune.cli import costmodel, flink, history, model, workloads
from streamtune.cli.advise import advise
from streamtune.cli.bench import bench
from streamtune.cli.cluster import cluster
from streamtune.cli.collect import collect
from streamtune.cli.compare import compare
from streamtune.cli.demo import demo
from streamtune.cli.distance import distance
from streamtune.cli.model import pretrain
from streamtune.cli.output import err
from streamtune.cli.predict import predict
from streamtune.cli.recommend import recommend
from streamtune.cli.simulate import oracle, simulate
from streamtune.cli.tune import tune
from streamtune.cli.validate import validate
from streamtune.errors import StreamTuneError

app = typer.Typer(
    name="streamtune",
    help="Tunes the parallelism of streaming jobs, operator by operator, by learning from the past.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    validate,
    simulate,
    oracle,
    tune,
    recommend,
    compare,
    demo,
    distance,
    cluster,
    pretrain,
    collect,
    predict,
    advise,
    bench,
):
    app.command()(command)
for group in (workloads, history, flink, model, costmodel):
    app.add_typer(group.app)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(f"streamtune {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line: what a user can mend ends in one line on stderr and exit code 2."""
    try:
        app()
    except StreamTuneError as error:
        err.print(f"[red]error:[/] {error}", highlight=False, soft_wrap=True)
        sys.exit(2)

"""The command line. Commands import what they need when they run, so that ``--help`` stays fast."""

from __future__ import annotations

import io
import sys
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from streamtune import __version__
from streamtune.cli import autoconfig, config, costmodel, flink, history, model, provision, sundog, token, workloads
from streamtune.cli.advise import advise
from streamtune.cli.bench import bench
from streamtune.cli.cluster import cluster
from streamtune.cli.collect import collect
from streamtune.cli.compare import compare
from streamtune.cli.demo import demo
from streamtune.cli.distance import distance
from streamtune.cli.learn import learn
from streamtune.cli.model import pretrain
from streamtune.cli.net import caught
from streamtune.cli.numbers import refuse_odd_numbers
from streamtune.cli.options import use_config
from streamtune.cli.panels import GroupedByQuestion
from streamtune.cli.place import place
from streamtune.cli.plan import plan
from streamtune.cli.predict import predict
from streamtune.cli.recommend import recommend
from streamtune.cli.serve import serve
from streamtune.cli.simulate import oracle, simulate
from streamtune.cli.tune import tune
from streamtune.cli.validate import validate
from streamtune.errors import StreamTuneError

app = typer.Typer(
    name="streamtune",
    help="Tunes the parallelism of streaming jobs, operator by operator, by learning from the past.",
    cls=GroupedByQuestion,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# The questions that StreamTune answers about a job, and what stands around them: a new command says which it serves.
QUESTIONS: dict[str, tuple[Any, ...]] = {
    "How many instances": (tune, recommend, compare),
    "Before it runs, and ahead of the rate": (plan, predict, advise),
    "How big each instance is": (provision.app,),
    "Where instances run": (place,),
    "With which settings": (autoconfig.app,),
    "For a whole fleet, all the time": (serve, learn, token.app),
    "What it learns from": (history.app, cluster, pretrain, model.app, costmodel.app, collect, distance),
    "The reference application on Spark": (sundog.app,),
    "Try it": (demo, simulate, oracle, workloads.app, validate, flink.app),
    "Reproduce the papers": (bench,),
    "Settings": (config.app,),
}
GroupedByQuestion.questions = tuple(QUESTIONS)
for question, commands in QUESTIONS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=question)
        else:
            app.command(rich_help_panel=question)(command)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    config_file: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="Settings; default: $STREAMTUNE_CONFIG, else streamtune.yaml, if there."
        ),
    ] = None,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    use_config(context, config_file)
    if version:
        print(f"streamtune {__version__}")
        raise typer.Exit


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code: 0, 1, 2 or 130 (``cli.net`` says which is what)."""
    return caught(lambda: _run(arguments), arguments)


def _run(arguments: list[str]) -> Any:
    for word in arguments:
        if "\0" in word:  # a shell cannot pass one on, a program that calls this can; no path or name may have it
            raise StreamTuneError(f"an argument must not have a zero byte, but got {word!r}: leave it out")
    return _command()(arguments, prog_name="streamtune", standalone_mode=False)


@cache
def _command() -> Any:
    """The app as typer runs it; made once, since it is made of some hundred options."""
    return refuse_odd_numbers(typer.main.get_command(app))


def main() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a character shows its number
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))

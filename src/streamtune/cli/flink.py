"""``streamtune flink``: a local cluster, jobs on it, and a look at the jobs of any cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from streamtune.cli.output import err, out, print_json
from streamtune.cli.simulate import JobArgument, JsonOption, RateOption

if TYPE_CHECKING:
    from streamtune.labs.flink import LocalCluster

app = typer.Typer(name="flink", help="A local Flink cluster, and jobs on it.", no_args_is_help=True)

PortOption = Annotated[int, typer.Option(help="Port of the cluster's REST interface.", min=1, max=65535)]
UrlOption = Annotated[str, typer.Option(help="Address of Flink's REST interface.")]
DEFAULT_URL = "http://127.0.0.1:8081"


def state_folder() -> Path:
    """Where local clusters keep their configuration, logs and checkpoints."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "streamtune" / "flink"


def _cluster(port: int) -> LocalCluster:
    from streamtune.labs.flink import ClusterSettings, LocalCluster

    return LocalCluster(state_folder() / str(port), ClusterSettings(port=port))


@app.command()
def up(
    port: PortOption = 8081,
    slots: Annotated[int, typer.Option(help="Task slots of each TaskManager.", min=1)] = 40,
    task_managers: Annotated[int, typer.Option(help="How many TaskManagers.", min=1)] = 1,
    heap: Annotated[int, typer.Option(help="Heap of each TaskManager for jobs, MB.", min=64)] = 512,
    network: Annotated[int, typer.Option(help="Network buffers of each TaskManager, MB.", min=16)] = 128,
    scheduler: Annotated[str, typer.Option(help="adaptive (rescales live) or default.")] = "adaptive",
    flink_home: Annotated[Path | None, typer.Option(help="A Flink other than the installed pip package.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a local cluster; it runs until 'streamtune flink down'.

    \b
    Examples:
      streamtune flink up
      streamtune flink up --port 8090 --slots 100 --heap 1024
    """
    from pydantic import ValidationError

    from streamtune.errors import StreamTuneError
    from streamtune.labs.flink import ClusterSettings, FlinkDistribution, LocalCluster

    try:
        settings = ClusterSettings.model_validate(
            {
                "port": port,
                "slots": slots,
                "task_managers": task_managers,
                "task_heap_mb": heap,
                "network_mb": network,
                "scheduler": scheduler,
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise StreamTuneError(f"--{first['loc'][0]}: {first['msg']}, but got {first['input']!r}") from error
    cluster = LocalCluster(state_folder() / str(port), settings, FlinkDistribution.find(flink_home))
    err.print(f"starting Flink {cluster.distribution.version} …", highlight=False)
    cluster.up()
    found = {"url": cluster.url, "version": cluster.distribution.version, "slots": slots * task_managers}
    if as_json:
        print_json({**found, "folder": str(cluster.folder)})
        return
    out.print(f"{cluster.url} is up: Flink {found['version']}, {found['slots']} slots", highlight=False)
    out.print(f"logs: {cluster.folder / 'logs'}", highlight=False, soft_wrap=True)


@app.command()
def down(port: PortOption = 8081, as_json: JsonOption = False) -> None:
    """Stop the local cluster and all its jobs.

    \b
    Example:
      streamtune flink down --port 8090
    """
    stopped = _cluster(port).down()
    if as_json:
        print_json({"stopped": stopped})
    else:
        out.print(f"stopped {', '.join(stopped)}" if stopped else f"no cluster of ours runs on port {port}")


@app.command()
def status(
    port: PortOption = 8081,
    url: Annotated[str | None, typer.Option(help="Any cluster.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a cluster and its jobs. Exit code 1 if it does not answer.

    \b
    Examples:
      streamtune flink status
      streamtune flink status --url http://flink.example:8081 --json
    """
    from streamtune.engines.flink import FlinkClient
    from streamtune.engines.flink.client import FlinkUnreachableError

    address = url or f"http://127.0.0.1:{port}"
    try:
        with FlinkClient(address, retries=1) as client:
            overview, jobs = client.overview(), client.jobs()
    except FlinkUnreachableError as error:
        if as_json:
            print_json({"url": address, "up": False, "error": str(error)})
        else:
            out.print(f"{address} does not answer", highlight=False)
        raise typer.Exit(1) from error
    if as_json:
        print_json(
            {
                "url": address,
                "up": True,
                "version": overview.version,
                "slots": overview.slots_total,
                "slots_free": overview.slots_available,
                "jobs": [{"id": job.id, "name": job.name, "state": job.state} for job in jobs],
            }
        )
        return
    out.print(
        f"{address}: Flink {overview.version}, {overview.slots_available} of {overview.slots_total} slots free",
        highlight=False,
    )
    table = Table("job", "name", "state")
    for job in jobs:
        table.add_row(job.id, job.name, job.state)
    out.print(table)


@app.command()
def submit(
    job: JobArgument,
    url: UrlOption = DEFAULT_URL,
    plan: Annotated[str | None, typer.Option(help="Parallelism: one number, operator=number,…, or a file.")] = None,
    rate: RateOption = None,
    max_rate: Annotated[
        float | None,
        typer.Option(help="Scale the spec down so that no operator gets more records/s at ten times its rates."),
    ] = None,
    checkpoint: Annotated[float, typer.Option(help="Seconds between checkpoints.", min=0.1)] = 5.0,
    key_groups: Annotated[int, typer.Option(help="Flink's maximum parallelism.", min=1, max=32768)] = 2048,
    flink_home: Annotated[Path | None, typer.Option(help="A Flink other than the installed pip package.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a job spec with physics as a real Flink job, or a SQL script.

    Service times are emulated by waiting, so that a small machine can run many instances.

    \b
    Examples:
      streamtune flink submit nexmark-q2 --max-rate 2000
      streamtune flink submit job.yaml --plan join=4,filter=2 --rate 2x
      streamtune flink submit query.sql
    """
    from streamtune.cli.arguments import find_job, parse_plan, parse_rates
    from streamtune.engines.flink import FlinkClient, FlinkEngine
    from streamtune.errors import StreamTuneError
    from streamtune.labs.flink import FlinkDistribution, Submitter, WorkloadSettings
    from streamtune.labs.flink.scaling import scale_spec

    settings = WorkloadSettings(key_groups=key_groups, checkpoint_s=checkpoint)
    distribution = FlinkDistribution.find(flink_home)
    with FlinkClient(url) as client:
        if job.endswith(".sql"):
            try:
                script = Path(job).read_text(encoding="utf-8")
            except OSError as error:
                raise StreamTuneError(f"{job} cannot be read: {error.strerror}. Check the path") from error
            program = Submitter(client, folder=state_folder() / "rates", distribution=distribution).sql_program(script)
            job_id = client.run_jar(program.jar_id, entry_class=program.entry_class, arguments=program.arguments)
            name = Path(job).stem
        else:
            spec = find_job(job)
            if max_rate is not None:
                peak = {source: 10 * nominal for source, nominal in spec.job.source_rates.items()}
                spec = scale_spec(spec, peak, max_rate_per_s=max_rate)
            spec = spec.with_rates(parse_rates(rate, spec.job))
            submitter = Submitter(
                client, spec, folder=state_folder() / "rates", distribution=distribution, settings=settings
            )
            deployment = FlinkEngine(client, submitter=submitter).deploy(spec.job, parse_plan(plan, spec.job))
            job_id, name = deployment.id, spec.job.name
    if as_json:
        print_json({"job_id": job_id, "name": name, "url": url})
    else:
        out.print(f"job {job_id} ({name}) runs at {url}", highlight=False, soft_wrap=True)


@app.command()
def rates(
    rate: Annotated[str, typer.Argument(help="10x of the nominal rates, one number for all, or source=rate,…")],
    job: Annotated[str | None, typer.Option(help="Id or name of the job; may be left out if only one runs.")] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Change what the sources of a submitted job offer, while it runs.

    \b
    Examples:
      streamtune flink rates 5x
      streamtune flink rates bids=1500 --job nexmark-q2
    """
    from streamtune.cli.arguments import parse_rates
    from streamtune.engines.flink import FlinkClient, FlinkEngine

    with FlinkClient(url) as client:
        engine = FlinkEngine(client)
        deployment = engine.attach(job)
        wanted = parse_rates(rate, engine.published_job(deployment))
        engine.set_source_rates(deployment, wanted)
    out.print(", ".join(f"{source} {value:,.0f} records/s" for source, value in wanted.items()), highlight=False)


@app.command()
def plan(
    job: Annotated[str | None, typer.Option(help="Id or name of the job; may be left out if only one runs.")] = None,
    url: UrlOption = DEFAULT_URL,
    overrides: Annotated[Path | None, typer.Option(help="A YAML file with what Flink does not tell.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show how a running job is understood: operators, types, windows, parallelism.

    What is unknown or wrong can be said in an overrides file, by these ids.

    \b
    Examples:
      streamtune flink plan
      streamtune flink plan --job 5f3c… --overrides known.yaml --json
    """
    from streamtune.dataflow.spec import JobSpec
    from streamtune.engines.flink import FlinkClient, FlinkEngine, Overrides, load_overrides

    with FlinkClient(url) as client:
        engine = FlinkEngine(client, overrides=load_overrides(overrides) if overrides else Overrides())
        deployment = engine.attach(job)
    if as_json:
        print_json({"job_id": deployment.id, "plan": dict(deployment.plan), **JobSpec(deployment.job).to_mapping()})
        return
    table = Table(
        "operator",
        "type",
        "inputs",
        "window",
        "aggregate",
        "p",
        title=f"{deployment.job.name} ({deployment.id}), at most {deployment.job.max_parallelism}",
    )
    for operator in deployment.job.dataflow.operators:
        window, aggregate = operator.window, operator.aggregate
        table.add_row(
            operator.id,
            operator.type,
            ", ".join(deployment.job.dataflow.predecessors(operator.id)),
            "" if window is None else f"{window.type} {window.length:g}{f'/{window.slide:g}' if window.slide else ''}",
            "" if aggregate is None else aggregate.function,
            str(deployment.plan[operator.id]),
        )
    out.print(table)

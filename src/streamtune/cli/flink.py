"""``streamtune flink``: a local cluster, jobs on it, and a look at the jobs of any cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from streamtune.cli.arguments import is_there
from streamtune.cli.net import state_folder as user_state_folder
from streamtune.cli.options import current_config, resolved, setting
from streamtune.cli.output import err, operator_table, out, print_json, styled
from streamtune.cli.simulate import JobArgument, JsonOption, RateOption
from streamtune.dataflow.documents import DocumentError, read_text
from streamtune.engines.flink.settings import FlinkSettings, check_address
from streamtune.errors import StreamTuneError
from streamtune.labs.flink.settings import ClusterSettings, Scheduler, WorkloadSettings

if TYPE_CHECKING:
    from streamtune.engines.flink import FlinkClient
    from streamtune.engines.flink.journal import Journal
    from streamtune.engines.flink.preflight import Finding, Preflight
    from streamtune.labs.flink import LocalCluster
    from streamtune.labs.flink.distribution import FlinkDistribution

app = typer.Typer(
    name="flink", help="A local Flink cluster, and jobs on it.", no_args_is_help=True, rich_markup_mode=None
)

PortOption = Annotated[int | None, setting(ClusterSettings, "port", help="Port of the local cluster.")]
UrlSetting = Annotated[str | None, setting(FlinkSettings, "url")]


def state_folder() -> Path:
    """Where local clusters keep their configuration, logs and checkpoints."""
    return user_state_folder() / "flink"


def _cluster(port: int | None) -> LocalCluster:
    from streamtune.labs.flink import LocalCluster

    settings = resolved(ClusterSettings, port=port)
    return LocalCluster(state_folder() / str(settings.port), settings)


def flink_url(given: str | None) -> str:
    """Where Flink is: as given, else by the config file, where the port of the local cluster alone will do."""
    config = current_config()
    if given is None and config.gives(ClusterSettings, "port") and not config.gives(FlinkSettings, "url"):
        return f"http://127.0.0.1:{config.settings(ClusterSettings).port}"
    url = resolved(FlinkSettings, url=given).url
    check_address(url)
    return url


def flink_client(url: str, **options: Any) -> FlinkClient:
    """A client that knows who we are, as the config file and the environment say."""
    check_address(url)
    from streamtune.engines.flink import FlinkClient
    from streamtune.engines.flink.access import Access

    return FlinkClient(url, access=Access.of(resolved(FlinkSettings).access), **options)


@app.command()
def up(
    port: PortOption = None,
    slots: Annotated[int | None, setting(ClusterSettings, "slots")] = None,
    task_managers: Annotated[int | None, setting(ClusterSettings, "task_managers")] = None,
    heap_mb: Annotated[int | None, setting(ClusterSettings, "task_heap_mb", "--heap-mb", "--heap")] = None,
    network_mb: Annotated[int | None, setting(ClusterSettings, "network_mb", "--network-mb", "--network")] = None,
    scheduler: Annotated[Scheduler | None, setting(ClusterSettings, "scheduler")] = None,
    flink_home: Annotated[Path | None, typer.Option(help="A Flink other than the installed pip package.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a local cluster; it runs until 'streamtune flink down'.

    \b
    Examples:
      streamtune flink up
      streamtune flink up --port 8090 --slots 100 --heap-mb 1024
    """
    settings = resolved(
        ClusterSettings,
        port=port,
        slots=slots,
        task_managers=task_managers,
        task_heap_mb=heap_mb,
        network_mb=network_mb,
        scheduler=scheduler,
    )
    from streamtune.labs.flink.distribution import FlinkDistribution

    distribution = FlinkDistribution.find(flink_home)
    from streamtune.labs.flink import LocalCluster

    cluster = LocalCluster(state_folder() / str(settings.port), settings, distribution)
    err.print(f"starting Flink {cluster.distribution.version} …", highlight=False)
    cluster.up()
    found = {
        "url": cluster.url,
        "version": cluster.distribution.version,
        "slots": settings.slots * settings.task_managers,
    }
    if as_json:
        print_json({**found, "folder": str(cluster.folder)})
        return
    out.print(f"{cluster.url} is up: Flink {found['version']}, {found['slots']} slots", highlight=False)
    out.print(f"logs: {cluster.folder / 'logs'}", highlight=False, soft_wrap=True)


@app.command()
def down(port: PortOption = None, as_json: JsonOption = False) -> None:
    """Stop the local cluster and all its jobs.

    \b
    Example:
      streamtune flink down --port 8090
    """
    cluster = _cluster(port)
    stopped = cluster.down()
    if as_json:
        print_json({"stopped": stopped})
    else:
        out.print(
            f"stopped {', '.join(stopped)}" if stopped else f"no cluster started by StreamTune runs at {cluster.url}"
        )


@app.command()
def status(
    port: PortOption = None,
    url: Annotated[str | None, typer.Option(help="Any cluster, by its address.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a cluster and its jobs. Exit code 1 if it does not answer.

    \b
    Examples:
      streamtune flink status
      streamtune flink status --url http://flink.example:8081 --json
    """
    if port is not None and url is not None:
        raise StreamTuneError(f"--port is a local cluster's, but got --url {url} too: leave one out")
    address = flink_url(url) if port is None else f"http://127.0.0.1:{port}"
    from streamtune.engines.flink.client import FlinkUnreachableError

    try:
        with flink_client(address, retries=1) as client:
            overview, jobs = client.overview(), client.jobs()
    except FlinkUnreachableError as error:
        if as_json:
            print_json({"url": address, "up": False, "error": str(error)})
        else:
            out.print(f"{address} does not answer: {error}", highlight=False, soft_wrap=True)
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
    table = Table("job", "state")
    table.add_column("name", overflow="fold", min_width=10)
    for job in jobs:
        table.add_row(job.id, job.state, job.name)
    out.print(table)


@app.command()
def submit(
    job: JobArgument,
    url: UrlSetting = None,
    plan: Annotated[str | None, typer.Option(help="Parallelism: one number, operator=number,…, or a file.")] = None,
    rate: RateOption = None,
    max_rate: Annotated[
        float | None,
        typer.Option(
            "--max-rate-per-s",
            "--max-rate",
            min=0,
            help="Scale the spec down so that no operator gets more records/s at ten times its rates.",
        ),
    ] = None,
    checkpoint_s: Annotated[
        float | None, setting(WorkloadSettings, "checkpoint_s", "--checkpoint-s", "--checkpoint")
    ] = None,
    key_groups: Annotated[int | None, setting(WorkloadSettings, "key_groups")] = None,
    flink_home: Annotated[Path | None, typer.Option(help="A Flink other than the installed pip package.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a job spec with physics as a real Flink job, or a SQL script.

    Service times are emulated by waiting, so that a small machine can run many instances.

    \b
    Examples:
      streamtune flink submit nexmark-q2 --max-rate-per-s 2000
      streamtune flink submit job.yaml --plan join=4,filter=2 --rate 2x
      streamtune flink submit query.sql
    """
    from streamtune.labs.flink.distribution import FlinkDistribution

    settings, address = resolved(WorkloadSettings, key_groups=key_groups, checkpoint_s=checkpoint_s), flink_url(url)
    distribution = FlinkDistribution.find(flink_home)
    if job.endswith(".sql"):
        _refuse_for_sql(plan=plan, rate=rate, max_rate_per_s=max_rate, key_groups=key_groups)
        job_id, name = _submit_sql(Path(job), address, distribution, settings)
    else:
        job_id, name = _submit_spec(job, plan, rate, max_rate, address, distribution, settings)
    if as_json:
        print_json({"job_id": job_id, "name": name, "url": address})
    else:
        out.print(f"job {job_id} ({name}) runs at {address}", highlight=False, soft_wrap=True)


def _submit_sql(file: Path, url: str, distribution: FlinkDistribution, settings: WorkloadSettings) -> tuple[str, str]:
    try:
        script = read_text(file)
    except DocumentError as error:
        raise StreamTuneError(f"{file} {error.problem}") from error
    from streamtune.labs.flink import Submitter

    with flink_client(url) as client:
        submitter = Submitter(client, folder=state_folder() / "rates", distribution=distribution, settings=settings)
        program = submitter.sql_program(script, file.stem)
        job_id = client.run_jar(program.jar_id, entry_class=program.entry_class, arguments=program.arguments)
        name = next((one.name for one in client.jobs() if one.id == job_id), file.stem)
    return job_id, name


def _submit_spec(
    job: str,
    plan: str | None,
    rate: str | None,
    max_rate: float | None,
    url: str,
    distribution: FlinkDistribution,
    settings: WorkloadSettings,
) -> tuple[str, str]:
    from streamtune.cli.arguments import find_job, parse_plan, parse_rates
    from streamtune.labs.flink.scaling import scale_spec

    spec = find_job(job)
    if max_rate is not None:
        peak = {source: 10 * nominal for source, nominal in spec.job.source_rates.items()}
        spec = scale_spec(spec, peak, max_rate_per_s=max_rate)
    spec = spec.with_rates(parse_rates(rate, spec.job))
    chosen = parse_plan(plan, spec.job)
    from streamtune.engines.flink import FlinkEngine
    from streamtune.labs.flink import Submitter

    with flink_client(url) as client:
        submitter = Submitter(
            client, spec, folder=state_folder() / "rates", distribution=distribution, settings=settings
        )
        engine = FlinkEngine(client, submitter=submitter, settings=resolved(FlinkSettings))
        return engine.deploy(spec.job, chosen).id, spec.job.name


def _refuse_for_sql(**options: object) -> None:
    """What only emulated jobs have."""
    for name, value in options.items():
        if value is not None:
            raise StreamTuneError(
                f"--{name.replace('_', '-')} has no effect on a SQL script, but got {value}: leave it out, "
                "or set it in the script"
            )


@app.command()
def rates(
    rate: Annotated[str, typer.Argument(help="10x of the nominal rates, one number for all, or source=rate,…")],
    job: Annotated[str | None, typer.Option(help="Id or name of the job; may be left out if only one runs.")] = None,
    url: UrlSetting = None,
) -> None:
    """Change what the sources of a submitted job offer, while it runs.

    \b
    Examples:
      streamtune flink rates 5x
      streamtune flink rates bids=1500 --job nexmark-q2
    """
    from streamtune.cli.arguments import check_rates_text, parse_rates

    check_rates_text(rate, "RATE")
    address = flink_url(url)
    from streamtune.engines.flink import FlinkEngine

    with flink_client(address) as client:
        engine = FlinkEngine(client)
        deployment = engine.attach(job)
        wanted = parse_rates(rate, engine.published_job(deployment))
        engine.set_source_rates(deployment, wanted)
    out.print(", ".join(f"{source} {value:,.0f} records/s" for source, value in wanted.items()), highlight=False)


@app.command()
def plan(
    job: Annotated[str | None, typer.Option(help="Id or name of the job; may be left out if only one runs.")] = None,
    url: UrlSetting = None,
    overrides: Annotated[Path | None, typer.Option(help="A YAML file with what Flink does not tell.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show how a running job is understood: operators, types, windows, parallelism.

    What is unknown or wrong can be said in an overrides file, by these ids.

    \b
    Examples:
      streamtune flink plan
      streamtune flink plan --job my-job --overrides known.yaml --json
    """
    from streamtune.dataflow.spec import JobSpec
    from streamtune.engines.flink.overrides import Overrides, load_overrides

    address, known = flink_url(url), load_overrides(overrides) if overrides else Overrides()
    from streamtune.engines.flink import FlinkEngine

    with flink_client(address) as client:
        engine = FlinkEngine(client, overrides=known)
        deployment = engine.attach(job)
        read_from = dict(engine.imported(deployment).read_from)
        slots = engine.slots_in_reach(deployment)
    if as_json:
        print_json(
            {
                "job_id": deployment.id,
                "plan": dict(deployment.plan),
                "read_from": read_from,
                "slots_in_reach": slots,
                **JobSpec(deployment.job).to_mapping(),
            }
        )
        return
    title = f"{deployment.job.name} ({deployment.id})"
    table = operator_table(title, "type", "inputs", "window", "aggregate", "p", "at most", "read from")
    for operator in deployment.job.dataflow.operators:
        window, aggregate = operator.window, operator.aggregate
        table.add_row(
            operator.id,
            operator.type,
            ", ".join(deployment.job.dataflow.predecessors(operator.id)),
            "" if window is None else f"{window.type} {window.length:g}{f'/{window.slide:g}' if window.slide else ''}",
            "" if aggregate is None else aggregate.function,
            str(deployment.plan[operator.id]),
            str(deployment.job.limit_of(operator.id)),
            read_from.get(operator.id, ""),
        )
    out.print(table)
    highest = max(deployment.job.limit_of(key) for key in deployment.plan)
    if slots < highest:
        out.print(f"slots are in reach for {slots} instances of an operator now", highlight=False)


@app.command()
def resume(
    url: UrlSetting = None,
    forget: Annotated[
        str | None,
        typer.Option(help="Id or name of a job that was started by hand, or is not wanted: drop what was noted of it."),
    ] = None,
) -> None:
    """Finish rescales that were interrupted between the stop and the new start of a job.

    What a stop-and-restart rescale is about to do is written down before it is done. A stop under way is waited for, a
    job that is alive is left alone, and so is a rescale that another process is in the middle of; a job that is down is
    started from the savepoint that it was stopped with.

    \b
    Examples:
      streamtune flink resume --url http://flink.example:8081
      streamtune flink resume --forget my-job
    """
    address = flink_url(url)
    from streamtune.engines.flink.resuming import resume_all

    with flink_client(address) as client:
        journal = rescale_journal()
        if forget is not None:
            _forget(journal, client.url, forget)
            return
        if not journal.entries(client.url):
            out.print("no rescale was interrupted", highlight=False)
            return
        settings = resolved(FlinkSettings, url=address).rescale
        if resume_all(client, journal, _say, settings=settings):
            raise typer.Exit(1)


def _say(line: str) -> None:
    out.print(line, highlight=False, soft_wrap=True)


def _forget(journal: Journal, url: str, job: str) -> None:
    entries = journal.entries(url)
    found = [entry for entry in entries if entry.is_called(job)]
    if not found:
        noted = ", ".join(f"{entry.job_id} ({entry.job_name})" for entry in entries) or "none"
        raise StreamTuneError(f"no interrupted rescale of job '{job}' at {url}: noted are {noted}")
    for entry in found:
        journal.done(entry)
        where = f"; its savepoint is {entry.savepoint}" if entry.savepoint else ""
        _say(f"the interrupted rescale of job {entry.job_id} ({entry.job_name}) is forgotten{where}")


def rescale_journal() -> Journal:
    """Where rescales that are under way are written down."""
    from streamtune.engines.flink.journal import Journal

    return Journal(state_folder() / "rescales")


def _looked_at(preflight: Preflight, job: str | None) -> list[Finding]:
    """What there is to say of a job; a cluster of which no job was named, and which has none or many, is no trouble."""
    from streamtune.engines.flink import FlinkEngine
    from streamtune.engines.flink.client import FlinkRefusedError, FlinkUnreachableError
    from streamtune.engines.flink.preflight import Finding
    from streamtune.engines.flink.responses import FlinkGarbledError
    from streamtune.errors import EngineError

    try:
        found = FlinkEngine(preflight.client).find_job(job)
    except (FlinkRefusedError, FlinkUnreachableError, FlinkGarbledError):
        raise
    except EngineError as error:
        return [Finding("job", "warning" if job is None else "failed", str(error))]
    return preflight.job(found.id)


@app.command()
def doctor(
    job: Annotated[str | None, typer.Option(help="Id or name of the job; may be left out if only one runs.")] = None,
    url: UrlSetting = None,
    jar: Annotated[Path | None, typer.Option(help="The job's jar, for clusters that cannot rescale live.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Look whether jobs of a cluster could be tuned, and say what to do where not; nothing is changed.

    Looks at the scheduler, slots, savepoint folder, rights to change jobs, and the job's last completed checkpoint. The
    exit code is 2 where something stands in the way.

    \b
    Examples:
      streamtune flink doctor --url http://flink.example:8081
      streamtune flink doctor --job my-job --json
    """
    settings = resolved(FlinkSettings, url=flink_url(url))
    if jar is not None and not (is_there(jar) and jar.is_file()):
        raise StreamTuneError(f"--jar {jar} cannot be read: there is no such file. Check the path")
    from streamtune.engines.flink.preflight import Preflight, look

    with flink_client(settings.url, retries=1) as client:
        preflight = Preflight(client, settings.rescale, has_program=jar is not None)
        found = look([preflight.cluster, preflight.rights, lambda: _looked_at(preflight, job)])
    if as_json:
        print_json([{"what": one.name, "verdict": one.verdict, "seen": one.seen, "to_do": one.to_do} for one in found])
    else:
        table = Table("", "what")
        for heading in ("seen", "to do"):
            table.add_column(heading, overflow="fold")
        for one in found:
            style = {"ok": "green", "warning": "yellow", "failed": "red"}[one.verdict]
            table.add_row(styled((one.verdict, style)), one.name, one.seen, one.to_do)
        out.print(table)
    if any(one.verdict == "failed" for one in found):
        raise typer.Exit(2)

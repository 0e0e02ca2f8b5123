"""``streamtune place``: on which host does each task instance run?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from streamtune.cli.output import err, out, plain, print_json
from streamtune.engines.flink.settings import check_address
from streamtune.errors import StreamTuneError

if TYPE_CHECKING:
    from streamtune.placement import CommunicationGraph, Hosts, Placement, Problem
    from streamtune.placement.comparison import Row
    from streamtune.placement.flink import Advice


def place(
    job: Annotated[
        str | None,
        typer.Argument(help="A job spec (YAML or JSON) or a built-in workload. Or give --graph or --engine."),
    ] = None,
    graph: Annotated[
        Path | None, typer.Option(help="A communication graph (JSON): tasks with id and load, edges with bytes_per_s.")
    ] = None,
    hosts: Annotated[
        str | None, typer.Option(help="How many equal hosts, or a YAML/JSON file with name, cpu, memory_mb, zone.")
    ] = None,
    scheduler: Annotated[
        str,
        typer.Option(
            help="ours (fewest bytes), ours-link (least on the busiest host's link), even, even-random, greedy, metis, "
            "metis-vol, metis-recursive, flink or exact."
        ),
    ] = "ours",
    imbalance: Annotated[float, typer.Option(help="The largest load of a host over the mean to keep, at most.")] = 1.03,
    effort: Annotated[float, typer.Option(help="How much harder than usual ours looks (10: ten times).")] = 1.0,
    current: Annotated[
        Path | None,
        typer.Option(help="Where tasks run today (JSON: task → host): what would move, and is it worth it?"),
    ] = None,
    horizon: Annotated[float, typer.Option(help="Seconds over which moved state has to pay off.")] = 3600.0,
    pin: Annotated[list[str] | None, typer.Option(help="task=host: this task stays there. May be repeated.")] = None,
    price_per_gb: Annotated[
        float | None, typer.Option(help="Price of a gigabyte between zones (between hosts where there are no zones).")
    ] = None,
    plan: Annotated[
        str | None, typer.Option(help="Parallelism: one number for all, operator=number,…, or a file.")
    ] = None,
    rate: Annotated[str | None, typer.Option(help="Source rates: 10x, one number for all, or source=rate,…")] = None,
    selectivity: Annotated[
        str | None, typer.Option(help="Records out per record in, where known: filter=0.4,…")
    ] = None,
    record_bytes: Annotated[str | None, typer.Option(help="Bytes per record an operator sends: bids=120,…")] = None,
    state_mb: Annotated[
        str | None, typer.Option(help="State of one instance in MB, which a move carries: join=200,…")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="flink: look at a running job.")] = None,
    url: Annotated[str | None, typer.Option(help="Flink's REST address, for instance http://localhost:8081.")] = None,
    job_id: Annotated[str | None, typer.Option(help="Which of Flink's jobs, if more than one is running.")] = None,
    seconds: Annotated[
        float, typer.Option(help="How long to look at a running job, at least.", min=0.1, max=3600)
    ] = 10.0,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Write the assignment (JSON: task → host) here.")
    ] = None,
    slot_groups: Annotated[
        Path | None, typer.Option(help="Write slot sharing groups for an unrolled Flink job (JSON) here.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw hosts, instances and traffic into this file (PNG or SVG).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Decide on which host each task instance runs, so that few bytes cross the network and hosts stay balanced.

    Without --scheduler all of them are compared and ours is taken. Nothing is deployed.

    \b
    Examples:
      streamtune place --graph graph.json --hosts 10 --json
      streamtune place --graph graph.json --hosts hosts.yaml --scheduler metis --imbalance 1.05
      streamtune place nexmark-q5 --plan 8 --hosts 4 --price-per-gb 0.02 --plot hosts.png
      streamtune place job.yaml --hosts hosts.yaml --current today.json --state-mb join=200 --out placement.json
      streamtune place --engine flink --url http://localhost:8081
    """
    _check_outputs(out_file, slot_groups, plot)
    price_per_gb = _price(price_per_gb)
    from streamtune.placement import Problem, prepare
    from streamtune.placement import scheduler as find_scheduler

    chosen = find_scheduler(scheduler, effort)
    name, found, pins, running, exchanges = _what(
        job, graph, engine, url, job_id, seconds, plan, rate, selectivity, record_bytes, state_mb
    )
    places = _hosts(hosts, running, price_per_gb)
    where = running if current is None else _current(current)
    problem = Problem(found, places, imbalance, {**pins, **_pins(pin)}, where, horizon)
    prepare()
    placed = chosen.place(problem)
    rows = [] if graph is not None and as_json else _compared(problem, placed, price_per_gb)
    tips = _advice(problem, exchanges, engine is not None) if exchanges is not None else []
    _write(placed, out_file, slot_groups, plot)
    if as_json:
        record = placed.to_record()
        if rows:
            record = {"job": name, **record, "comparison": {row.placed.scheduler: row.to_record() for row in rows}}
        if tips:
            record["advice"] = [{"text": tip.text, "saves_bytes_per_s": tip.saves_bytes_per_s} for tip in tips]
        print_json(record)
        return
    _show(name, placed, rows, tips)


def _what(
    job: str | None,
    graph: Path | None,
    engine: str | None,
    url: str | None,
    job_id: str | None,
    seconds: float,
    plan: str | None,
    rate: str | None,
    selectivity: str | None,
    record_bytes: str | None,
    state_mb: str | None,
) -> tuple[str, CommunicationGraph, dict[str, str], dict[str, str] | None, dict[tuple[str, str], str] | None]:
    """The graph to place with its name and pins; where it runs today and its exchanges, where an engine says so."""
    given = [what for what, value in (("JOB", job), ("--graph", graph), ("--engine", engine)) if value is not None]
    if len(given) != 1:
        got = " and ".join(given) or "none"
        raise StreamTuneError(f"give one of JOB, --graph FILE and --engine flink --url …, but got {got}")
    of_a_job = {"plan": plan, "rate": rate, "selectivity": selectivity}
    of_a_job |= {"record-bytes": record_bytes, "state-mb": state_mb}
    unmeant = {name: "JOB" for name, value in of_a_job.items() if value is not None and job is None}
    of_an_engine = {"url": url, "job-id": job_id}
    unmeant |= {name: "--engine" for name, value in of_an_engine.items() if value is not None and engine is None}
    for option, kind in unmeant.items():
        raise StreamTuneError(f"--{option} has no effect without {kind}: leave it out")
    if graph is not None:
        from streamtune.placement import read_graph

        read = read_graph(graph)
        return graph.stem, read.graph, read.pins, None, None
    if engine is not None:
        return _running(engine, url, job_id, seconds)
    assert job is not None
    return _from_job(job, plan, rate, selectivity, record_bytes, state_mb)


def _from_job(
    job: str,
    plan: str | None,
    rate: str | None,
    selectivity: str | None,
    record_bytes: str | None,
    state_mb: str | None,
) -> tuple[str, CommunicationGraph, dict[str, str], None, dict[tuple[str, str], str]]:
    from streamtune.cli.arguments import find_job, parse_plan, parse_rates, parse_selectivities
    from streamtune.placement.unroll import rates_of, unrolled

    found = find_job(job).job
    degrees = parse_plan(plan, found)
    rates = rates_of(found.dataflow, parse_rates(rate, found), parse_selectivities(selectivity, found))
    sizes = _amounts(record_bytes, "--record-bytes", found.dataflow.index)
    state = _amounts(state_mb, "--state-mb", found.dataflow.index)
    graph = unrolled(found.dataflow, degrees, rates, bytes_per_record=sizes, state_mb=state)
    ways = {"forward": "FORWARD", "broadcast": "BROADCAST", "hash": "HASH", "rebalance": "REBALANCE"}
    exchanges = {(edge.source, edge.target): ways[edge.partitioning] for edge in found.dataflow.edges}
    return found.name, graph, {}, None, exchanges


def _running(
    engine: str, url: str | None, job_id: str | None, seconds: float
) -> tuple[str, CommunicationGraph, dict[str, str], dict[str, str], dict[tuple[str, str], str]]:
    if engine != "flink":
        raise StreamTuneError(f"--engine: placement can look at flink, but got {engine!r}")
    if url is None:
        raise StreamTuneError(
            "--engine flink needs --url, the address of its REST interface, such as http://localhost:8081"
        )
    check_address(url)
    from streamtune.cli.flink import flink_client
    from streamtune.clock import SystemClock
    from streamtune.engines.flink.communication import running_job

    with flink_client(url) as client:
        seen = running_job(client.read, job_id, seconds, SystemClock().sleep)
    return seen.name, seen.graph, {}, seen.current, seen.exchanges


def _amounts(text: str | None, option: str, known: dict[str, int]) -> dict[str, float] | None:
    if text is None:
        return None
    amounts: dict[str, float] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key.strip() not in known:
            raise StreamTuneError(f"{option}: no operator '{key.strip()}': they are {', '.join(known)}")
        try:
            amount = float(value)
        except ValueError:
            amount = float("nan")
        if not 0 <= amount < float("inf"):
            raise StreamTuneError(f"{option}: '{key.strip()}' needs a number of at least 0, but got {value.strip()!r}")
        amounts[key.strip()] = amount
    return amounts


def _hosts(text: str | None, running: dict[str, str] | None, price_per_gb: float | None) -> Hosts:
    from dataclasses import replace

    from streamtune.placement import Host, Hosts, read_hosts

    if text is not None:
        found = read_hosts(text)
    elif running is not None:
        found = Hosts.of(Host(name=name) for name in sorted(set(running.values())))
    else:
        raise StreamTuneError("--hosts is missing: give a number such as 10, or a YAML or JSON file")
    return found if price_per_gb is None else replace(found, price_per_gb=price_per_gb)


def _current(path: Path) -> dict[str, str]:
    from streamtune.dataflow.documents import DocumentError, parse_json, read_text
    from streamtune.placement.graph_file import MOST_BYTES

    try:
        data = parse_json(read_text(path, MOST_BYTES))
    except DocumentError as error:
        raise StreamTuneError(f"--current: {path} {error.problem}: expected an object task → host") from error
    if isinstance(data, dict) and isinstance(data.get("assignment"), dict):
        data = data["assignment"]
    if not isinstance(data, dict) or not all(isinstance(host, str) for host in data.values()):
        raise StreamTuneError(f"--current: {path} must be an object task → host")
    return data


def _pins(texts: list[str] | None) -> dict[str, str]:
    pins: dict[str, str] = {}
    for text in texts or []:
        task, sign, host = text.rpartition("=")
        if not sign or not task or not host:
            raise StreamTuneError(f"--pin: expected task=host, but got {text!r}")
        pins[task] = host
    return pins


def _price(value: float | None) -> float | None:
    if value is not None and not 0 <= value < float("inf"):
        raise StreamTuneError(f"--price-per-gb must be finite and at least 0, but got {value:g}")
    return value


def _check_outputs(out_file: Path | None, slot_groups: Path | None, plot: Path | None) -> None:
    """Before any work: results are never written over something that is not an ordinary file."""
    from streamtune.outputs import check_outputs, check_picture

    check_outputs((("--out", out_file), ("--slot-groups", slot_groups), ("--plot", plot)))
    if plot is not None:
        check_picture(plot)


def _compared(problem: Problem, placed: Placement, price_per_gb: float | None) -> list[Row]:
    from streamtune.placement.comparison import COMPARED, compare

    extra = [placed.scheduler] if placed.scheduler not in COMPARED else []
    flink = ["flink"] if problem.graph.operators is not None and "flink" not in extra else []
    return compare(problem, [*flink, *COMPARED, *extra], price_per_gb)


def _advice(problem: Problem, exchanges: dict[tuple[str, str], str], runs_on_flink: bool) -> list[Advice]:
    from streamtune.placement.comparison import today
    from streamtune.placement.flink import FlinkDefault, advice

    placed = (today(problem) if runs_on_flink else None) or FlinkDefault().place(problem)
    hashed = {pair for pair, way in exchanges.items() if way == "HASH"}
    keyed = [(a, b) for a, b in hashed if any(target == a for _, target in hashed)]
    all_to_all = [pair for pair, way in exchanges.items() if way in ("HASH", "REBALANCE")]
    return advice(placed, all_to_all, sorted(keyed))


def _write(placed: Placement, out_file: Path | None, slot_groups: Path | None, plot: Path | None) -> None:
    from streamtune.outputs import write_whole
    from streamtune.placement.flink import slot_sharing_groups
    from streamtune.reports.placement_picture import draw

    for path, value in (
        (out_file, placed.assignment),
        (slot_groups, slot_sharing_groups(placed) if slot_groups else None),
    ):
        if path is None:
            continue
        write_whole(path, json.dumps(value, indent=1) + "\n")
        err.print(f"written: {plain(str(path))}", highlight=False, soft_wrap=True)
    if plot is not None:
        draw(placed, plot)
        err.print(f"picture: {plain(str(plot))}", highlight=False, soft_wrap=True)


def _show(name: str, placed: Placement, rows: list[Row], tips: list[Advice]) -> None:
    graph = placed.problem.graph
    title = f"{len(graph)} tasks on {len(placed.problem.hosts)} hosts, {_bytes(graph.total_bytes_per_s)} in all"
    table = Table(
        title=f"{plain(name)}: {title}. Nothing is deployed", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    table.add_column("scheduler", no_wrap=True)
    priced = any(row.price_per_month is not None for row in rows)
    moving = placed.problem.current is not None
    headings = ["remote", "share", "saves", "busiest link", *(["price a month"] if priced else []), "imbalance"]
    for heading in [*headings, *(["moves", "state"] if moving else [])]:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*_cells(row, priced, moving, row.placed.scheduler == placed.scheduler))
    out.print(table)
    for note in placed.notes:
        out.print(f"note: {plain(note)}", highlight=False, soft_wrap=True)
    if moving and placed.moves:
        shown = [f"{task}: {a or '–'} → {b}" for task, (a, b) in list(placed.moves.items())[:10]]
        more = f" and {len(placed.moves) - 10} more" if len(placed.moves) > 10 else ""
        out.print(f"would move: {plain(', '.join(shown))}{more}", highlight=False, soft_wrap=True)
    for tip in tips:
        saved = "" if tip.saves_bytes_per_s is None else f" (saves {_bytes(tip.saves_bytes_per_s)})"
        out.print(f"• {plain(tip.text)}{saved}", highlight=False, soft_wrap=True)


def _cells(row: Row, priced: bool, moving: bool, chosen: bool) -> list[Any]:
    placed = row.placed
    cells = [
        f"{plain(placed.scheduler)} *" if chosen else plain(placed.scheduler),
        _bytes(placed.remote_bytes_per_s),
        f"{100 * placed.remote_share:.1f} %",
        _bytes(row.saves_bytes_per_s),
        _bytes(placed.busiest_link_bytes_per_s),
    ]
    if priced:
        cells.append("" if row.price_per_month is None else f"{row.price_per_month:,.2f}")
    cells.append(f"{placed.imbalance:.3f}")
    if moving:
        cells += [str(len(placed.moves)), f"{placed.moved_state_mb:,.0f} MB"]
    return cells


def _bytes(value: float) -> str:
    for unit in ("B/s", "kB/s", "MB/s", "GB/s"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if abs(value) >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB/s"

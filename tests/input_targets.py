"""What reads files and answers from outside, each with a sound sample."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from good_run import GOOD_RUN
from input_answers import answer_targets
from input_fuzz import Target, with_file
from input_requests import request_targets
from streamtune.autoconfig.problem import load_problem as load_space
from streamtune.cli.arguments import parse_rate_changes
from streamtune.config import load_config
from streamtune.control.audit import read_audit
from streamtune.dataflow import Job
from streamtune.dataflow.spec import load_spec
from streamtune.engines.flink.overrides import load_overrides
from streamtune.engines.flink.published import read_rates
from streamtune.forecasts.series import read_series
from streamtune.history.sources import gunzipped_bytes, probe_parquet
from streamtune.models.bundle import ModelBundle
from streamtune.placement.graph_file import read_graph
from streamtune.placement.hosts import read_hosts
from streamtune.provisioning.problem import load_problem
from streamtune.provisioning.sampling.samples import read_samples
from streamtune.sundog.knowledge import load_knowledge
from streamtune.tuners.streamtune.memory import Memory
from streamtune.workloads import load

_CONFIG = b"""guards: {max_reconfigurations: 5, min_parallelism: 2}
window: {flink: {settle_s: 20, length_s: 30}}
engines: {flink: {url: "http://flink:8081", rescale: {mode: live}}}
tuners: {ds2: {scaling_factor: 1.1}}
service:
  clusters: [{name: prod, url: "http://flink:8081"}]
  policies: [{pattern: "orders-*", mode: observe}]
"""
_OVERRIDES = b"""operators:
  window:
    {type: window_aggregate, window: {type: sliding, length: 10s, slide: 2s}, aggregate: {function: count, class: long}}
  bids: {rate: 4000}
exclude: [sink]
max_parallelism: 64
"""


def targets(folder: Path, model: Path) -> list[Target]:
    """All of them; ``folder`` takes the sound files that some need beside the damaged one."""
    return [
        *_documents(),
        *answer_targets(folder),
        *_binary(folder),
        *_folders(folder, model),
        *request_targets(folder),
    ]


def _documents() -> list[Target]:
    spec = load("nexmark-q5").spec
    graph = {
        "tasks": [{"id": "a", "load": 1, "host": "h0"}, {"id": "b", "load": 2}],
        "edges": [{"from": "a", "to": "b", "bytes_per_s": 5}],
    }
    samples = [
        {"cpu": cpu, "memory_mb": 64, "performance_per_s": 100 * cpu, "spread": 0.01, "seconds": 1}
        for cpu in (0.25, 0.5, 1)
    ]
    size = {"name": "small", "cpu": 1, "memory_mb": 64, "performance_per_s": 100, "price": 1}
    provision = {"sizes": [size], "start_cost": 1, "stop_cost": 1, "workload": [100, 300]}
    space = {
        "objective": {"command": ["true", "{x}"], "direction": "minimize"},
        "knobs": {"x": {"type": "int", "low": 1, "high": 8}, "y": {"type": "category", "choices": ["a", "b"]}},
    }
    hosts = b"- {name: h0, cpu: 4, memory_mb: 100, zone: x}\n- {name: h1, zone: y}\n"
    events = b"".join(json.dumps({"event": f"e{n}", "time": "2026-11-16T10:00:00Z"}).encode() + b"\n" for n in range(9))
    return [
        Target("spec.yaml", load("nexmark-q1").spec.to_yaml().encode(), load_spec),
        Target("spec.json", json.dumps(spec.to_mapping()).encode(), load_spec),
        Target("overrides.yaml", _OVERRIDES, load_overrides),
        Target("config.yaml", _CONFIG, _all_of_config),
        Target("graph.json", json.dumps(graph).encode(), read_graph),
        Target("hosts.yaml", hosts, lambda path: read_hosts(str(path))),
        Target("provision.json", json.dumps(provision).encode(), load_problem),
        Target("samples.json", json.dumps({"operator": "CMO1", "samples": samples}).encode(), read_samples),
        Target("space.json", json.dumps(space).encode(), load_space),
        Target("audit.jsonl", events, read_audit),
        *_rates(spec.job),
    ]


def _rates(job: Job) -> list[Target]:
    """Rates over time (CSV), changes of rates (``--rates``), and what an emulated job is offered."""
    times = "".join(f"2026-11-16 10:{minute:02}:00,{100 + minute}\n" for minute in range(20))
    changes = [1, 2.5, dict(job.source_rates)]
    offered = json.dumps(dict(job.source_rates)).encode()
    return [
        Target("rates.csv", f"time,rate\n{times}".encode(), read_series, is_document=False),
        Target("rates.csv.gz", gzip.compress(times.encode(), mtime=0), read_series, is_document=False),
        Target("changes.json", json.dumps(changes).encode(), lambda path: parse_rate_changes(str(path), job, 0)),
        Target("changes.yaml", yaml.dump(changes).encode(), lambda path: parse_rate_changes(str(path), job, 0)),
        Target("offered.json", offered, read_rates),
    ]


def _all_of_config(path: Path) -> None:
    from streamtune.config import all_sections

    config = load_config(path)
    for kind in all_sections().values():
        config.settings(kind)


def _binary(folder: Path) -> list[Target]:
    file = folder / "sound.parquet"
    pq.write_table(pa.Table.from_pylist([{**GOOD_RUN, "run_id": f"run-{n}"} for n in range(20)]), file)
    spec = load("nexmark-q1").spec
    Memory(folder / "sound.db", spec.job)

    def probe(path: Path) -> None:
        batch = pa.RecordBatch.from_pydict({"path": [path.name], "content": [path.read_bytes()]})
        list(probe_parquet(iter([batch])))

    lines = b"".join(json.dumps({**GOOD_RUN, "run_id": f"run-{n}"}).encode() + b"\n" for n in range(20))
    return [
        Target("runs.parquet", file.read_bytes(), probe, is_document=False),
        Target(
            "runs.jsonl.gz",
            gzip.compress(lines, mtime=0),
            lambda path: gunzipped_bytes(path.read_bytes()),
            is_document=False,
        ),
        Target(
            "state.db",
            (folder / "sound.db").read_bytes(),
            lambda path: Memory(path, spec.job).load(),
            is_document=False,
        ),
    ]


def _folders(folder: Path, model: Path) -> list[Target]:
    knowledge = folder / "knowledge"
    knowledge.mkdir()
    people = [{"id": name, "names": [f"name {name}"], "type": "person"} for name in ("E1", "E2", "E3")]
    (knowledge / "entities.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in people))
    (knowledge / "relations.jsonl").write_text('{"from": "E1", "to": "E2", "type": "knows"}\n')
    whole = {
        "manifest.json": True, "features.json": True, "capacity.json": True, "past.parquet": False,
        "global/encoder.safetensors": False,
    }  # fmt: skip
    return [
        *(
            Target(
                f"bundle-{Path(name).name}",
                (model / name).read_bytes(),
                with_file(model, name, _bundle),
                is_document,
                # What a manifest says may be as wrong as the file that it says it of: then it is the folder.
                place=f"{model.name}-folder" if name == "manifest.json" else Path(name).name,
            )
            for name, is_document in whole.items()
        ),
        *(
            Target(name, (knowledge / name).read_bytes(), with_file(knowledge, name, load_knowledge))
            for name in ("entities.jsonl", "relations.jsonl")
        ),
    ]


def _bundle(folder: Path) -> None:
    loaded = ModelBundle.load(folder)
    for model in loaded.models.values():
        _ = model.network, model.warmup
    _ = loaded.transfer

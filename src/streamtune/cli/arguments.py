"""How jobs, plans and rates are given on the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from streamtune.cli.options import resolved
from streamtune.dataflow import Job, Plan
from streamtune.dataflow.spec import JobSpec, load_spec
from streamtune.engines.simulator.settings import MeasurementError, SimulatorSettings
from streamtune.errors import StreamTuneError


def find_job(job: str) -> JobSpec:
    """A job by the path of its spec, or by the name of a built-in workload."""
    path = Path(job)
    if path.exists() or path.suffix in {".yaml", ".yml", ".json"} or "/" in job:
        return load_spec(path)
    from streamtune.workloads import catalogue

    return catalogue.load(job).spec


def parse_plan(text: str | None, job: Job) -> Plan:
    """``12`` for all operators, ``filter=5,join=12`` for some, or a YAML/JSON file with a mapping."""
    if text is None:
        return job.initial_plan
    if text.isdigit():
        return Plan({key: int(text) for key in job.dataflow.index})
    degrees: dict[str, int] = {}
    for key, value in _pairs(text, "--plan").items():
        if isinstance(value, bool) or int(value) != value:
            raise StreamTuneError(f"--plan: operator '{key}' needs a whole number, but got {value!r}")
        degrees[key] = int(value)
    plan = job.initial_plan.replace(degrees)
    job.check_plan(plan)
    return plan


def parse_rates(text: str | None, job: Job) -> dict[str, float]:
    """``10x`` for a multiple of the nominal rates, ``80000`` for every source, or ``bids=80000,persons=500``."""
    if text is None:
        return dict(job.source_rates)
    if text.endswith("x") and _is_number(text[:-1]):
        return {source: rate * float(text[:-1]) for source, rate in job.source_rates.items()}
    if _is_number(text):
        rates = {source: float(text) for source in job.source_rates}
    else:
        rates = {**job.source_rates, **{key: float(value) for key, value in _pairs(text, "--rate").items()}}
    job.check_rates(rates)
    return rates


def parse_selectivities(text: str | None, job: Job) -> dict[str, float]:
    """``filter=0.4,join=1.1``: records out per record in, as far as known."""
    if text is None:
        return {}
    known = dict(_pairs(text, "--selectivity"))
    for key, value in known.items():
        if key not in job.dataflow.index:
            raise StreamTuneError(f"--selectivity: no operator '{key}': they are {', '.join(job.dataflow.index)}")
        if not 0 <= value < float("inf"):
            raise StreamTuneError(f"--selectivity: '{key}' must be finite and at least 0, but got {value:g}")
    return known


def parse_rate_changes(text: str, job: Job, seed: int) -> list[dict[str, float]]:
    """``pattern`` (the paper's 120 changes), ``cycle`` (its ten rates), or a file with a list of rates.

    In a file every entry is a number, meant as a multiple of the nominal rates, or a mapping source → records/s.
    """
    from streamtune.workloads import rates

    if text in {"pattern", "cycle"}:
        multiples = rates.pattern(seed) if text == "pattern" else rates.cycle()
        return [_times(job, multiple) for multiple in multiples]
    path = Path(text)
    entries = _read(path, "--rates")
    if not isinstance(entries, list) or not entries:
        raise StreamTuneError(f"--rates {path}: must be a list of multiples or of source → rate, but got {entries!r}")
    changes = []
    for position, entry in enumerate(entries, start=1):
        if isinstance(entry, dict):
            wanted = {str(key): _number(value, f"--rates {path}, entry {position}") for key, value in entry.items()}
            job.check_rates(wanted)
        else:
            wanted = _times(job, _number(entry, f"--rates {path}, entry {position}"))
            job.check_rates(wanted)
        changes.append(wanted)
    return changes


def make_folder_of(file: Path) -> None:
    """Make sure a result can be written before the work for it begins."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StreamTuneError(f"{file} cannot be written: {error.strerror}. Choose another file") from error


def simulator_settings(bias: float | None, noise: float | None) -> SimulatorSettings:
    """The simulator's settings in force, with the error of measured busy time that the command line says."""
    settings = resolved(SimulatorSettings)
    return settings.replace(error=measurement_error(bias, noise, settings.error))


def measurement_error(
    bias: float | None, noise: float | None, otherwise: MeasurementError | None = None
) -> MeasurementError:
    """The error of measured busy time, with what the user set instead."""
    given = {"bias_sigma": bias, "noise_sigma": noise}
    for name, value in given.items():
        if value is not None and not 0 <= value < 1:
            raise StreamTuneError(f"--{name.removesuffix('_sigma')} must be in [0, 1), but got {value:g}")
    settings = otherwise or MeasurementError()
    return settings.replace(**{name: value for name, value in given.items() if value is not None})


def _times(job: Job, multiple: float) -> dict[str, float]:
    return {source: rate * multiple for source, rate in job.source_rates.items()}


def _pairs(text: str, option: str) -> Mapping[str, float]:
    if Path(text).suffix in {".yaml", ".yml", ".json"}:
        data = _read(Path(text), option)
        if not isinstance(data, dict):
            raise StreamTuneError(f"{option} {text}: must be a mapping operator → number, but got {data!r}")
        return {str(key): _number(value, f"{option} {text}") for key, value in data.items()}
    pairs = {}
    for part in text.split(","):
        key, sign, value = part.partition("=")
        if not sign or not key:
            raise StreamTuneError(f"{option}: expected name=number pairs such as join=12,filter=3, but got {text!r}")
        pairs[key.strip()] = _number(value.strip(), f"{option}: '{key.strip()}'")
    return pairs


def _read(path: Path, option: str) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except OSError as error:
        raise StreamTuneError(f"{option}: {path} cannot be read: {error.strerror}. Check the path") from error
    except (json.JSONDecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise StreamTuneError(f"{option}: {path} is neither YAML nor JSON: {str(error).splitlines()[0]}") from error


def _number(value: object, place: str) -> float:
    if isinstance(value, bool) or not _is_number(str(value)):
        raise StreamTuneError(f"{place}: expected a number, but got {value!r}")
    return float(str(value))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

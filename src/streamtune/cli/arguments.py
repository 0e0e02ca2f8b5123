"""How jobs, plans and rates are given on the command line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamtune.cli.options import resolved
from streamtune.dataflow import Job, Plan
from streamtune.dataflow.documents import DocumentError, read_document
from streamtune.dataflow.spec import JobSpec, load_spec
from streamtune.engines.simulator.settings import MeasurementError, SimulatorSettings
from streamtune.errors import DataflowError, StreamTuneError


def find_job(job: str) -> JobSpec:
    """A job by the path of its spec, or by the name of a built-in workload."""
    path = Path(job)
    if is_there(path) or path.suffix in {".yaml", ".yml", ".json"} or "/" in job:
        return load_spec(path)
    from streamtune.workloads import catalogue

    return catalogue.load(job).spec


def parse_plan(text: str | None, job: Job) -> Plan:
    """``12`` for all operators, ``filter=5,join=12`` for some, or a YAML/JSON file with a mapping."""
    if text is None:
        return job.initial_plan
    if _is_number(text):
        degrees = dict.fromkeys(job.dataflow.index, _degree(_number(text, "--plan"), "every operator"))
    else:
        degrees = {key: _degree(value, f"operator '{key}'") for key, value in _pairs(text, "--plan").items()}
    plan = job.initial_plan.replace(degrees)
    job.check_plan(plan)
    return plan


def _degree(value: float, whose: str) -> int:
    if value != int(value):
        raise StreamTuneError(f"--plan: {whose} needs a whole number, but got {value!r}")
    return int(value)


def parse_rates(text: str | None, job: Job) -> dict[str, float]:
    """``10x`` for a multiple of the nominal rates, ``80000`` for every source, or ``bids=80000,persons=500``."""
    if text is None:
        return dict(job.source_rates)
    times = parse_times(text)
    rates = _times(job, times) if times is not None else {**job.source_rates, **parse_numbers(text, job.source_rates)}
    job.check_rates(rates)
    return rates


def check_rates_text(text: str, option: str = "--rate") -> None:
    """Refuse what can be no rates of any job, before anybody is asked which sources there are."""
    if parse_times(text) is None:
        parse_numbers(text, {}, option)


def parse_times(text: str) -> float | None:
    """The number before an ``x``; None where there is no such thing.

    >>> parse_times("2.5x"), parse_times("80000")
    (2.5, None)
    """
    return _number(text[:-1], "--rate") if text.endswith("x") and _is_number(text[:-1]) else None


def parse_numbers(text: str, sources: Mapping[str, float], option: str = "--rate") -> dict[str, float]:
    """One number for all sources, or ``source=rate,…`` for some."""
    return dict.fromkeys(sources, _number(text, option)) if _is_number(text) else dict(_pairs(text, option))


def parse_selectivities(text: str | None, job: Job) -> dict[str, float]:
    """``filter=0.4,join=1.1``: records out per record in, as far as known."""
    if text is None:
        return {}
    known = dict(_pairs(text, "--selectivity"))
    for key, value in known.items():
        if key not in job.dataflow.index:
            raise StreamTuneError(f"--selectivity: no operator '{key}': they are {', '.join(job.dataflow.index)}")
        if value < 0:
            raise StreamTuneError(f"--selectivity: '{key}' must be at least 0, but got {value:g}")
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
        raise StreamTuneError(
            f"--rates {path}: must be a list of multiples or of source → rate, but got {_brief(entries)}"
        )
    changes = []
    for position, entry in enumerate(entries, start=1):
        place = f"--rates {path}, entry {position}"
        if isinstance(entry, dict):
            wanted = {str(key): _number(value, place) for key, value in entry.items()}
        else:
            wanted = _times(job, _number(entry, place))
        try:
            job.check_rates(wanted)
        except DataflowError as error:
            raise StreamTuneError(f"{place}: {error}") from error
        changes.append(wanted)
    return changes


def is_there(path: Path) -> bool:
    """Whether there is anything at a path; of one that cannot even be asked for, there is nothing."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


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
            raise StreamTuneError(f"{option} {text}: must be a mapping operator → number, but got {_brief(data)}")
        return {str(key): _number(value, f"{option} {text}") for key, value in data.items()}
    pairs: dict[str, float] = {}
    for part in text.split(","):
        key, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or not key:
            raise StreamTuneError(f"{option}: expected name=number pairs such as join=12,filter=3, but got {text!r}")
        if key in pairs:
            raise StreamTuneError(f"{option}: '{key}' is given twice in {text!r}: say it once")
        pairs[key] = _number(value, f"{option}: '{key}'")
    return pairs


def _read(path: Path, option: str) -> Any:
    try:
        return read_document(path)
    except DocumentError as error:
        raise StreamTuneError(f"{option}: {path} {error.problem}") from error


def _number(value: object, place: str) -> float:
    """A finite number, from text or from a document."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not _is_number(str(value)):
        raise StreamTuneError(f"{place}: expected a number, but got {_brief(value)}")
    number = float(str(value))
    if not math.isfinite(number):
        raise StreamTuneError(f"{place}: must be a finite number, but got {_brief(value)}")
    return number


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _is_number(text: str) -> bool:
    """Whether a text is meant as a number, NaN and infinity included: they are refused as such.

    >>> [_is_number(text) for text in ("12", "1e3", "nan", "²", "1_000", "١")]
    [True, True, True, False, False, False]
    """
    if not text.isascii() or "_" in text:
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True

"""Where ``streamtune plan`` gets rates and capacities from: the one place that knows histories and emulated jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streamtune.dataflow import Job
from streamtune.errors import StreamTuneError

if TYPE_CHECKING:
    from streamtune.dataflow.physics import OperatorPhysics
    from streamtune.dataflow.spec import JobSpec
    from streamtune.forecasts.series import RateSeries
    from streamtune.provisioning.ahead import Capacity


def rates_of(source: str, history: str | None, job: Job, epoch_s: float) -> RateSeries:
    """A job's past rates: from a CSV file, or from the runs of a history, which have no step of their own."""
    from streamtune.forecasts.series import read_series

    if source != "history":
        return read_series(Path(source))
    if history is None:
        raise StreamTuneError("--forecast history needs to know where the history is: add --history FOLDER")
    return _rates_of_history(history, job, epoch_s)


def _rates_of_history(location: str, job: Job, epoch_s: float) -> RateSeries:
    from streamtune.cli.history import open_history
    from streamtune.forecasts.series import ForecastError, series_of, total_rates

    with open_history(location, None, None, "parquet") as history:
        frame = history.runs.read()
        rows = frame.filter(frame["job"] == job.name).select("observed_at", "source_rates").collect()
    moments = total_rates((row["observed_at"].timestamp(), dict(row["source_rates"])) for row in rows)
    place = f"runs of '{job.name}' in {location}"
    # Runs come when they come: where they are closer than epochs, epochs are their means.
    with suppress(ForecastError):
        found = series_of(moments, place=place)
        if found.step_s >= epoch_s:
            return found
    return series_of(moments, step_s=epoch_s, place=place)


@dataclass(frozen=True)
class OperatorCapacity:
    """An operator's input per record/s of the job's sources, and what one instance takes."""

    input_share: float
    per_instance: float

    def instances_for(self, rate_per_s: float) -> int:
        return max(1, math.ceil(rate_per_s * self.input_share / self.per_instance * (1 - 1e-9)))


@dataclass(frozen=True)
class EmulatedCapacity:
    """What the physics of an emulated job says: speed-up is not linear there."""

    operator: str
    physics: OperatorPhysics
    input_share: float

    def instances_for(self, rate_per_s: float) -> int:
        from streamtune.dataflow.physics import smallest_parallelism

        demand = rate_per_s * self.input_share
        least = smallest_parallelism(self.physics, demand, 100_000)
        if least is None:
            raise StreamTuneError(f"operator '{self.operator}' cannot serve {demand:,.0f} records/s at any parallelism")
        return least


def capacities_of(spec: JobSpec, given: Mapping[str, float], selectivities: Mapping[str, float]) -> dict[str, Capacity]:
    """For each operator but the sources: what was given, else the physics of an emulated job."""
    from streamtune.readings.demand import input_rates

    job, physics = spec.job, spec.physics or {}
    total = sum(job.source_rates.values())
    if total <= 0:
        raise StreamTuneError(f"the sources of '{job.name}' have no rate: give them one in the job spec")
    # What is not known passes every record on.
    known = dict.fromkeys(job.dataflow.index, 1.0) | {key: one.selectivity for key, one in physics.items()}
    rates = input_rates(job.dataflow, known | dict(selectivities), job.source_rates)
    shares = {key: rate / total for key, rate in rates.items()}
    found: dict[str, Capacity] = {}
    for operator in job.dataflow.operators:
        if operator.is_source:
            continue
        if operator.id in given:
            found[operator.id] = OperatorCapacity(shares[operator.id], given[operator.id])
        elif operator.id in physics:
            found[operator.id] = EmulatedCapacity(operator.id, physics[operator.id], shares[operator.id])
        else:
            raise StreamTuneError(
                f"what an instance of '{operator.id}' can do is not known: add --capacity {operator.id}=RECORDS_PER_S"
            )
    return found

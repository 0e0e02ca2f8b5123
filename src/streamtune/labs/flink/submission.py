"""Submitting job specs: the compiled jar goes to the cluster once, every job gets a rates file of its own."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

from streamtune.dataflow import Job
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.flink.client import FlinkClient
from streamtune.engines.flink.published import write_rates
from streamtune.engines.flink.rescaling import Program
from streamtune.errors import EngineError
from streamtune.labs.flink.distribution import FlinkDistribution
from streamtune.labs.flink.jar import EMULATED_JOB, SQL_JOB, workload_jar
from streamtune.labs.flink.program import program_argument
from streamtune.labs.flink.settings import WorkloadSettings
from streamtune.labs.flink.sql_script import check_script, option_of, statements


class Submitter:
    """Knows the physics of the specs it may emulate, by job name; nothing else sees it."""

    def __init__(
        self,
        client: FlinkClient,
        *specs: JobSpec,
        folder: Path,
        distribution: FlinkDistribution | None = None,
        settings: WorkloadSettings | None = None,
    ) -> None:
        self._client = client
        self._specs = {spec.job.name: spec for spec in specs}
        self._folder = folder
        self._distribution = distribution
        self._settings = settings or WorkloadSettings()
        self._jar_id: str | None = None

    def program(self, job: Job) -> tuple[Program, Path]:
        """How to start this job, and the file its rates are read from."""
        spec = self._specs.get(job.name)
        if spec is None:
            known = ", ".join(self._specs) or "none"
            raise EngineError(f"no spec for job '{job.name}': the specs that can be emulated are {known}")
        known_spec = JobSpec(job, spec.physics)
        rates_file = self._folder.resolve() / f"{job.name}-{uuid.uuid4().hex[:8]}.rates.json"
        program = Program(
            self.jar_id,
            EMULATED_JOB,
            argument_of=lambda plan: program_argument(known_spec, plan, rates_file, self._settings),
        )
        return program, rates_file

    def sql_program(self, script: str, name: str | None = None) -> Program:
        """How to start a SQL script: statements end with semicolons, a statement set is one of them.

        The job gets this name, and checkpoints as often as the settings say, unless the script sets them itself.
        """
        found = statements(script)
        check_script(found)
        ours = {"execution.checkpointing.interval": f"{round(1000 * self._settings.checkpoint_s)} ms"}
        if name is not None:
            ours["pipeline.name"] = name
        return Program(self.jar_id, SQL_JOB, (*map(_set, ours.items()), *map(_argument, found)))

    @staticmethod
    def offer(rates_file: Path, rates: Mapping[str, float]) -> None:
        write_rates(rates_file, rates)

    @property
    def jar_id(self) -> str:
        if self._jar_id is None:
            distribution = self._distribution or FlinkDistribution.find()
            self._jar_id = self._client.upload_jar(workload_jar(distribution))
        return self._jar_id


def _argument(statement: str) -> str:
    option = option_of(statement)
    return statement if option is None else _set(option)


def _set(option: tuple[str, str]) -> str:
    """An option as ``SqlJob`` takes it."""
    return f"SET {option[0]}={option[1]}"

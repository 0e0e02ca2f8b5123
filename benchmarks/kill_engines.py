"""For ``kill_processes.py``: ``tune`` on a real Timely and on a real Flink, killed and run again.

On Flink a job is changed live, one whose records are counted at its sink (``chaos_site.py``). Kills between the stop
and the start of a job that is changed by stop and restart are tried on a fake alone (test_interrupted.py).
"""

from __future__ import annotations

import time
from abc import abstractmethod
from pathlib import Path
from typing import Any

import psutil
import yaml
from chaos_site import ChaosError, NumberedJob, make_jar, settings_of, wait_for

from faults.processes import Kills, Server, Trial, TuneKills
from streamtune.control.audit import read_audit
from streamtune.engines.flink import FlinkClient
from streamtune.labs.flink import FlinkDistribution, LocalCluster

LIMIT_S = 150.0
MARK = "STREAMTUNE_KILLED"


def still_there(mark: str) -> list[str]:
    """Processes that a killed one had started and that have not ended within a few seconds."""
    for _ in range(50):
        left = [process for process in psutil.process_iter() if _is_marked(process, mark)]
        if not left:
            return []
        time.sleep(0.2)
    return [" ".join(process.cmdline()[:4]) for process in left]


def _is_marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark
    except (psutil.Error, OSError):
        return False


class TuneOnAnEngine(TuneKills):
    """In real time no two runs are alike: what a killed one left is compared with what follows it alone."""

    parts: tuple[str, ...] = ("memory", "http")
    mode = "auto"

    def __init__(self, server: Server, work: Path) -> None:
        Kills.__init__(self, server, work)
        self._trials = 0
        self.undisturbed()

    @abstractmethod
    def words(self, folder: Path) -> list[str]:
        """The command line, but for its files."""

    def run(self, folder: Path, **how: Any) -> dict[str, Any]:
        files = ["--state", "state.db", "--audit", "audit.jsonl", "--history", "runs"]
        words = [*self.words(folder), *(str(folder / one) if "." in one or one == "runs" else one for one in files)]
        config = folder.parent / "streamtune.yaml"
        config.write_text(yaml.safe_dump({"engines": {"flink": {"rescale": {"mode": self.mode}}}}))
        env = {MARK: self.mark, "XDG_STATE_HOME": str(folder / "home"), "STREAMTUNE_CONFIG": str(config)}
        return self.server.run(words=words, folder=folder, parts=self.parts, env=env, limit_s=LIMIT_S, **how)

    @property
    def mark(self) -> str:
        return f"{self.work}-{self._trials}"

    def kill(self, **how: Any) -> Trial | None:
        self._trials += 1
        return super().kill(**how)

    def compare(self, _folder: Path, _events: Any, _rows: Any, trial: Trial) -> None:
        self._expect_nobody(trial)

    def _expect_nobody(self, trial: Trial) -> None:
        left = still_there(self.mark)
        trial.expect(not left, f"still running: {left}")

    def judge(self, folder: Path, trial: Trial) -> None:
        super().judge(folder, trial)
        self._expect_nobody(trial)
        events = read_audit(folder / "audit.jsonl")
        idle = [event for event in events if event["event"] == "deploying" and event["from"] == event["to"]]
        trial.expect(not idle, "a plan was applied that ran already")


class TuneOnTimely(TuneOnAnEngine):
    name = "tune-on-timely"

    def words(self, folder: Path) -> list[str]:
        rates = folder.parent / "rates.yaml"
        rates.write_text("[2, 8]\n")
        return ["tune", "nexmark-q3", "--engine", "timely", "--rates", str(rates), "--json",
                "--settle-s", "0.5", "--window-s", "1.5", "--max-reconfigurations", "2"]  # fmt: skip


class TuneOnFlink(TuneOnAnEngine):
    """A new job for each trial, on one cluster for all."""

    name = "tune-on-flink"
    mode = "live"
    records = 15_000  # 50 s: on a busy machine, 30 s were over before the second measurement

    def __init__(self, server: Server, work: Path) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self.distribution = FlinkDistribution.find()
        self.jar = make_jar(self.distribution, work)
        self.cluster = LocalCluster(work / "cluster", settings_of(slots=16), self.distribution)
        self.cluster.up()
        try:
            self.client = FlinkClient(self.cluster.url, timeout_s=15.0)
            self.job = self._submitted(work, 0)
            super().__init__(server, work)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.client.close()
        self.cluster.down()

    def _submitted(self, work: Path, number: int) -> NumberedJob:
        for one in self.client.jobs():
            if one.state not in ("CANCELED", "FINISHED", "FAILED"):
                self.client.cancel(one.id)
        job = NumberedJob(work / "numbers" / str(number), name=f"numbered-{number}", records=self.records)
        jar = self.client.upload_jar(self.jar)
        job_id = self.client.run_jar(jar, entry_class=job.entry_class, arguments=job.arguments)
        wait_for(lambda: self.client.checkpoints(job_id).latest.completed is not None, "the first checkpoint")
        return job

    def words(self, _folder: Path) -> list[str]:
        words = ["tune", "--engine", "flink", "--url", self.cluster.url]
        words += ["--job", self.job.name, "--settle-s", "3", "--window-s", "4", "--max-reconfigurations", "1"]
        return [*words, "--json"]

    def kill(self, **how: Any) -> Trial | None:
        self.job = self._submitted(self.work, self._trials + 1)
        return super().kill(**how)

    def judge(self, folder: Path, trial: Trial) -> None:
        super().judge(folder, trial)
        mine = [one for one in self.client.jobs() if one.name == self.job.name]
        alive = [one for one in mine if one.state not in ("CANCELED", "FINISHED", "FAILED")]
        done = [one for one in mine if one.state == "FINISHED"]
        trial.expect(len(alive) == 1 or (not alive and bool(done)), f"{len(alive)} jobs run: {mine}")
        left = sorted(path.name for path in (folder / "home").rglob("*") if path.is_file())
        trial.expect(not left, f"rescales under way for ever: {left}")
        if len(alive) == 1:
            degrees = [vertex.parallelism for vertex in self.client.job(alive[0].id).vertices]
            trial.expect(max(degrees) > 1, f"the job runs with {degrees}")
        try:
            wait_for(self._is_over, "the job's end")
        except ChaosError as error:
            trial.expect(False, str(error))
        seen = self.job.committed()
        lost = self.records - sum(1 for number in range(self.records) if seen[number])
        doubled = sum(times - 1 for times in seen.values())
        trial.expect(not lost and not doubled, f"{lost} records lost, {doubled} doubled")

    def _is_over(self) -> bool:
        return not any(one.name == self.job.name and one.state == "RUNNING" for one in self.client.jobs())


ENGINES = (TuneOnTimely, TuneOnFlink)

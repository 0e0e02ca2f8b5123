"""The processes that are killed, and what must be true of what they leave: after a kill, and after they ran again."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from engines.flink.fake_flink import FakeFlink
from streamtune.control.audit import read_audit
from streamtune.dataflow import Run
from streamtune.sealed import read_sealed
from streamtune.service.learn.rounds import Rounds

SPEED = 50.0  # of collect's clock
RECORDS = 5


class Server:
    """``server.py``, and one request after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("server.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
        )

    def run(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request, default=str), file=self._process.stdin, flush=True)
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert not found["hung"], f"{request['words'][0]} hangs after {found['last']}"
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def a_server() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.close()


@dataclass
class Trial:
    """One process that was killed and run again, and everything that was wrong with what it left."""

    process: str
    last_step: str
    wrong: list[str] = field(default_factory=list)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)


def whole_runs(folder: Path, trial: Trial) -> list[Run]:
    """All runs that ingestion would read; a line that is not one is wrong."""
    runs = []
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text().split("\n")[:-1]:
            try:
                runs.append(Run.model_validate_json(line))
            except ValueError as error:
                trial.expect(False, f"{file.name} has half a run: {error}")
    ids = [run.run_id for run in runs]
    trial.expect(len(ids) == len(set(ids)), "a run is there twice")
    return runs


def left_over(folder: Path) -> list[str]:
    """What a killed process left half written, and nobody took away."""
    return sorted(path.name for path in folder.rglob(".*") if path.name.endswith((".tmp", ".new")) or path.is_dir())


class Kills(ABC):
    """A process that is killed and run again, and what is looked at afterwards."""

    name: str
    steps: int
    seconds: float

    def __init__(self, server: Server, work: Path) -> None:
        self.server, self.work = server, work

    @abstractmethod
    def kill(self, **how: Any) -> Trial | None:
        """Kill it as told, run it again and judge both; None where it ended before the kill."""

    def close(self) -> None:
        """End what was started for all trials; most start nothing."""
        return

    def fresh(self) -> Path:
        """An empty folder; not a new one, since it may be a disk of its own."""
        folder = self.work / "place"
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return folder


class CommandKills(Kills):
    """A command that ends by itself, and all of whose traces are in one folder."""

    @abstractmethod
    def run(self, folder: Path, **how: Any) -> dict[str, Any]:
        """Run it once, to its end or to where it is killed."""

    @abstractmethod
    def judge(self, folder: Path, trial: Trial) -> None:
        """What a process that was stopped left, and what it comes to when it runs again."""

    def undisturbed(self) -> Path:
        """The folder of one that nobody disturbs; its steps and seconds are what kills are drawn from."""
        folder = self.fresh()
        began = time.monotonic()
        ended = self.run(folder)
        self.seconds = time.monotonic() - began
        assert ended["code"] == 0, (self.work / "place.log").read_text()
        self.steps = ended["steps"]
        return folder

    def kill(self, **how: Any) -> Trial | None:
        folder = self.fresh()
        ended = self.run(folder, **how)
        if not ended["killed"]:
            return None
        trial = Trial(self.name, ended["last"])
        self.judge(folder, trial)
        return trial


# tune


def tune_words(folder: Path) -> list[str]:
    rates = folder.parent / "rates.yaml"
    rates.write_text("[2, 6, 3]\n")
    return [
        "tune", "nexmark-q1", "--rates", str(rates), "--state", str(folder / "state.db"), "--json",
        "--audit", str(folder / "audit.jsonl"), "--history", str(folder / "runs"), "--report", str(folder / "r.html"),
    ]  # fmt: skip


def _events(folder: Path, trial: Trial) -> list[dict[str, Any]]:
    file = folder / "audit.jsonl"
    if not file.exists():
        return []
    events = [_without_time(event) for event in read_audit(file)]
    lines = [line for line in file.read_bytes().split(b"\n") if line]
    trial.expect(len(lines) - len(events) <= 1, "more than one line of the audit trail is broken")
    return events


def _without_time(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key not in ("time", "at", "observed_at")}


def _state(folder: Path) -> list[dict[str, Any]]:
    file = folder / "state.db"
    if not file.exists():
        return []
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        if not connection.execute("select 1 from sqlite_master where name = 'observations'").fetchall():
            return []
        rows = connection.execute("select observation from observations order by number").fetchall()
    return [{key: part for key, part in json.loads(row[0]).items() if key != "observed_at"} for row in rows]


class TuneKills(CommandKills):
    """``tune`` on the simulator is the same every time, so what a killed one left must be the beginning of a whole."""

    name = "tune"
    parts = ("memory",)

    def __init__(self, server: Server, work: Path) -> None:
        super().__init__(server, work)
        self.run(self.fresh())  # the first one loads what all later ones have
        folder, whole = self.undisturbed(), Trial("tune", "")
        self.events, self.rows = _events(folder, whole), _state(folder)
        self.runs = len(whole_runs(folder / "runs", whole))
        assert not whole.wrong
        assert self.runs == len(self.rows) > 3

    def run(self, folder: Path, **how: Any) -> dict[str, Any]:
        return self.server.run(words=tune_words(folder), folder=folder, parts=self.parts, **how)

    def judge(self, folder: Path, trial: Trial) -> None:
        """What a process that was stopped left, and what it comes to when it runs again."""
        events, rows = _events(folder, trial), _state(folder)
        runs = whole_runs(folder / "runs", trial) if (folder / "runs").exists() else []
        self.compare(folder, events, rows, trial)
        told = sum(event["event"] == "observed" for event in events)
        trial.expect(abs(told - len(rows)) <= 1, f"{told} observations in the audit trail, {len(rows)} in the state")
        trial.expect(abs(len(runs) - len(rows)) <= 1, f"{len(runs)} runs in the history, {len(rows)} in the state")
        again = self.run(folder)
        trial.expect(again["code"] == 0, f"run again it ended with {again['code']}")
        after = _state(folder)
        trial.expect(after[: len(rows)] == rows, "what was learnt before the kill is gone")
        more = _events(folder, trial)
        trial.expect(more[: len(events)] == events, "the audit trail lost what it said before the kill")
        later = sum(event["event"] == "observed" for event in more) - told
        trial.expect(len(after) - len(rows) == later, f"{later} observations told, {len(after) - len(rows)} kept")
        trial.expect(len(whole_runs(folder / "runs", trial)) - len(runs) == later, "the history has other runs")
        trial.expect(not left_over(folder), f"left over: {left_over(folder)}")

    def compare(self, folder: Path, events: list[dict[str, Any]], rows: list[dict[str, Any]], trial: Trial) -> None:
        """What is left against a run that nobody disturbed."""
        trial.expect(events == self.events[: len(events)], "the audit trail is no beginning of a whole one")
        trial.expect(rows == self.rows[: len(rows)], "the state is no beginning of a whole one")
        trial.expect(not (folder / "r.html").exists() or len(events) == len(self.events), "a report of half a story")


# collect


@contextmanager
def ticking(flink: FakeFlink, speed: float = 1.0) -> Iterator[None]:
    """Let the time of a fake Flink pass as ours does, or faster."""
    over = threading.Event()

    def tick() -> None:
        last = time.monotonic()
        while not over.wait(0.005):
            now = time.monotonic()
            flink.clock.sleep(speed * (now - last))
            last = now

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class CollectKills(CommandKills):
    """``collect`` starts anew after a kill: what it wrote is whole, and nothing is written twice."""

    name = "collect"

    def __init__(self, server: Server, work: Path) -> None:
        super().__init__(server, work)
        self.undisturbed()

    def run(self, folder: Path, **how: Any) -> dict[str, Any]:
        with FakeFlink() as flink, ticking(flink, SPEED):
            words = ["collect", "--url", flink.url, "--out", str(folder / "records"), "--window-s", "10"]
            words += ["--settle-s", "0", "--poll-s", "5", "--limit", str(RECORDS)]
            return self.server.run(words=words, folder=folder, parts=(), speed=SPEED, **how)

    def judge(self, folder: Path, trial: Trial) -> None:
        before = whole_runs(folder / "records", trial) if (folder / "records").exists() else []
        again = self.run(folder)
        trial.expect(again["code"] == 0, f"run again it ended with {again['code']}")
        after = whole_runs(folder / "records", trial)
        trial.expect({run.run_id for run in before} <= {run.run_id for run in after}, "records are gone")
        trial.expect(len(after) == len(before) + RECORDS, f"{len(before)} records, then {len(after)}")
        trial.expect(not left_over(folder), f"left over: {left_over(folder)}")


# learn, without Spark


class LearnKills(CommandKills):
    """A round of learning goes on where it was killed: one model, promoted once and said once."""

    name = "learn"

    def __init__(self, server: Server, work: Path) -> None:
        super().__init__(server, work)
        folder, whole = self.undisturbed(), Trial("learn", "")
        self.check(folder, whole)
        assert not whole.wrong, whole.wrong

    def fresh(self) -> Path:
        from good_run import GOOD_RUN

        folder = super().fresh()
        (folder / "runs").mkdir()
        for number in range(6):
            lines = [
                {**GOOD_RUN, "run_id": f"{number}-{one}", "observed_at": f"2026-03-0{number + 1}T10:0{one}:00+00:00"}
                for one in range(5)
            ]
            (folder / "runs" / f"runs-{number}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines))
        return folder

    def run(self, folder: Path, **how: Any) -> dict[str, Any]:
        words = ["learn", "--data", str(folder), "--store", f"sqlite:///{folder}/service.db", "--min-runs", "1"]
        return self.server.run(words=words, folder=folder, parts=("store",), prepare="without spark", **how)

    def judge(self, folder: Path, trial: Trial) -> None:
        current = folder / "learn.json"
        # Stopped after its last word was kept, the round is over: there is nothing new to learn from.
        over = current.exists() and Rounds(folder).current() is None
        again = self.run(folder)
        trial.expect(again["code"] == (2 if over else 0), f"run again it ended with {again['code']}")
        self.check(folder, trial)

    def check(self, folder: Path, trial: Trial) -> None:
        from streamtune.service.store import Store

        store = Store(f"sqlite:///{folder}/service.db")
        try:
            models, said = store.models.all(), [entry for entry in store.audit.newest(100) if "model" in entry.what]
        finally:
            store.close()
        trial.expect([model.status for model in models] == ["running"], f"models: {[one.status for one in models]}")
        trial.expect([one.what for one in said] == ["model_promoted"], f"said: {[one.what for one in said]}")
        for model in models:
            files = read_sealed(model.path, "stub", 1)[1]
            ingested = json.loads((folder / "ingested.json").read_text())
            trial.expect(sorted(files) == ingested, "the model is not of the files that were ingested")
        trial.expect(not left_over(folder), f"left over: {left_over(folder)}")


# serve


class CountingFlink(FakeFlink):
    """Keeps every plan that it was sent."""

    def __init__(self) -> None:
        self.puts: list[str] = []
        super().__init__()

    def answer(self, method: str, path: str, body: Any) -> Any:
        if method == "PUT":
            self.puts.append(json.dumps(body, sort_keys=True))
        return super().answer(method, path, body)


class ServeKills(Kills):
    """``serve`` over a Flink that lives on: it goes on with what it had begun, and applies nothing twice."""

    name = "serve"
    parts = ("store", "http")

    def __init__(self, server: Server, work: Path) -> None:
        super().__init__(server, work)
        folder, whole = self.fresh(), Trial("serve", "")
        with self._flink() as flink:
            began = time.monotonic()
            ended = self._run(folder, flink)
            self.seconds = time.monotonic() - began
            self.check(folder, flink, whole)
        assert ended["code"] == 0, (self.work / "place.log").read_text()
        assert not whole.wrong, whole.wrong
        self.steps = ended["steps"]

    @contextmanager
    def _flink(self) -> Iterator[CountingFlink]:
        with CountingFlink() as flink, ticking(flink):
            yield flink

    def _run(self, folder: Path, flink: CountingFlink, **how: Any) -> dict[str, Any]:
        """Until the job is calm, then SIGTERM; or until the kill."""
        policy = {"pattern": "*", "mode": "auto", "tuner": "ds2", "max_per_hour": 20}
        said = {"clusters": [{"name": "main", "url": flink.url}], "policies": [policy], "window_s": 1, "settle_s": 1,
                "discover_s": 1, "lease_s": 5}  # fmt: skip
        config = folder / "streamtune.yaml"
        config.write_text(yaml.safe_dump({"service": said}))
        words = ["serve", "--config", str(config), "--port", "0", "--data", str(folder / "data")]
        words += ["--store", f"sqlite:///{folder}/service.db"]
        calm = folder / "calm"
        calm.unlink(missing_ok=True)
        over = threading.Event()
        log = self.work / "place.log"
        begun = log.stat().st_size if log.exists() else 0

        def wait_for_calm() -> None:
            while not over.wait(0.1):
                serves = log.exists() and b"dashboard: " in log.read_bytes()[begun:]
                if serves and flink.degrees["work"] >= 4 and self._settled(folder):
                    calm.touch()
                    return

        waiting = threading.Thread(target=wait_for_calm, daemon=True)
        waiting.start()
        try:
            return self.server.run(words=words, folder=folder, parts=self.parts, until=calm, limit_s=90, **how)
        finally:
            over.set()
            waiting.join()

    @staticmethod
    def _settled(folder: Path) -> bool:
        """Is every decision over, and was the job looked at after the last one?"""
        try:
            with closing(sqlite3.connect(f"file:{folder}/service.db?mode=ro", uri=True)) as store:
                statuses = [row[0] for row in store.execute("select status from decisions")]
        except sqlite3.Error:
            return False
        return bool(statuses) and not {"applying", "approved"} & set(statuses) and "applied" in statuses

    def kill(self, **how: Any) -> Trial | None:
        folder = self.fresh()
        with self._flink() as flink:
            ended = self._run(folder, flink, **how)
            if not ended["killed"]:
                return None
            trial = Trial(self.name, ended["last"])
            again = self._run(folder, flink)
            trial.expect(again["code"] == 0, f"run again it ended with {again['code']}")
            self.check(folder, flink, trial)
        return trial

    def check(self, folder: Path, flink: CountingFlink, trial: Trial) -> None:
        puts = flink.puts
        twice = [one for one, two in pairwise(puts) if one == two]
        trial.expect(not twice, f"the same plan was applied {len(twice) + 1} times on end")
        trial.expect(flink.degrees["work"] >= 4, "the job is still short")
        with closing(sqlite3.connect(folder / "service.db")) as store:
            trial.expect(store.execute("pragma integrity_check").fetchall() == [("ok",)], "the store is damaged")
            statuses = [row[0] for row in store.execute("select status from decisions")]
            leases = store.execute("select count(*) from leases").fetchone()[0]
        over = [one for one in statuses if one in ("applied", "failed", "rolled_back")]
        trial.expect("applying" not in statuses, "a decision is being applied for ever")
        trial.expect(len(puts) <= len(over), f"{len(puts)} plans were sent, {len(over)} decisions know of them")
        trial.expect(leases == 0, f"{leases} leases are left")
        runs = folder / "data" / "runs"
        if runs.exists():
            whole_runs(runs, trial)
            trial.expect(not left_over(runs), f"left over: {left_over(runs)}")


PROCESSES = (TuneKills, CollectKills, LearnKills, ServeKills)

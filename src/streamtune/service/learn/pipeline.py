"""``Learner``: ingest, label, featurise, cluster, pretrain, evaluate, register, promote; each step once per round."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from streamtune.dataflow import Run
from streamtune.errors import StreamTuneError
from streamtune.history.settings import FeaturiseSettings
from streamtune.outputs import OutputError, write_whole
from streamtune.readings.settings import LabelSettings
from streamtune.service.errors import ServiceError
from streamtune.service.learn.replay import Scores, replay
from streamtune.service.learn.rounds import STEPS, Round, Rounds
from streamtune.service.recording import SUMMARY
from streamtune.service.settings import LearnSettings
from streamtune.service.store import Store
from streamtune.service.store.models import ModelRow
from streamtune.signatures import SignatureError
from streamtune.similarity.settings import KMeansSettings
from streamtune.spark.errors import stopped
from streamtune.spark.settings import SparkSettings
from streamtune.training.settings import PretrainSettings

if TYPE_CHECKING:
    from streamtune.history.store import History

Tell = Callable[[str, str], None]
# Never more than this part of what there is is kept from training.
_HELD_OUT_SHARE = 0.2
_LEAST_TRAINED_SHARE = 0.5
_SAMPLES = 3
_ON_SPARK = STEPS[:5]


@dataclass(frozen=True)
class LearnResult:
    """How a round ended."""

    version: str
    promoted: bool
    scores: dict[str, float | None]
    compared_with: str | None
    reason: str


@dataclass
class Learner:
    """Learns from the files of runs in ``data/runs``. The history, the clusters and the models are below ``data``."""

    data: Path
    store: Store
    settings: LearnSettings
    spark: SparkSettings
    label: LabelSettings
    featurise: FeaturiseSettings
    cluster: KMeansSettings
    pretrain: PretrainSettings
    tell: Tell = lambda _step, _text: None

    def __post_init__(self) -> None:
        self._rounds = Rounds(self.data)

    def learn(self) -> LearnResult:
        """One round; one that was broken off before is finished first."""
        with self._rounds.alone():
            try:
                return self._learn()
            except (ServiceError, OutputError, SignatureError):
                raise  # Spark, the store, the disk or a key was away: the round goes on the next time
            except StreamTuneError:
                self._rounds.give_up()  # its data cannot be learnt from: the next round has more
                raise

    def _learn(self) -> LearnResult:
        one = self._rounds.current() or self._new_round()
        self._rounds.save(one)
        if one.done:
            self.tell("resume", f"round {one.version} goes on after '{one.done[-1]}'")
        if one.next_step in _ON_SPARK:
            with self._history() as history:
                while one.next_step in _ON_SPARK:
                    one = self._do(one, partial(self._on_spark, history))
        while one.next_step is not None:
            one = self._do(one, self._judge)
        return LearnResult(**one.results["register"])  # type: ignore[arg-type]

    def _do(self, one: Round, work: Callable[[Round, str], dict[str, Any]]) -> Round:
        step = one.next_step
        assert step is not None
        self.tell(step, f"{STEPS.index(step) + 1} of {len(STEPS)}")
        result = work(one, step)
        one = one.with_done(step, result)
        self._rounds.save(one)
        self.tell(step, ", ".join(f"{key} {value}" for key, value in result.items() if not isinstance(value, dict)))
        return one

    def _judge(self, one: Round, step: str) -> dict[str, Any]:
        return self._evaluate(one) if step == "evaluate" else self._register(one)

    # What a round works on

    def _new_round(self) -> Round:
        """New files and the newest runs, which are kept from training to judge by."""
        folder = self.data / "runs"
        known = self._rounds.ingested()
        new = sorted(file.name for file in folder.glob("*.jsonl")) if folder.is_dir() else []
        new = [name for name in new if name not in known]
        times, engines = self._survey(new)
        usable = [name for name in new if name in times]
        total = sum(count for _, _, count in times.values())
        if total < self.settings.min_runs:
            raise ServiceError(
                f"{total} new runs in {folder} are fewer than {self.settings.min_runs}: let the service observe more, "
                "or lower --min-runs"
            )
        newest = max(last for _, last, _ in times.values())
        cut = newest - timedelta(days=self.settings.evaluate_days)
        held_out: list[str] = []
        kept = 0
        for name in sorted(usable, key=lambda one: times[one][0], reverse=True):
            count = times[name][2]
            most = _HELD_OUT_SHARE if held_out else _LEAST_TRAINED_SHARE  # of few files, the newest all the same
            if times[name][0] < cut or kept + count > most * total:
                break
            held_out.append(name)
            kept += count
        if not held_out:
            raise ServiceError(
                f"{folder} has too few files to keep some for judging by: let the service observe for some minutes more"
            )
        files = [name for name in usable if name not in set(held_out)]
        engine = self.settings.engine or max(engines, key=lambda one: engines[one])
        now = datetime.now(UTC)
        return Round(
            version=self._new_version(now),
            started=now,
            files=tuple(files),
            held_out=tuple(sorted(held_out)),
            engine=engine,
            data_from=min(times[name][0] for name in files),
            data_until=max(times[name][1] for name in files),
        )

    def _new_version(self, now: datetime) -> str:
        """A name that no model has yet, although the clock may have been put back."""
        first = f"m{now:%Y%m%d-%H%M%S}"
        names = (first if number == 1 else f"{first}-{number}" for number in count(1))
        return next(
            name for name in names if self.store.models.get(name) is None and not (self.data / "models" / name).exists()
        )

    def _survey(self, names: list[str]) -> tuple[dict[str, tuple[datetime, datetime, int]], dict[str, int]]:
        """First and last moment and number of runs of every file, and runs by engine; without reading them closely."""
        found: dict[str, tuple[datetime, datetime, int]] = {}
        engines: dict[str, int] = {}
        for name in names:
            moments = []
            for line in (self.data / "runs" / name).read_bytes().splitlines():
                try:
                    run = json.loads(line)
                    moments.append(datetime.fromisoformat(run["observed_at"]).astimezone(UTC))
                    engines[str(run["engine"])] = engines.get(str(run["engine"]), 0) + 1
                except (ValueError, KeyError, TypeError):
                    continue  # left to the quarantine
            if moments:
                found[name] = (min(moments), max(moments), len(moments))
        return found, engines

    # The steps on Spark

    @contextmanager
    def _history(self) -> Iterator[History]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        from streamtune.history.store import History
        from streamtune.spark.session import build_session

        running = SparkSession.getActiveSession()
        try:
            spark = build_session(self.spark)
            try:
                yield History(spark, str(self.data / "history"))
            finally:
                if running is None:
                    spark.stop()
        except (PySparkException, Py4JError) as error:
            told = stopped(error, str(self.data / "history"))
            raise ServiceError(f"{told}. Run 'streamtune learn' again to go on") from error

    def _on_spark(self, history: History, one: Round, step: str) -> dict[str, Any]:
        from streamtune.history.cluster import cluster
        from streamtune.history.featurise import featurise
        from streamtune.history.ingest import ingest
        from streamtune.history.label import label

        if step == "ingest":
            report = ingest(history, [str(self.data / "runs" / name) for name in one.files])
            self._rounds.note_ingested(one.files)
            self._summarise(history)
            if not report.valid and not (history.runs.exists and history.runs.rows()):
                where = f"{self.data / SUMMARY} and the page History say why"
                raise StreamTuneError(f"all {report.rejected} runs were put into quarantine: {where}")
            return {"in": report.rows_in, "valid": report.valid, "rejected": report.rejected}
        if step == "label":
            return {"runs": label(history, self.label)}
        if step == "featurise":
            # Judged by what was observed last, so that no job need be kept from training, of which there may be few.
            return {"columns": featurise(history, self.featurise.replace(test_share=0.0)).width}
        if step == "cluster":
            summary = cluster(history, self._clusters(one), settings=self.cluster)
            return {"clusters": summary.k, "shapes": summary.shapes}
        return self._pretrain(history, one)

    def _clusters(self, one: Round) -> Path:
        return self.data / "clusters" / one.version

    def _bundle(self, one: Round) -> Path:
        return self.data / "models" / one.version

    def _pretrain(self, history: History, one: Round) -> dict[str, Any]:
        from streamtune.history.cluster import assignment, centres
        from streamtune.training.pretrain import Clustering, pretrain

        target = self._bundle(one)
        shutil.rmtree(target, ignore_errors=True)  # half of one that was broken off
        folder = self._clusters(one)
        manifest = pretrain(
            history,
            target,
            clustering=Clustering(assignment(history, folder), centres(folder)),
            engine=one.engine,
            settings=self.pretrain,
            progress=lambda name, message: self.tell("pretrain", f"{name}: {message}"),
        )
        return {"encoders": len(manifest.members), "runs": manifest.data["runs"], "jobs": manifest.data["jobs"]}

    def _summarise(self, history: History) -> None:
        """What the dashboard shows of the history."""
        from pyspark.sql import functions as sql

        days = history.runs.read().groupBy("day", "engine").count().collect() if history.runs.exists else []
        reasons: list[dict[str, Any]] = []
        if history.rejected.exists:
            rows = history.rejected.read().select(sql.explode("reasons").alias("reason"), "raw")
            samples = sql.slice(sql.collect_list(sql.substring("raw", 1, 200)), 1, _SAMPLES).alias("samples")
            found = rows.groupBy("reason").agg(sql.count("*").alias("count"), samples).collect()
            reasons = [{"reason": row.reason, "count": row["count"], "samples": row.samples} for row in found]
        said = {
            "days": [{"day": str(row.day), "engine": row.engine, "runs": row["count"]} for row in days],
            "rejected": history.rejected.rows() if history.rejected.exists else 0,
            "reasons": reasons,
            "files": sorted(self._rounds.ingested()),
        }
        write_whole(self.data / SUMMARY, json.dumps(said))

    # The steps without

    def _held_out(self, one: Round) -> list[Run]:
        """The newest runs, thinned evenly to as many as the settings say."""
        runs = []
        for name in one.held_out:
            for line in (self.data / "runs" / name).read_bytes().splitlines():
                try:
                    run = Run.model_validate_json(line)
                    run.dataflow  # noqa: B018 - a graph that cannot be is refused here
                except (ValidationError, StreamTuneError):
                    continue
                if run.engine == one.engine:
                    runs.append(run)
        stride = max(1, -(-len(runs) // self.settings.max_windows))
        return runs[::-1][::stride]

    def _evaluate(self, one: Round) -> dict[str, Any]:
        runs = self._held_out(one)
        running = self.store.models.running()
        candidate = replay(self._bundle(one), runs)
        before = replay(running.path, runs) if running is not None and running.path.exists() else None
        return {
            "windows": len(runs),
            "candidate": None if candidate is None else candidate.record(),
            "running": None if before is None else before.record(),
            "compared_with": None if running is None else running.version,
        }

    def _register(self, one: Round) -> dict[str, Any]:
        found = one.results["evaluate"]
        candidate, before = _scores(found["candidate"]), _scores(found["running"])
        promoted, reason = self._verdict(candidate, before)
        data = {"from": one.data_from.isoformat(), "until": one.data_until.isoformat()}
        now = datetime.now(UTC)
        compared = found["compared_with"]
        row = ModelRow(
            version=one.version,
            created=now,
            path=self._bundle(one),
            data={**data, "runs": one.results["pretrain"]["runs"], "windows": found["windows"]},
            scores={} if candidate is None else candidate.record(),
            status="candidate" if promoted else "rejected",
            compared_with=None if compared is None else str(compared),
            changed=reason,
        )
        if self.store.models.get(one.version) is None:  # there already, where this step was broken off
            self.store.models.register(row, promote=promoted, who="learn")
        return {
            "version": one.version,
            "promoted": promoted,
            "scores": dict(row.scores),
            "compared_with": row.compared_with,
            "reason": reason,
        }

    def _verdict(self, candidate: Scores | None, before: Scores | None) -> tuple[bool, str]:
        """Whether a new model may run, and why."""
        if candidate is None:
            return False, "no run of the newest days could be compared with"
        if before is None:
            return True, "the first model"
        worse = candidate.worse_than(before, self.settings.tolerance)
        if worse:
            return False, f"worse than the running one: {'; '.join(worse)}"
        return True, (
            f"not worse: threshold error {before.threshold_error:.3f} → {candidate.threshold_error:.3f}, "
            f"would-be backpressure {before.backpressure:.3f} → {candidate.backpressure:.3f}, "
            f"parallelism {before.parallelism:.2f} → {candidate.parallelism:.2f}"
        )


def _scores(record: Any) -> Scores | None:
    return None if record is None else Scores(**{**record, "operators": int(record["operators"])})

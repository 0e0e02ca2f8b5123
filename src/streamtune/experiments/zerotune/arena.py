"""What all ZeroTune experiments share: sizes, labelled plans made on Spark, and models trained once and kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pydantic import Field

from streamtune.labs.cost_runs import calibrated_optisample
from streamtune.labs.settings import PlanDataSettings
from streamtune.models.costmodel.assembly import assembled, members_of, trained_member
from streamtune.models.costmodel.datasets import split
from streamtune.models.costmodel.model import CostModel
from streamtune.models.costmodel.settings import (
    CostModelSettings,
    CostNetworkSettings,
    CostTrainingSettings,
    Loss,
    Readout,
)
from streamtune.settings import LARGEST_SEED, Settings

# Numbers of queries that training never draws.
TEST_FIRST, SHOTS_FIRST = 20_000_000, 30_000_000


class ZeroTuneScale(Settings):
    """How large the experiments are. The defaults take about half an hour on two idle cores."""

    plans: int = Field(default=40_000, ge=1, description="labelled plans to learn from")
    test_plans: int = Field(default=200, ge=1, description="plans to test each structure on")
    parameter_plans: int = Field(default=300, ge=1, description="plans to test each parameter on")
    shots: int = Field(default=500, ge=1, description="plans of new structures for fine-tuning")
    members: int = Field(default=3, ge=1, description="networks of an ensemble")
    epochs: int = Field(default=40, ge=1, description="passes over the plans at most")
    curve: tuple[int, ...] = Field(default=(500, 1_000, 2_000, 4_000, 8_000), description="sizes of the learning curve")
    small_plans: int = Field(default=8_000, ge=1, description="labelled plans of the ablations")
    small_epochs: int = Field(default=25, ge=1, description="passes over the plans in the ablations")
    queries: int = Field(default=60, ge=1, description="queries that are optimised")
    reconfigurations: int = Field(default=30, ge=1, description="changes of rates for the online comparison")
    folds: int = Field(default=5, ge=2, description="folds of the cross-validation on real runs")
    real_epochs: int = Field(default=24, ge=1, description="passes over the real runs")
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="draws everything")
    jobs: int = Field(default=2, ge=1, description="networks trained at the same time")

    @classmethod
    def quick(cls) -> ZeroTuneScale:
        return cls(
            plans=900,
            test_plans=45,
            parameter_plans=60,
            shots=60,
            members=2,
            epochs=6,
            curve=(150, 300),
            small_plans=300,
            small_epochs=4,
            queries=6,
            reconfigurations=5,
            folds=2,
            real_epochs=3,
        )


@dataclass
class ZeroTuneArena:
    """Data and models under one folder; what is there already is not made again."""

    scale: ZeroTuneScale
    work: Path
    say: Callable[[str], None] = lambda _text: None
    _tables: dict[str, pa.Table] = field(default_factory=dict)

    def tables(self, *wanted: PlanDataSettings) -> list[pa.Table]:
        """Labelled plans; those that are missing are generated on Spark, all in one session."""
        missing = [settings for settings in wanted if not self._file(settings).exists()]
        if missing:
            self._generate(missing)
        for settings in wanted:
            key = str(self._file(settings))
            if key not in self._tables:
                self._tables[key] = pq.read_table(key)
        return [self._tables[str(self._file(settings))] for settings in wanted]

    def _file(self, settings: PlanDataSettings) -> Path:
        return self.work / "plans" / f"{key_of(settings.model_dump_json())}.parquet"

    def _generate(self, missing: Sequence[PlanDataSettings]) -> None:
        from streamtune.history.store import History
        from streamtune.labs.cost_plans import generate_plans, part_of_settings
        from streamtune.spark.session import build_session
        from streamtune.training.costmodel import plans_table

        spark = build_session()
        history = History(spark, str((self.work / "history").absolute()))
        for settings in missing:
            self.say(f"generating {settings.plans} plans of {', '.join(settings.structures)} ({settings.ranges})")
            generate_plans(history, settings)
            folder = f"{plans_table(history).location}/part={part_of_settings(settings)}"
            rows = ds.dataset(folder, format="parquet").to_table().sort_by([("query", "ascending")])
            file = self._file(settings)
            file.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, file)
        spark.stop()

    def training_plans(self, enumeration: str = "optisample", *, explore: bool = True) -> pa.Table:
        """The plans of seen structures over seen ranges; of others than the default no more than learning curves need.

        ``explore`` stretches half of OptiSample's plans, which is not the paper's.
        """
        is_usual = enumeration == "optisample" and explore
        settings = PlanDataSettings.model_validate(
            {
                "plans": self.scale.plans if is_usual else round(1.4 * max(self.scale.curve)),
                "seed": self.scale.seed,
                "enumeration": enumeration,
                "explore": explore,
            }
        )
        return self.tables(settings)[0]

    def main_model(self) -> CostModel:
        """Trained on all training plans; most experiments use it."""
        return self.models([self.task(self.training_plans(), self.scale.plans, main=True)])[0]

    def task(
        self,
        table: pa.Table,
        plans: int,
        *,
        main: bool = False,
        readout: Readout = "paths",
        loss: Loss = "log",
        feature_set: str = "all",
        q_error_weight: float | None = None,
    ) -> tuple[pa.Table, CostModelSettings]:
        """The first ``plans`` training plans with all validation plans, and how to learn from them."""
        scale, parts = self.scale, split(table)
        training = CostTrainingSettings(
            network=CostNetworkSettings(readout=readout),
            loss=loss,
            epochs=scale.epochs if main else scale.small_epochs,
            seed=scale.seed,
        )
        if q_error_weight is not None:
            training = training.model_copy(update={"q_error_weight": q_error_weight})
        settings = CostModelSettings.model_validate(
            {"training": training, "members": scale.members if main else 1, "feature_set": feature_set}
        )
        return pa.concat_tables([parts["train"].slice(0, plans), parts["validation"]]), settings

    def models(self, tasks: Sequence[tuple[pa.Table, CostModelSettings]]) -> list[CostModel]:
        """Train what is not there yet, one process per network, as many at once as ``jobs`` says."""
        folders = [self.work / "models" / key_of(fingerprint(table), one.model_dump_json()) for table, one in tasks]
        missing = [place for place, folder in enumerate(folders) if not folder.exists()]
        if missing:
            self._train(missing, folders, tasks)
        return [CostModel.load(folder) for folder in folders]

    def _train(
        self, missing: Sequence[int], folders: Sequence[Path], tasks: Sequence[tuple[pa.Table, CostModelSettings]]
    ) -> None:
        optisample = calibrated_optisample(self.scale.seed)
        with ProcessPoolExecutor(self.scale.jobs, mp_context=get_context("spawn")) as pool:
            running = {}
            for place in missing:
                table, settings = tasks[place]
                file = self.work / "tables" / f"{folders[place].name}.parquet"
                file.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(table, file)
                members = members_of(settings.model_dump_json())
                running[place] = [pool.submit(train_from_file, str(file), member) for member in members]
            for place, members_running in running.items():
                self.say(f"training {place + 1} of {len(tasks)}: {tasks[place][0].num_rows} plans")
                trained = [future.result() for future in members_running]
                model = assembled(tasks[place][1].model_dump_json(), trained, optisample)
                model.save(folders[place])


def train_from_file(file: str, settings_json: str) -> bytes:
    """One network in a process of its own."""
    return trained_member(pq.read_table(file), settings_json)[0]


def fingerprint(table: pa.Table) -> str:
    """Which plans these are, and what was measured of them."""
    columns = (table.column(name).to_pylist() for name in ("query", "latency_ms"))
    return "|".join(f"{query}:{latency_ms:.6g}" for query, latency_ms in zip(*columns, strict=True))


def key_of(*texts: str) -> str:
    """A name for what was made from these."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]

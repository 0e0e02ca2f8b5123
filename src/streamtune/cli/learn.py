"""``streamtune learn``: from what the service has observed to a new model, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamtune.cli.history import Conf, JsonOption, Master
from streamtune.cli.options import changed, resolved, setting
from streamtune.cli.output import err, out, print_json
from streamtune.extras import require
from streamtune.history.settings import FeaturiseSettings
from streamtune.models.encoder.settings import TrainingSettings
from streamtune.outputs import check_folder
from streamtune.readings.settings import LabelSettings
from streamtune.service.settings import LearnSettings, ServiceSettings
from streamtune.similarity.settings import KMeansSettings
from streamtune.spark.settings import SparkSettings, parse_conf
from streamtune.training.settings import PretrainSettings


def learn(
    data: Annotated[Path | None, setting(ServiceSettings, "data")] = None,
    store: Annotated[str | None, setting(ServiceSettings, "store")] = None,
    min_runs: Annotated[int | None, setting(LearnSettings, "min_runs")] = None,
    evaluate_days: Annotated[int | None, setting(LearnSettings, "evaluate_days")] = None,
    tolerance: Annotated[float | None, setting(LearnSettings, "tolerance")] = None,
    engine: Annotated[str | None, setting(LearnSettings, "engine")] = None,
    epochs: Annotated[int | None, setting(TrainingSettings, "epochs")] = None,
    roll_back: Annotated[bool, typer.Option("--rollback", help="Go back to the model before; learn nothing.")] = False,
    spark_master: Master = None,
    spark_conf: Conf = None,
    as_json: JsonOption = False,
) -> None:
    """Learn from what the service has observed, and promote the new model if it is not worse than the running one.

    Ingests new files of runs, labels, featurises, clusters and pre-trains on Spark; then replays the newest
    observations, which were kept from training, on both models. A round that was broken off goes on where it stopped.

    \b
    Examples:
      streamtune learn
      streamtune learn --spark-master spark://host:7077 --min-runs 1000
      streamtune learn --rollback
    """
    settings = resolved(ServiceSettings, store=store, data=None if data is None else str(data))
    how = changed(settings.learn, min_runs=min_runs, evaluate_days=evaluate_days, tolerance=tolerance, engine=engine)
    if settings.data is not None:
        check_folder(Path(settings.data), "--data")
    require("sqlalchemy", "alembic", extra="service", what="the service's store")
    from streamtune.service.store import Store

    opened = Store(settings.store_url)
    try:
        if roll_back:
            from datetime import UTC, datetime

            now = datetime.now(UTC)
            version = opened.models.roll_back(now)
            opened.audit.write(now, "command line", "model_rollback", version)
            out.print(f"{version} is running again", highlight=False)
            return
        require("pyspark", "pandas", "pyarrow", extra="spark", what="learning")
        require("torch", "torch_geometric", "xgboost", extra="learn", what="learning")
        from streamtune.service.learn.pipeline import Learner

        spark = resolved(SparkSettings, master=spark_master)
        training = resolved(PretrainSettings)
        result = Learner(
            data=settings.data_folder,
            store=opened,
            settings=how,
            spark=spark.replace(conf={**spark.conf, **parse_conf(spark_conf or [])}),
            label=resolved(LabelSettings),
            featurise=resolved(FeaturiseSettings),
            cluster=resolved(KMeansSettings),
            pretrain=training.replace(training=changed(training.training, epochs=epochs)),
            tell=lambda step, text: err.print(f"{step}: {text}", highlight=False, soft_wrap=True),
        ).learn()
    finally:
        opened.close()
    if as_json:
        print_json(result.__dict__)
        return
    out.print(
        f"model {result.version}: {'promoted' if result.promoted else 'rejected'}, {result.reason}", highlight=False
    )

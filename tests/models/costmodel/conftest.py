"""One small data set and one small model for all tests of this folder."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamtune.labs.cost_runs import calibrated_optisample, labelled_plan
from streamtune.labs.settings import PlanDataSettings
from streamtune.models.costmodel.columns import LABELLED_SCHEMA
from streamtune.models.costmodel.datasets import plans_of, split
from streamtune.models.costmodel.model import CostModel
from streamtune.models.costmodel.optisample import OptiSample
from streamtune.models.costmodel.settings import CostModelSettings, CostNetworkSettings, CostTrainingSettings

SMALL = CostModelSettings(
    members=2,
    training=CostTrainingSettings(
        network=CostNetworkSettings(width=32), epochs=12, patience=12, batch_plans=64, learning_rate=5e-3
    ),
)


def labelled(settings: PlanDataSettings, optisample: OptiSample) -> pa.Table:
    rows = [labelled_plan(number, settings, optisample) for number in range(settings.plans)]
    return pa.Table.from_pylist(rows, schema=LABELLED_SCHEMA)


@pytest.fixture(scope="session")
def optisample() -> OptiSample:
    return calibrated_optisample(seed=0, queries=120)


@pytest.fixture(scope="session")
def plans(optisample: OptiSample) -> pa.Table:
    return labelled(PlanDataSettings(plans=900), optisample)


@pytest.fixture(scope="session")
def model(plans: pa.Table, optisample: OptiSample) -> CostModel:
    parts = split(plans)
    return CostModel.train(plans_of(parts["train"]), plans_of(parts["validation"]), SMALL, optisample=optisample)

"""Capacity curves by operator type, and the past operators a bundle keeps: both from the same sums."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame

from streamtune.history.store import History
from streamtune.models.capacity import CapacityPrior, TypePrior
from streamtune.models.capacity.belief import WEIGHTS
from streamtune.models.capacity.prior import CurveSums, fit_type
from streamtune.models.transfer.past import SCHEMA, XY, PastOperators
from streamtune.readings import LabelSettings
from streamtune.training.sums import latest, operator_sums

# A type that was observed saturated less often than this keeps busy time as reported.
_LEAST_SATURATED = 5


def capacity_prior(history: History, engine: str, settings: LabelSettings | None = None) -> CapacityPrior:
    """The prior of each operator type in the training part of a history."""
    return fitted_types(operator_sums(history, engine, settings))


def past_and_types(
    history: History, engine: str, settings: LabelSettings, most_jobs: int
) -> tuple[PastOperators, CapacityPrior]:
    """Past operators and type priors, from one pass over the runs."""
    sums = operator_sums(history, engine, settings).cache()
    try:
        kept = latest(sums, most_jobs).select(*SCHEMA.names).toArrow().cast(SCHEMA)
        return PastOperators(kept), fitted_types(sums)
    finally:
        sums.unpersist()


def fitted_types(sums: DataFrame) -> CapacityPrior:
    """One task per operator type."""
    training = sums.where("trains")
    fitted = training.groupBy("type").applyInArrow(_fit, "type string, prior string, busy double")
    rows = sorted(fitted.toLocalIterator(), key=lambda row: str(row["type"]))
    return CapacityPrior(
        types={row["type"]: TypePrior.model_validate_json(row["prior"]) for row in rows if row["prior"]},
        saturated_busy={row["type"]: row["busy"] for row in rows if row["busy"] is not None},
    )


def _fit(operators: pa.Table) -> pa.Table:
    """One operator type: all its operators, in an order that does not depend on Spark's."""
    operators = operators.sort_by([(name, "ascending") for name in ("job", "version", "operator")])

    def column(name: str) -> npt.NDArray[np.float64]:
        return np.asarray(operators.column(name).to_numpy(), dtype=np.float64)

    xx = np.empty((operators.num_rows, WEIGHTS, WEIGHTS))
    for i in range(WEIGHTS):
        for j in range(i, WEIGHTS):
            xx[:, i, j] = xx[:, j, i] = column(f"xx{i}{j}")
    sums = CurveSums(xx, np.stack([column(name) for name in XY], axis=1), column("yy"), column("count"))
    prior = fit_type(sums.where(sums.count > 0)).model_dump_json() if (sums.count > 0).any() else None
    saturated = float(column("saturated").sum())
    busy = float(f"{column('saturated_busy').sum() / saturated:.8g}") if saturated >= _LEAST_SATURATED else None
    return pa.table(
        {
            "type": pa.array([operators.column("type")[0].as_py()], pa.string()),
            "prior": pa.array([prior], pa.string()),
            "busy": pa.array([busy], pa.float64()),
        }
    )

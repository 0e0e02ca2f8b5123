"""Why a row is rejected. One word per reason; docs/reference/rejected-runs.md lists the same words."""

from __future__ import annotations

UNREADABLE_FILE = "unreadable_file"
UNSUPPORTED_FILE = "unsupported_file"
LINE_TOO_LONG = "line_too_long"
BROKEN_JSON = "broken_json"
IMPOSSIBLE_TIME = "impossible_time"
WRONG_TYPE = "wrong_type"
MISSING_FIELD = "missing_field"
UNKNOWN_VERSION = "unknown_schema_version"
INVALID_DAG = "invalid_dag"
INVALID_FEATURE = "invalid_feature"
INVALID_PARALLELISM = "invalid_parallelism"
INVALID_METRIC = "invalid_metric"
TIMES_DO_NOT_ADD_UP = "times_do_not_add_up"
INCONSISTENT_FLOW = "inconsistent_flow"
MISSING_SOURCE_RATE = "missing_source_rate"
UNKNOWN_SOURCE = "unknown_source"
ZERO_SOURCE_RATE = "zero_source_rate"
ZERO_THROUGHPUT = "zero_throughput"
WINDOW_TOO_SHORT = "window_too_short"
DUPLICATE = "duplicate"
CONFLICTING_DUPLICATE = "conflicting_duplicate"
NON_FINITE_SELECTIVITY = "non_finite_selectivity"
PARALLELISM_VECTOR_LENGTH = "parallelism_vector_length"
PARALLELISM_MISMATCH = "parallelism_mismatch"
HARDWARE_CONTRADICTION = "hardware_contradiction"
WRONG_APPLICATION = "wrong_application"

DESCRIPTIONS = {
    UNREADABLE_FILE: "the file is damaged: what could be read of it was read, the rest is lost",
    UNSUPPORTED_FILE: "a file that is not read: use ordinary files of JSON lines (plain or gzip) or Parquet,"
    " names in UTF-8 without a colon",
    LINE_TOO_LONG: "the file has a line above the limit: that line was skipped, the others were read",
    BROKEN_JSON: "the line is not JSON, not UTF-8, or has half a letter",
    WRONG_TYPE: "a field has a value of a type that the schema does not have there",
    IMPOSSIBLE_TIME: "the run was observed before 2009, when there was no such engine, or after 2200",
    MISSING_FIELD: "a required field is null, empty or absent",
    UNKNOWN_VERSION: "the schema version is not one this release reads",
    INVALID_DAG: "no operators, an id twice, an edge to nowhere or listed twice, a cycle, no source, a source with"
    " inputs or another operator without",
    INVALID_FEATURE: "an operator type, window, tuple width or partitioning that is not valid",
    INVALID_PARALLELISM: "an operator's parallelism is missing or below 1",
    INVALID_METRIC: "a metric is negative, infinite or NaN",
    TIMES_DO_NOT_ADD_UP: "busy + idle + backpressured time is not about 1,000 ms per s",
    INCONSISTENT_FLOW: "an operator takes in more than its predecessors send",
    MISSING_SOURCE_RATE: "a source has no rate",
    UNKNOWN_SOURCE: "a rate is given for something that is not a source",
    ZERO_SOURCE_RATE: "no source has a rate above 0",
    ZERO_THROUGHPUT: "nothing came out anywhere",
    WINDOW_TOO_SHORT: "the measuring window is too short to trust its rates",
    DUPLICATE: "the same run is already there",
    CONFLICTING_DUPLICATE: "a run of this id is already there with other contents",
    NON_FINITE_SELECTIVITY: "a measured selectivity is NaN or infinite (PDSP-Bench)",
    PARALLELISM_VECTOR_LENGTH: "the requested parallelism does not have one entry per operator (PDSP-Bench, up to"
    " release 0.2: operators share entries, and such runs are sound)",
    PARALLELISM_MISMATCH: "an operator ran with another parallelism than requested (PDSP-Bench)",
    HARDWARE_CONTRADICTION: "path and cluster metadata name different hardware (PDSP-Bench)",
    WRONG_APPLICATION: "path, application, query and job name do not belong together (PDSP-Bench)",
}

# Reasons that a user may decide to live with: what is left is still a run that every later step can read.
TOLERABLE = frozenset(
    {
        TIMES_DO_NOT_ADD_UP,
        INCONSISTENT_FLOW,
        ZERO_SOURCE_RATE,
        ZERO_THROUGHPUT,
        WINDOW_TOO_SHORT,
        NON_FINITE_SELECTIVITY,
        PARALLELISM_VECTOR_LENGTH,
        PARALLELISM_MISMATCH,
        HARDWARE_CONTRADICTION,
        WRONG_APPLICATION,
    }
)

"""Runs command lines that need Spark, one after the other in one session, in the folder where it was started.

A shared session of the tests would not do: relative paths are looked up where its JVM was started. Reads a JSON list of
words per line, writes one line ``{"code": …, "text": …}`` for each.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from cli_fuzz import outcome
from streamtune.spark.session import build_session
from streamtune.spark.settings import SparkSettings


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")  # the JVM writes to the other one
    conf = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        # As in the shared session: compiling plans that run once costs more than running them badly.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    build_session(SparkSettings(master="local[2]", conf=conf))
    for line in sys.stdin:
        code, text = outcome(json.loads(line), Path.cwd(), 300)
        print(json.dumps({"code": code, "text": text}), file=answers, flush=True)


if __name__ == "__main__":
    main()

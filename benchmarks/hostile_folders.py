"""``make bench-hostile-folders``: drawn folders of hostile files through ingest, each held against a plain reader.

Every folder is drawn by its seed (names, kinds, sizes, sound and dirty rows; ``tests/history/hostile_folders.py``) and
read twice: by ingest in one warm Spark session, and by a reader in plain Python that shares no code with it. Rows
stored, rejected rows and files with their reasons, and counts must be the same. Every eighth folder is followed as a
stream. Prints what differs and writes ``benchmarks/results/hostile_folders.json``. FOLDERS (1000), SEED (0).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1] / "tests")  # in the place of this folder, which has a history.py

from history.hostile_ingest import check_folder  # noqa: E402
from streamtune.history.ingest import IngestReport  # noqa: E402
from streamtune.spark.session import build_session  # noqa: E402
from streamtune.spark.settings import SparkSettings  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "hostile_folders.json"
STREAM_EVERY = 8
# Many small plans, each run once: compiling them costs more than it saves.
CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def main() -> None:
    folders, first = int(os.environ.get("FOLDERS", "1000")), int(os.environ.get("SEED", "0"))
    print(f"{folders} folders, seeds {first} to {first + folders - 1}", flush=True)
    spark = build_session(SparkSettings(master="local[2]", conf=CONF, app_name="hostile-folders"))
    total, different = IngestReport(0, 0, 0, 0, new=False), {}
    streams = 0
    for seed in range(first, first + folders):
        work = Path(tempfile.mkdtemp(prefix="hostile-"))
        streamed = seed % STREAM_EVERY == STREAM_EVERY - 1
        streams += streamed
        try:
            report, problems = check_folder(spark, seed, work, streamed=streamed)
            total += report
        except Exception as error:  # a folder that ends the ingest is what we are looking for
            problems = [f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"]
        finally:
            shutil.rmtree(work, ignore_errors=True)
        if problems:
            different[seed] = [problem.encode("ascii", "backslashreplace").decode()[:500] for problem in problems]
            print(f"seed {seed}{' (stream)' if streamed else ''}:", *different[seed], sep="\n  ", flush=True)
        elif seed % 50 == 49:
            print(f"{seed - first + 1} folders, {len(different)} differ", flush=True)
    spark.stop()
    print(
        f"{folders} folders ({streams} as a stream), {total.files:,} files, {total.rows_in:,} rows in = "
        f"{total.valid:,} valid + {total.rejected:,} rejected; {len(different)} folders differ from the plain reader"
    )
    RESULTS.write_text(
        json.dumps(
            {
                "folders": folders,
                "seeds": [first, first + folders - 1],
                "streamed": streams,
                "files": total.files,
                "rows_in": total.rows_in,
                "valid": total.valid,
                "rejected": total.rejected,
                "folders_that_differ": different,
            },
            indent=1,
        )
        + "\n"
    )
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()

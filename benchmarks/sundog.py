"""Speed of Sundog on Spark: log lines to panes to rankings, in batch and as a stream, beside its rivals.

Everything runs in one warm session on two cores; rates are given by the clock and by processor seconds (of this
process, the JVM and Spark's Python workers), and the targets are ratios within a step. Steps, in order::

    rivals       phase 1 against plain DataFrames and against mapInArrow + hll_sketch_agg, and the bare scan
    stages       one core, without Spark: what each stage of phase 1 costs, and pyarrow's bare reading
    curve-…      1, 2, 10 and 50 M lines end to end, phase by phase, with peak memory; JSON lines for the smallest
    dictionary-… 10⁴, 10⁵ and 10⁶ names
    rerank-…     a 30-day window from panes against SQL and against reading the logs again
    stream       lines/s in batches of 4 M lines, and the size of the state
    arrivals     seconds from a file's arrival to its ranking, and the state with retention
    sketches     HyperLogLog's error and the Bloom filter's false positives

Writes ``benchmarks/results/sundog.json`` after every step and leaves out steps that stand there already, so that it
can be stopped and goes on: ``--for-s 400`` starts no step later than that; ``--again`` does all of them anew. ``--only
curve,stream`` chooses steps by how their names begin; ``--tiny`` tries everything at sizes that mean nothing; ``--work
DIR`` keeps generated logs there; ``--generate`` makes them and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from sundog_bench import CORES, Bench, Sizes, tell
from sundog_steps import arrivals, curve, dictionary, rerank, rivals_step, sketches, stages, stream
from sundog_verdicts import verdicts

from streamtune.spark.session import build_session
from streamtune.spark.settings import SparkSettings

RESULTS = Path(__file__).parent / "results" / "sundog.json"
Step = Callable[[Bench], Any]


def steps(sizes: Sizes) -> dict[str, Step]:
    """All steps by name, in the order in which they are run."""
    named: dict[str, Step] = {"rivals": rivals_step, "stages": stages}
    named[f"curve-{sizes.json_lines}-jsonl"] = partial(curve, lines=sizes.json_lines, kind="jsonl")
    named |= {f"curve-{lines}": partial(curve, lines=lines, kind="parquet") for lines in sizes.curve}
    named |= {f"dictionary-{names}": partial(dictionary, names=names) for names in sizes.names}
    named |= {f"rerank-{lines}": partial(rerank, lines=lines) for lines in sizes.rerank}
    return named | {"stream": stream, "arrivals": arrivals, "sketches": sketches}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="sizes that mean nothing; writes no result")
    parser.add_argument("--only", default="", help="steps by the beginning of their names, for instance rivals,curve")
    parser.add_argument("--again", action="store_true", help="also steps that have a result already")
    parser.add_argument("--for-s", type=float, default=1e9, help="start no step after so many seconds")
    parser.add_argument("--work", type=Path, help="keep generated logs here")
    parser.add_argument("--generate", action="store_true", help="make the logs, measure nothing")
    asked = parser.parse_args()
    sizes = Sizes.tiny() if asked.tiny else Sizes()
    wanted = chosen(parser, asked.only, steps(sizes))
    result: dict[str, Any] = {}
    if RESULTS.exists() and not asked.tiny:
        result = json.loads(RESULTS.read_text(encoding="utf-8"))["steps"]
    left = {name: step for name, step in wanted.items() if asked.again or name not in result}
    work = asked.work or Path(tempfile.mkdtemp(prefix="streamtune-sundog-"))
    start = time.monotonic()
    try:
        if asked.generate or left:
            run(left, sizes, work, result, start + asked.for_s, save=not asked.tiny, only_generate=asked.generate)
    finally:
        if asked.work is None:
            shutil.rmtree(work, ignore_errors=True)
    for verdict in verdicts(result):
        print(f"{'met' if verdict['met'] else 'MISSED'}: {verdict['target']}: {verdict['measured']}")


def chosen(parser: argparse.ArgumentParser, only: str, known: dict[str, Step]) -> dict[str, Step]:
    beginnings = [name for name in only.split(",") if name]
    for beginning in beginnings:
        if not any(name.startswith(beginning) for name in known):
            parser.error(f"no step begins with '{beginning}': there are {', '.join(known)}")
    return {name: step for name, step in known.items() if not beginnings or name.startswith(tuple(beginnings))}


def run(
    left: dict[str, Step],
    sizes: Sizes,
    work: Path,
    result: dict[str, Any],
    deadline: float,
    *,
    save: bool,
    only_generate: bool,
) -> None:
    """The steps, one after the other, in one session."""
    settings = SparkSettings(master=f"local[{CORES}]", app_name="bench-sundog", conf={"spark.driver.memory": "3g"})
    spark = build_session(settings)
    bench = Bench(spark, work.absolute(), sizes)
    try:
        if only_generate:
            bench.generate_all()
            return
        bench.warm_up()
        for name, step in left.items():
            if time.monotonic() > deadline:
                print(f"time is up before {name}: call this again to go on", flush=True)
                break
            result[name] = {**step(bench), "load_average": round(os.getloadavg()[0], 2)}
            tell(name, result[name])
            if save:
                RESULTS.parent.mkdir(exist_ok=True)
                record = {"cores": CORES, "steps": result, "verdicts": verdicts(result)}
                RESULTS.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    finally:
        spark.stop()


if __name__ == "__main__":
    main()

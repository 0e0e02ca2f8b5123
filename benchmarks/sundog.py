"""Speed of Sundog on Spark: log lines to panes to rankings, in batch and as a stream, beside its rivals.

Everything runs in one warm session on two cores; rates are given by the clock and by processor seconds (of this
process, the JVM and Spark's Python workers), and the targets are ratios within the run. Parts, in order::

    rivals       phase 1 against plain DataFrames and against mapInArrow + hll_sketch_agg, and the bare scan
    curve        1, 10 and 50 M lines end to end, phase by phase, with peak memory; JSON lines for the smallest
    dictionary   10⁴, 10⁵ and 10⁶ names
    rerank       a 30-day window from panes against SQL and against reading the logs again
    stream       sustained lines/s, seconds from a file's arrival to its ranking, size of the state
    sketches     HyperLogLog's error and the Bloom filter's false positives

Writes ``benchmarks/results/sundog.json``. ``--tiny`` tries everything at sizes that mean nothing;
``--only curve,stream`` runs some parts; ``--work DIR`` keeps generated logs there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from pyspark.sql import SparkSession

from streamtune.experiments.sundog import rivals
from streamtune.spark.session import build_session
from streamtune.spark.settings import SparkSettings
from streamtune.sundog.generator import generate
from streamtune.sundog.kernels.relations import may_be_related
from streamtune.sundog.kernels.sketch import estimates
from streamtune.sundog.knowledge import Knowledge, load_knowledge
from streamtune.sundog.packed import Packed
from streamtune.sundog.pipeline import Sundog
from streamtune.sundog.settings import LogSettings, RankDays, StreamSettings, SundogSettings, WorldSettings
from streamtune.sundog.stream import follow
from streamtune.sundog.world import last_day

CORES = 2
DAYS = 30
NAMES_PER_ENTITY = 1.29  # of a generated world
RESULTS = Path(__file__).parent / "results" / "sundog.json"


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    curve: tuple[int, ...] = (1_000_000, 2_000_000, 10_000_000, 50_000_000)
    json_lines: int = 1_000_000
    names: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    dictionary_lines: int = 2_000_000
    rivals: int = 2_000_000
    plain: int = 500_000
    rerank: int = 10_000_000
    stream: int = 20_000_000
    stream_batch: int = 4_000_000
    users: int = 1_000_000
    sketches: int = 200

    @classmethod
    def tiny(cls) -> Sizes:
        return cls((20_000, 40_000), 20_000, (1000, 3000), 20_000, 20_000, 10_000, 40_000, 60_000, 20_000, 5000, 10)


class Cost(NamedTuple):
    """What a step took."""

    seconds: float
    cpu_s: float
    peak_gib: float

    def rates(self, lines: int) -> dict[str, float]:
        return {
            "seconds": round(self.seconds, 2),
            "cpu_s": round(self.cpu_s, 2),
            "lines_per_s": round(lines / self.seconds),
            "lines_per_cpu_s": round(lines / max(self.cpu_s, 1e-9)),
            "peak_gib": round(self.peak_gib, 2),
        }


def family() -> list[psutil.Process]:
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


_USED: dict[tuple[int, float], float] = {}  # processor time of every process of the family, also of those that ended


def cpu_seconds() -> float:
    """Processor time of this process, the JVM and Spark's Python workers.

    Spark ends idle workers and nobody collects their times, so the last that was seen of each counts
    (``PeakMemory`` looks twice a second).
    """
    for process in family():
        try:
            times = process.cpu_times()
            _USED[process.pid, process.create_time()] = times.user + times.system
        except psutil.Error:
            continue
    return sum(_USED.values())


class PeakMemory(threading.Thread):
    """The largest sum of proportional memory of the family."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.5):
            cpu_seconds()
            total = 0
            for process in family():
                try:
                    total += process.memory_full_info().pss
                except psutil.Error:
                    continue
            self.peak_bytes = max(self.peak_bytes, total)

    def stop(self) -> float:
        self._done.set()
        self.join()
        return self.peak_bytes / 2**30


def timed(step: Callable[[], object]) -> Cost:
    memory = PeakMemory()
    memory.start()
    start, cpu = time.perf_counter(), cpu_seconds()
    step()
    seconds, used = time.perf_counter() - start, cpu_seconds() - cpu
    return Cost(seconds, used, memory.stop())


def tell(name: str, record: Any) -> None:
    print(f"{name}: {json.dumps(record)}", flush=True)


@dataclass
class Bench:
    """The session, where logs are, and what was made already."""

    spark: SparkSession
    work: Path
    sizes: Sizes
    known: dict[Path, Knowledge] = field(default_factory=dict)

    def world(self, lines: int, names: int = 100_000, kind: str = "parquet") -> Path:
        """A generated world of so many lines; made once."""
        names = min(names, self.sizes.names[-1])
        folder = self.work / f"world-{lines}-{names}-{kind}"
        if not (folder / "done").exists():
            settings = WorldSettings(entities=round(names / NAMES_PER_ENTITY), days=DAYS)
            logs = LogSettings(lines=lines, users=self.sizes.users, format=kind, file_lines=1_000_000)
            cost = timed(lambda: generate(self.spark, folder, settings, logs))
            (folder / "done").write_text("")
            tell(f"generated {folder.name}", cost.rates(lines))
        return folder

    def sundog(self, world: Path, out: str = "out", **settings: Any) -> Sundog:
        if world not in self.known:
            self.known = {world: load_knowledge(world / "knowledge")}
            self.known[world].matcher  # noqa: B018  (compiled outside the clock)
        place = world / out
        shutil.rmtree(place, ignore_errors=True)
        return Sundog(self.spark, self.known[world], str(place), SundogSettings(**settings))

    def warm_up(self) -> None:
        """Compile kernels, start workers, warm the JVM: a cold one lies."""
        for kind in ("jsonl", "parquet", "parquet"):
            world = self.world(self.sizes.plain, kind=kind)
            sundog = self.sundog(world)
            sundog.panes.clear()
            sundog.add(sundog.inputs([str(world / "logs")]))
            sundog.rank(last_day(WorldSettings(days=DAYS)), 30)


def phase_one(sundog: Sundog, world: Path) -> Cost:
    files = sundog.inputs([str(world / "logs")])
    return timed(lambda: sundog.add(files))


def bench_rivals(bench: Bench) -> dict[str, Any]:
    world = bench.world(bench.sizes.rivals)
    sundog = bench.sundog(world)
    ours = phase_one(sundog, world).rates(bench.sizes.rivals)
    spark, knowledge = bench.spark, sundog.knowledge
    lines = spark.read.parquet(str(world / "logs"))
    bare = timed(lambda: rivals.scan_and_tokenise(lines)).rates(bench.sizes.rivals)
    kernel = timed(lambda: rivals.count_with_kernel(lines, sundog._matcher, str(world / "kernel")))
    names, pairs = rivals.name_table(spark, knowledge), rivals.pair_table(spark, knowledge)
    names.count(), pairs.count()
    longest = max(len(name.split()) for of_entity in knowledge.names for name in of_entity)
    # The same world with fewer lines: a limit would put them all into one partition.
    few = spark.read.parquet(str(bench.world(bench.sizes.plain) / "logs"))
    plain = timed(
        lambda: rivals.count_with_dataframes(few, names, pairs, len(knowledge.ids), longest, str(world / "plain"))
    ).rates(bench.sizes.plain)
    with_kernel = kernel.rates(bench.sizes.rivals)
    record = {
        "ours": ours,
        "bare_scan": bare,
        "map_in_arrow_and_hll_sketch_agg": with_kernel,
        "plain_dataframes": plain,
    }
    for name, other in (("plain", plain), ("map_in_arrow", with_kernel), ("bare_scan", bare)):
        record[f"against_{name}"] = {
            key: round(ours[key] / other[key], 2) for key in ("lines_per_s", "lines_per_cpu_s")
        }
    return record


def bench_curve(bench: Bench) -> list[dict[str, Any]]:
    day, rows = last_day(WorldSettings(days=DAYS)), []
    plans = [(bench.sizes.json_lines, "jsonl"), *((lines, "parquet") for lines in bench.sizes.curve)]
    for lines, kind in plans:
        world = bench.world(lines, kind=kind)
        sundog = bench.sundog(world)
        first = phase_one(sundog, world)
        ranks = [timed(partial(sundog.rank, day, window)) for window in (1, 7, 30)]
        state = sundog.panes.require(sundog.knowledge.fingerprint)
        whole = Cost(
            first.seconds + sum(cost.seconds for cost in ranks),
            first.cpu_s + sum(cost.cpu_s for cost in ranks),
            max(first.peak_gib, *(cost.peak_gib for cost in ranks)),
        )
        rows.append(
            {
                "lines": lines,
                "format": kind,
                "phase_1": first.rates(lines),
                "rank_s": {window: round(cost.seconds, 2) for window, cost in zip((1, 7, 30), ranks, strict=True)},
                "rank_cpu_s": {window: round(cost.cpu_s, 2) for window, cost in zip((1, 7, 30), ranks, strict=True)},
                "end_to_end": whole.rates(lines),
                "logs_again_costs_more_by": round((first.cpu_s + ranks[-1].cpu_s) / ranks[-1].cpu_s, 2),
                "counts": state.counts.model_dump(),
                "state_mb": round(state.size_bytes / 1e6, 1),
            }
        )
        tell("curve", rows[-1])
    return rows


def bench_dictionary(bench: Bench) -> list[dict[str, Any]]:
    rows = []
    for names in bench.sizes.names:
        world = bench.world(bench.sizes.dictionary_lines, names)
        sundog = bench.sundog(world)
        rows.append(
            {
                "names": sum(map(len, sundog.knowledge.names)),
                **phase_one(sundog, world).rates(bench.sizes.dictionary_lines),
            }
        )
        tell("dictionary", rows[-1])
    return rows


def bench_rerank(bench: Bench) -> dict[str, Any]:
    day = last_day(WorldSettings(days=DAYS))
    world = bench.world(bench.sizes.rerank)
    sundog = bench.sundog(world)
    counting = phase_one(sundog, world)
    sundog.rank(day, 30)
    ours = timed(lambda: sundog.rank(day, 30))
    lines = bench.spark.read.parquet(str(world / "logs"))
    rivals.count_with_kernel(lines, sundog._matcher, str(world / "kernel"))
    pairs = rivals.pair_table(bench.spark, sundog.knowledge)

    def by_sql() -> None:
        rivals.rank_with_sql(
            bench.spark, str(world / "kernel"), pairs, len(sundog.knowledge.ids), day, 30, str(world / "sql")
        )

    by_sql()
    other = timed(by_sql)
    again = Cost(counting.seconds + ours.seconds, counting.cpu_s + ours.cpu_s, 0.0)
    return {
        "lines": bench.sizes.rerank,
        "pairs": sundog.rank(day, 30).pairs,
        "from_panes": {"seconds": round(ours.seconds, 2), "cpu_s": round(ours.cpu_s, 2)},
        "sql": {"seconds": round(other.seconds, 2), "cpu_s": round(other.cpu_s, 2)},
        "logs_again": {"seconds": round(again.seconds, 2), "cpu_s": round(again.cpu_s, 2)},
        "sql_costs_more_by": round(other.cpu_s / ours.cpu_s, 2),
        "logs_cost_more_by": round(again.cpu_s / ours.cpu_s, 2),
    }


def bench_stream(bench: Bench) -> dict[str, Any]:
    """All files at once in batches, without ranking; then single files one by one, with ranking."""
    world = bench.world(bench.sizes.stream)
    batch = phase_one(bench.sundog(world), world).rates(bench.sizes.stream)
    files = sorted((world / "logs").iterdir())
    per_batch = max(1, round(bench.sizes.stream_batch / (bench.sizes.stream / len(files))))
    sundog, states = bench.sundog(world, "stream"), []

    def drain(folder: Path, settings: StreamSettings) -> None:
        follow(
            sundog, str(folder), settings, on_batch=lambda report: states.append(report.state_bytes)
        ).awaitTermination()

    quiet = StreamSettings(once=True, rank=RankDays.none, max_files=per_batch)
    streamed = timed(lambda: drain(world / "logs", quiet)).rates(bench.sizes.stream)
    return {
        "batch": batch,
        "stream": streamed,
        "share_of_batch": round(streamed["lines_per_s"] / batch["lines_per_s"], 3),
        "share_of_batch_cpu": round(streamed["lines_per_cpu_s"] / batch["lines_per_cpu_s"], 3),
        "state_mb": [round(size / 1e6, 1) for size in states],
        "arrival_to_ranking_s": arrivals(bench, world, files),
    }


def arrivals(bench: Bench, world: Path, files: list[Path]) -> list[float]:
    """Seconds from the moment a small file is moved in until the tables that it changes are in place."""
    folder = world / "arriving"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    sundog, ended = bench.sundog(world, "live", compact_after=4, retention_days=40), threading.Event()
    settings = StreamSettings(windows=(1, 7), rank=RankDays.newest, every_s=0.5)
    query = follow(sundog, str(folder), settings, on_batch=lambda _: ended.set())
    took = []
    try:
        for file in files[:8]:
            ended.clear()
            start = time.perf_counter()
            shutil.copy(file, folder / f".{file.name}")
            (folder / f".{file.name}").rename(folder / file.name)
            if not ended.wait(300):
                raise RuntimeError("the stream did not take the file")
            took.append(round(time.perf_counter() - start, 2))
    finally:
        query.stop()
    return took


def bench_sketches(bench: Bench) -> dict[str, Any]:
    """Errors against exact counts, and pairs that pass the filter without being related."""
    random, errors = np.random.default_rng(0), {}
    for size in (1000, 10_000, 100_000):
        found = [_estimate(random, size) / size - 1 for _ in range(max(4, bench.sizes.sketches * 1000 // size))]
        errors[size] = {"standard_error": float(np.sqrt(np.mean(np.square(found)))), "bias": float(np.mean(found))}
    knowledge = bench.sundog(bench.world(bench.sizes.plain)).knowledge
    relations, entities = knowledge.matcher.relations, len(knowledge.ids)
    related = set(zip(knowledge.pairs.low.tolist(), knowledge.pairs.high.tolist(), strict=True))
    drawn = np.sort(random.integers(0, entities, (200_000, 2)), axis=1)
    others = [pair for pair in map(tuple, drawn.tolist()) if pair not in related and pair[0] != pair[1]]
    passed = sum(may_be_related(relations, *pair) for pair in others)
    return {"hyperloglog": errors, "bloom_false_positives": passed / len(others), "stated": 0.01}


def _estimate(random: np.random.Generator, size: int) -> int:
    hashes = random.integers(0, 2**64, size, dtype=np.uint64)
    rest = hashes << np.uint64(26)
    # The place of the first one-bit: 64 minus the bits of the number, exactly, in two halves that a double can hold.
    high, low = (rest >> np.uint64(32)).astype(np.float64), (rest & np.uint64(0xFFFFFFFF)).astype(np.float64)
    zeros = np.where(high > 0, 32 - np.frexp(high)[1], np.where(low > 0, 64 - np.frexp(low)[1], 38))
    coupons = (
        (hashes >> np.uint64(38)) << np.uint64(6) | np.minimum(zeros, 38).astype(np.uint64) + np.uint64(1)
    ).astype(np.uint32)
    ones = np.ones(size, np.int64)
    rows = Packed((0 * ones).astype(np.int32), ones.astype(np.uint32), ones, ones.astype(np.int32), coupons)
    merged = rows.merged()
    return int(estimates(merged.lengths, merged.words)[0])


PARTS: dict[str, Callable[[Bench], Any]] = {
    "rivals": bench_rivals,
    "curve": bench_curve,
    "dictionary": bench_dictionary,
    "rerank": bench_rerank,
    "stream": bench_stream,
    "sketches": bench_sketches,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="sizes that mean nothing; writes no result")
    parser.add_argument("--only", default="", help="parts, for instance rivals,curve")
    parser.add_argument("--work", type=Path, help="keep generated logs here")
    asked = parser.parse_args()
    wanted = [name for name in asked.only.split(",") if name] or list(PARTS)
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    work = asked.work or Path(tempfile.mkdtemp(prefix="streamtune-sundog-"))
    settings = SparkSettings(master=f"local[{CORES}]", app_name="bench-sundog", conf={"spark.driver.memory": "3g"})
    spark = build_session(settings)
    bench = Bench(spark, work.absolute(), Sizes.tiny() if asked.tiny else Sizes())
    result: dict[str, Any] = {}
    if RESULTS.exists() and not asked.tiny and len(wanted) < len(PARTS):
        result = json.loads(RESULTS.read_text(encoding="utf-8"))
    try:
        bench.warm_up()
        for name in wanted:
            result[name] = PARTS[name](bench)
            result[f"{name}_load_average"] = round(os.getloadavg()[0], 2)
            tell(name, result[name])
            if not asked.tiny:
                RESULTS.parent.mkdir(exist_ok=True)
                RESULTS.write_text(json.dumps({"cores": CORES, **result}, indent=1) + "\n", encoding="utf-8")
    finally:
        spark.stop()
        if asked.work is None:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()

"""The steps of Sundog's benchmark; each gives a record of plain values."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sundog_bench import LAST_DAY, Bench, phase_one
from sundog_costs import median_of, timed

from streamtune.experiments.sundog import rivals
from streamtune.sundog.counting import PANE_OPTIONS, _slots
from streamtune.sundog.kernels.packing import count_sorted, split_by_day
from streamtune.sundog.kernels.relations import may_be_related
from streamtune.sundog.kernels.scanning import scan
from streamtune.sundog.kernels.sketch import estimates
from streamtune.sundog.knowledge import Matcher
from streamtune.sundog.packed import Packed, day_tables
from streamtune.sundog.readers import plan_slices, read_slice
from streamtune.sundog.settings import RankDays, StreamSettings
from streamtune.sundog.storage import write_parquet
from streamtune.sundog.stream import BatchReport, follow

Record = dict[str, Any]


def rivals_step(bench: Bench) -> Record:
    """Phase 1 in four ways; ours and the plain scan are the median of three, for they are short."""
    lines = bench.sizes.rivals
    world = bench.world(lines)
    sundog = bench.sundog(world)
    spark, knowledge = bench.spark, sundog.knowledge
    files = sundog.inputs([str(world / "logs")])

    def count() -> None:
        sundog.panes.clear()
        sundog.add(files)

    ours = median_of(3, count).rates(lines)
    log = spark.read.parquet(str(world / "logs"))
    bare = median_of(3, lambda: rivals.scan_and_tokenise(log)).rates(lines)
    kernel = timed(lambda: rivals.count_with_kernel(log, sundog._matcher, str(world / "kernel"))).rates(lines)
    names, pairs = rivals.name_table(spark, knowledge), rivals.pair_table(spark, knowledge)
    names.count(), pairs.count()
    longest = max(len(name.split()) for of_entity in knowledge.names for name in of_entity)
    # The same world with fewer lines: a limit would put them all into one partition.
    few = spark.read.parquet(str(bench.world(bench.sizes.plain) / "logs"))
    target = str(world / "plain")
    plain = timed(lambda: rivals.count_with_dataframes(few, names, pairs, len(knowledge.ids), longest, target)).rates(
        bench.sizes.plain
    )
    record = {"ours": ours, "bare_scan": bare, "map_in_arrow_and_hll_sketch_agg": kernel, "plain_dataframes": plain}
    for name, other in (("plain", plain), ("map_in_arrow", kernel), ("bare_scan", bare)):
        ratios = {key: round(ours[key] / other[key], 2) for key in ("lines_per_s", "lines_per_cpu_s")}
        record[f"against_{name}"] = ratios
    return record


def stages(bench: Bench) -> Record:
    """Microseconds of one core per line, without Spark: reading, matching, sorting, counting, merging, writing."""
    record: Record = {}
    for kind in ("parquet", "jsonl"):
        world = bench.world(bench.sizes.json_lines, kind=kind)
        files = [str(file) for file in sorted((world / "logs").iterdir())]
        matcher = bench.sundog(world).knowledge.matcher
        _stages_of(files[:1], matcher, str(world / "stages.parquet"))  # loads what was compiled
        read, spent = _stages_of(files, matcher, str(world / "stages.parquet"))
        record[kind] = {name: round(1e6 * seconds / read, 3) for name, seconds in spent.items()}
        if kind == "parquet":
            start = time.process_time()
            _read_and_split(files)
            record["pyarrow_read_and_split"] = round(1e6 * (time.process_time() - start) / read, 3)
    return {"us_per_line": record}


def _stages_of(files: list[str], matcher: Matcher, target: str) -> tuple[int, dict[str, float]]:
    """Lines that were read, and processor seconds of every stage."""
    slices, _ = plan_slices(files, 96 << 20, 1_000_000)
    spent: dict[str, float] = {}

    def clock(name: str, step: Callable[[], Any]) -> Any:
        start = time.process_time()
        made = step()
        spent[name] = spent.get(name, 0.0) + time.process_time() - start
        return made

    read, parts = 0, []
    for part in slices:
        lines = clock("read", partial(read_slice, part))
        read += lines.read
        days, slots = _slots(lines.days)
        columns = (lines.data, lines.begins, lines.ends, lines.coupons, slots)
        found, of_slot, *_ = clock("match", partial(scan, *matcher, *columns))
        apart, starts = clock("sort", partial(_sorted, found, of_slot, len(days)))
        _, _, of_day, keys, events, lengths, words = clock("count", partial(count_sorted, apart, starts, 0, 1))
        parts.append(Packed(days[of_day], keys, events, lengths, words[: int(lengths.sum())]))
    merged = clock("merge", Packed.joined(parts).merged)
    clock("write", lambda: write_parquet(target, day_tables(merged)[1], **PANE_OPTIONS))
    return read, spent


def _sorted(found: np.ndarray, of_slot: np.ndarray, days: int) -> tuple[np.ndarray, np.ndarray]:
    apart, starts = split_by_day(found, of_slot, days)
    for day in range(days):
        apart[starts[day] : starts[day + 1]].sort()
    return apart, starts


def _read_and_split(files: list[str]) -> None:
    """The least that anybody could do: read three columns and split the queries at spaces."""
    for file in files:
        table = pq.read_table(file, columns=["user", "time", "query"], use_threads=False)
        pc.list_value_length(pc.utf8_split_whitespace(table["query"]))


def curve(bench: Bench, lines: int, kind: str) -> Record:
    """All of it: phase 1, then rankings of 1, 7 and 30 days (each the median of three, for they are short)."""
    world = bench.world(lines, kind=kind)
    sundog = bench.sundog(world)
    first = phase_one(sundog, world)
    ranks = {window: median_of(3, partial(sundog.rank, LAST_DAY, window)) for window in (1, 7, 30)}
    state = sundog.panes.require(sundog.knowledge.fingerprint)
    return {
        "lines": lines,
        "format": kind,
        "phase_1": first.rates(lines),
        "rank": {str(window): cost.record() for window, cost in ranks.items()},
        "end_to_end": first.plus(*ranks.values()).rates(lines),
        "logs_again_costs_more_by": round((first.cpu_s + ranks[30].cpu_s) / ranks[30].cpu_s, 2),
        "counts": state.counts.model_dump(),
        "state_mb": round(state.size_bytes / 1e6, 1),
    }


def dictionary(bench: Bench, names: int) -> Record:
    world = bench.world(bench.sizes.dictionary_lines, names)
    sundog = bench.sundog(world)
    phase_one(sundog, world)  # the broadcast to every worker
    sundog.panes.clear()
    known = sum(map(len, sundog.knowledge.names))
    return {"names": known, **phase_one(sundog, world).rates(bench.sizes.dictionary_lines)}


def rerank(bench: Bench, lines: int) -> Record:
    """From panes, from daily sketches by SQL, and from the logs; the first two are the median of three."""
    world = bench.world(lines)
    sundog = bench.sundog(world)
    counting = phase_one(sundog, world)
    sundog.rank(LAST_DAY, 30)
    ours = median_of(3, lambda: sundog.rank(LAST_DAY, 30))
    log = bench.spark.read.parquet(str(world / "logs"))
    rivals.count_with_kernel(log, sundog._matcher, str(world / "kernel"))
    pairs = rivals.pair_table(bench.spark, sundog.knowledge)
    entities, places = len(sundog.knowledge.ids), (str(world / "kernel"), str(world / "sql"))

    def by_sql() -> None:
        rivals.rank_with_sql(bench.spark, places[0], pairs, entities, LAST_DAY, 30, places[1])

    by_sql()
    other = median_of(3, by_sql)
    again = counting.plus(ours)
    return {
        "lines": lines,
        "pairs": sundog.rank(LAST_DAY, 30).pairs,
        "from_panes": ours.record(),
        "sql": other.record(),
        "logs_again": again.record(),
        "sql_costs_more_by": round(other.cpu_s / ours.cpu_s, 2),
        "logs_cost_more_by": round(again.cpu_s / ours.cpu_s, 2),
    }


def stream(bench: Bench) -> Record:
    """All files at once in batches, without ranking, against the batch run over the same files."""
    lines = bench.sizes.stream
    world = bench.world(lines)
    batch = phase_one(bench.sundog(world), world).rates(lines)
    files = len(list((world / "logs").iterdir()))
    per_batch = max(1, round(bench.sizes.stream_batch / (lines / files)))
    sundog, reports = bench.sundog(world, "stream"), list[BatchReport]()
    settings = StreamSettings(once=True, rank=RankDays.none, max_files=per_batch)

    def drain() -> None:
        follow(sundog, str(world / "logs"), settings, on_batch=reports.append).awaitTermination()

    streamed = timed(drain).rates(lines)
    return {
        "batch": batch,
        "stream": streamed,
        "batches": [report.counts.lines for report in reports],
        "share_of_batch": round(streamed["lines_per_s"] / batch["lines_per_s"], 3),
        "share_of_batch_cpu": round(streamed["lines_per_cpu_s"] / batch["lines_per_cpu_s"], 3),
    }


def arrivals(bench: Bench) -> Record:
    """A file a day moves in, small and large ones; windows of 1 and 7 days are ranked after each."""
    small, large = bench.world(bench.sizes.curve[0]), bench.world(bench.sizes.stream)
    took, _ = _feed(bench, small, 8)
    took_large, states = _feed(bench, large, 20)
    return {
        "file_lines": [bench.sizes.curve[0] // 30, bench.sizes.stream // 30],
        "seconds_small": took,
        "seconds_large": took_large,
        "state_mb": states,
    }


def _feed(bench: Bench, world: Path, count: int) -> tuple[list[float], list[float]]:
    """Seconds from the moment a file is moved in until the tables that it changes are in place, and the state."""
    folder = world / "arriving"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    sundog, ended = bench.sundog(world, "live", compact_after=4, retention_days=7), threading.Event()
    settings = StreamSettings(windows=(1, 7), rank=RankDays.newest, every_s=0.5)
    states: list[float] = []

    def note(report: BatchReport) -> None:
        states.append(round(report.state_bytes / 1e6, 1))
        ended.set()

    query = follow(sundog, str(folder), settings, on_batch=note)
    took = []
    try:
        for file in sorted((world / "logs").iterdir())[:count]:
            shutil.copy(file, folder / f".{file.name}")
            ended.clear()
            start = time.perf_counter()
            (folder / f".{file.name}").rename(folder / file.name)
            if not ended.wait(300):
                raise RuntimeError("the stream did not take the file")
            took.append(round(time.perf_counter() - start, 2))
    finally:
        query.stop()
    return took, states


def sketches(bench: Bench) -> Record:
    """Errors against exact counts, and pairs that pass the filter without being related."""
    random, errors = np.random.default_rng(0), {}
    for size in (1000, 10_000, 100_000):
        found = [_estimate(random, size) / size - 1 for _ in range(bench.sizes.sketches)]
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
    ranks = np.minimum(zeros, 38).astype(np.uint64) + np.uint64(1)
    coupons = ((hashes >> np.uint64(38)) << np.uint64(6) | ranks).astype(np.uint32)
    ones = np.ones(size, np.int64)
    rows = Packed((0 * ones).astype(np.int32), ones.astype(np.uint32), ones, ones.astype(np.int32), coupons)
    merged = rows.merged()
    return int(estimates(merged.lengths, merged.words)[0])

"""Issue by issue: the target, what was measured, and whether it was met."""

from __future__ import annotations

from typing import Any

Steps = dict[str, Any]


def _verdict(target: str, measured: str, met: bool) -> dict[str, Any]:
    return {"target": target, "measured": measured, "met": bool(met)}


def verdicts(steps: Steps) -> list[dict[str, Any]]:
    """Of the steps that are there."""
    made: list[dict[str, Any]] = []
    for name, of_step in (("rivals", _rivals), ("stream", _stream), ("arrivals", _arrivals), ("sketches", _sketches)):
        if name in steps:
            made += of_step(steps[name])
    made += _curve({name: step for name, step in steps.items() if name.startswith("curve-")})
    for name, step in steps.items():
        if name.startswith("rerank-"):
            made += _rerank(step)
    return made


def _rivals(step: Steps) -> list[dict[str, Any]]:
    plain, arrow = step["against_plain"]["lines_per_s"], step["against_map_in_arrow"]["lines_per_s"]
    return [
        _verdict("phase 1 at least 25 × plain DataFrames", f"{plain} ×", plain >= 25),
        _verdict("phase 1 at least 3 × mapInArrow + hll_sketch_agg", f"{arrow} ×", arrow >= 3),
    ]


def _curve(curve: Steps) -> list[dict[str, Any]]:
    made = []
    for step in curve.values():
        size = f"{step['lines']:,} lines ({step['format']})"
        first, whole = step["phase_1"]["lines_per_s"], step["end_to_end"]["lines_per_s"]
        made.append(_verdict(f"{size}: about 1 M lines/s in phase 1", f"{first:,}", first >= 950_000))
        made.append(_verdict(f"{size}: 400 k lines/s with three re-ranks", f"{whole:,}", whole >= 400_000))
        again = step["logs_again_costs_more_by"]
        if step["lines"] >= 10_000_000:
            made.append(_verdict(f"{size}: a 30-day re-rank costs 20 × less than the logs", f"{again} ×", again >= 20))
    few, many = curve.get("curve-2000000"), curve.get("curve-10000000")
    if few and many:
        ratio = few["phase_1"]["lines_per_cpu_s"] / many["phase_1"]["lines_per_cpu_s"]
        made.append(_verdict("CPU per line at 10 M within 15 % of that at 2 M", f"{ratio:.3f} ×", ratio <= 1.15))
    return made


def _rerank(step: Steps) -> list[dict[str, Any]]:
    size, sql = f"{step['lines']:,} lines", step["sql_costs_more_by"]
    return [_verdict(f"{size}: a 30-day re-rank costs 6 × less than SQL", f"{sql} ×", sql >= 6)]


def _stream(step: Steps) -> list[dict[str, Any]]:
    share = step["share_of_batch"]
    return [_verdict("the stream has at least 0.8 of the batch's lines/s", f"{share}", share >= 0.8)]


def _arrivals(step: Steps) -> list[dict[str, Any]]:
    state = step["state_mb"]
    half = len(state) // 2
    flat = max(state[half:]) <= 1.1 * max(state[:half])
    shown = f"at most {max(state[:half])} MB in the first half, {max(state[half:])} MB in the second"
    return [_verdict("the state's size over time is flat with retention", shown, flat)]


def _sketches(step: Steps) -> list[dict[str, Any]]:
    worst = max(found["standard_error"] for found in step["hyperloglog"].values())
    passed = step["bloom_false_positives"]
    return [
        _verdict("HyperLogLog's standard error within 1 %", f"{100 * worst:.2f} %", worst <= 0.01),
        _verdict("Bloom filter's false positives at most 1 %", f"{100 * passed:.2f} %", passed <= step["stated"]),
    ]

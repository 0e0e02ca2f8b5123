"""A fleet on paper, shaped like the API's contract: what the dashboard's tests show it."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

NOW = datetime(2026, 11, 18, 9, 30, tzinfo=UTC)
HOSTILE = '<img src=x onerror="document.title=\'owned\'"> & "quotes"'
NAMES = ("orders-enrich", "clickstream-sessions", "fraud-scores", "ads-attribution", "iot-rollup", "search-index")
OPERATORS = (("source", "source"), ("parse", "map"), ("by_user", "window_aggregate"), ("join", "window_join"))
Json = dict[str, Any]


def iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def summary(number: int, random: Random) -> Json:
    name = f"{NAMES[number % len(NAMES)]}-{number:02d}"
    instances = random.randint(6, 60)
    return {
        "id": f"job-{number}",
        "name": name,
        "cluster": ("eu-west", "us-east", "staging")[number % 3],
        "engine": "flink",
        "state": "running",
        "mode": ("observe", "recommend", "approve", "auto")[number % 4],
        "policy": ("*", "orders-*", "*-sessions-*")[number % 3],
        "paused": False,
        "rate": random.uniform(900, 240_000),
        "backpressure": random.uniform(0, 0.04),
        "backpressured": False,
        "instances": instances,
        "recommended_instances": instances - random.choice((0, 0, 0, 2, 5)),
        "autoscaler_instances": round(instances * random.uniform(1.05, 1.6)),
        "restarts_today": random.choice((0, 0, 1, 2)),
        "savings_today": random.uniform(1, 90),
        "last_observed": iso(NOW - timedelta(seconds=random.randint(2, 58))),
        "pending": None,
        "trouble": [],
        "lease": {"holder": "streamtune-1", "until": iso(NOW + timedelta(minutes=1))},
    }


def fleet(size: int) -> dict[str, Json]:
    """Healthy jobs, and the four kinds of trouble, in a known place each."""
    random = Random(7)
    jobs = [summary(number, random) for number in range(size)]
    if size >= 12:
        jobs[2] |= {
            "mode": "approve",
            "backpressure": 0.62,
            "backpressured": True,
            "recommended_instances": jobs[2]["instances"] + 7,
            "trouble": ["by_user is the bottleneck: busy 98 %, backpressure 62 % for 6 min"],
            "pending": "d-pending",
        }
        jobs[5] |= {"state": "unreachable", "trouble": ["no answer from staging for 14 min: connection refused"]}
        jobs[7] |= {"state": "failed", "trouble": ["the engine reports this job as failed: OutOfMemoryError"]}
        jobs[8] |= {"mode": "approve", "pending": "d-pending", "recommended_instances": jobs[8]["instances"] - 4}
        jobs[9] |= {"paused": True, "mode": "auto"}
        jobs[11] |= {"name": HOSTILE}
    return {job["id"]: job for job in jobs}


def plan(total: int) -> dict[str, int]:
    """Instances over the operators: a few for the small ones, the rest for the aggregate and the join."""
    small = max(1, total // 10)
    rest = total - 2 * small - 1
    return {"source": small, "parse": small, "by_user": rest - rest // 2, "join": rest // 2, "sink": 1}


def detail(job: Json) -> Json:
    slow = job["backpressured"]
    now, wanted = plan(job["instances"]), plan(job["recommended_instances"] or job["instances"])
    operators = [
        {
            "id": name,
            "type": kind,
            "parallelism": now[name],
            "max_parallelism": 128,
            "recommended": wanted[name],
            "busy": 0.98 if slow and name == "by_user" else 0.2 + 0.13 * place,
            "backpressured": 0.62 if slow and place < 2 else 0.0,
            "idle": 0.2,
            "rate_in": None if place == 0 else job["rate"] / (place + 1),
            "rate_out": None if name == "sink" else job["rate"] / (place + 1),
            "bottleneck": slow and name == "by_user",
            "excluded": name == "sink",
        }
        for place, (name, kind) in enumerate((*OPERATORS, ("sink", "sink")))
    ]
    names = [operator["id"] for operator in operators]
    edges = [{"from": a, "to": b, "rate": job["rate"]} for a, b in pairwise(names)]
    rules = {"pattern": job["policy"], "mode": job["mode"]}
    return {**job, "operators": operators, "edges": edges, "bounds": {}, "rules": rules, "model": "m-0003"}


def curve(needed: int) -> list[list[float]]:
    return [[p, 1 / (1 + math.exp(1.3 * (p - needed + 1)))] for p in range(1, needed + 12)]


def decision(job: Json, identity: str, status: str, ago: timedelta, change: int) -> Json:
    before, after = plan(job["instances"]), plan(job["instances"] + change)
    applied = status in ("applied", "rolled_back")
    outcome = {"time": iso(NOW - ago + timedelta(minutes=2)), "text": "rate served, no backpressure in the next window"}
    return {
        "id": identity,
        "job": job["id"],
        "time": iso(NOW - ago),
        "status": status,
        "from": before,
        "to": after,
        "summary": f"by_user {before['by_user']} → {after['by_user']}, join {before['join']} → {after['join']}",
        "reasons": [
            {"operator": "by_user", "text": "98 % busy while its input waits: a bottleneck with probability 0.97"},
            {"operator": "join", "text": "hidden behind by_user: at the demanded rate it would be 104 % busy"},
        ],
        "curves": {name: curve(after[name]) for name in after},
        "tuner": "streamtune",
        "model": "m-0003",
        "policy": job["policy"],
        "by": "service",
        "outcome": {**outcome, "backpressured": False, "instances": job["instances"]} if applied else None,
        "history": [{"time": iso(NOW - ago), "status": "proposed", "by": "service", "text": "backpressure seen"}],
    }


def decisions(job: Json) -> list[Json]:
    past = [
        decision(job, f"d-{hour}", status, timedelta(hours=hour), change)
        for hour, status, change in ((3, "applied", 4), (8, "rolled_back", -6), (14, "observed", 2), (20, "refused", 9))
    ]
    if job["pending"]:
        past.insert(0, decision(job, "d-pending", "proposed", timedelta(minutes=4), 7))
    return past


def observations(job: Json, points: int = 300) -> Json:
    """A day of one job, by a daily wave; the last stretch is backpressured if the job is."""
    random = Random(job["id"])
    times = [NOW - timedelta(days=1) * (1 - place / (points - 1)) for place in range(points)]
    wave = [
        1 + 0.45 * math.sin(place / points * 2 * math.pi - 1.2) + random.uniform(-0.03, 0.03) for place in range(points)
    ]
    instances = [max(5, round(job["instances"] * round(value * 4) / 4)) for value in wave]
    slow = [job["backpressured"] and place > points * 0.95 for place in range(points)]
    return {
        "time": [iso(time) for time in times],
        "rate": [job["rate"] * value for value in wave],
        "backpressure": [0.6 if held else random.uniform(0, 0.03) for held in slow],
        "instances": instances,
        "recommended": [value + (7 if held else 0) for value, held in zip(instances, slow, strict=True)],
        "autoscaler": [round(value * 1.35) for value in instances],
        "parallelism": {name: [plan(value)[name] for value in instances] for name in plan(20)},
    }


def models() -> Json:
    def model(version: str, status: str, age: int, error: float, changed: str) -> Json:
        data = {
            "from": iso(NOW - timedelta(days=age + 30)),
            "until": iso(NOW - timedelta(days=age)),
            "runs": 41_210 - 900 * age,
        }
        scores = {"threshold_error": error, "backpressure": error / 12, "parallelism": 1 + error / 3}
        created = iso(NOW - timedelta(days=age))
        return {
            "version": version,
            "created": created,
            "data": data,
            "scores": scores,
            "status": status,
            "compared_with": "m-0003",
            "changed": changed,
        }

    return {
        "running": "m-0003",
        "models": [
            model("m-0005", "candidate", 0, 0.138, "3 more days, 2 new shapes of jobs"),
            model("m-0004", "rejected", 1, 0.214, "worse on 2 of 3 scores: not promoted"),
            model("m-0003", "running", 3, 0.152, "7 more days; threshold error 0.171 → 0.152"),
            model("m-0002", "retired", 10, 0.171, "first model of the fleet"),
        ],
    }


def history() -> Json:
    days = [
        {
            "day": (NOW - timedelta(days=back)).date().isoformat(),
            "engine": engine,
            "runs": 1_200 + (back * 97) % 500 - 300 * (engine == "timely"),
        }
        for back in range(20, -1, -1)
        for engine in ("flink", "timely")
    ]
    reasons = [
        {"reason": "rate is negative", "count": 41, "samples": ['{"job": "iot-rollup-04", "rate": -3.0}', HOSTILE]},
        {"reason": "unknown operator in an edge", "count": 7, "samples": ['{"edge": ["join", "nowhere"]}']},
    ]
    return {"days": days, "quarantine": {"total": 48, "reasons": reasons}}


def policies() -> Json:
    night = {"days": ["mon", "fri"], "start": "22:00:00", "end": "06:00:00", "timezone": "UTC", "allow": "scale_up"}
    shared = {
        "tuner": "streamtune",
        "model": None,
        "min_parallelism": 1,
        "max_parallelism": None,
        "tune_sources": False,
        "exclude": ["sink"],
        "max_per_hour": 4,
        "max_per_day": 20,
        "min_gain": 0.1,
        "rate_change": 0.1,
        "maintenance": [night],
        "group": None,
        "budget": None,
    }
    return {
        "source": "/etc/streamtune/streamtune.yaml",
        "policies": [
            {"pattern": "orders-*", "mode": "approve", **shared},
            {"pattern": "*-sessions-*", "mode": "auto", **shared, "group": "sessions", "budget": 200},
            {"pattern": "*", "mode": "observe", **shared},
        ],
    }


def audit() -> Json:
    entry = {
        "time": iso(NOW),
        "who": "ada",
        "what": "approve",
        "target": "fraud-scores-02",
        "detail": {"summary": "by_user 12 → 16"},
    }
    return {"entries": [entry, {**entry, "what": "pause", "target": HOSTILE, "detail": {"summary": HOSTILE}}]}

"""Hostile command lines, drawn over the parameters that the commands themselves declare."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from hypothesis import strategies as st

from streamtune.cli import app, run

ALLOWED = {0, 1, 2, 130}
LONGEST_S = 10
NUMBERS = [
    *(
        "nan",
        "inf",
        "-inf",
        "-1",
        "0",
        "1e400",
        "1e300",
        "1e12",
        "²",
        "١",
        "1_0",
        "0x10",
        "9" * 40,
        "0.01",
        "-0.0",
        "",
        "3",
    ),
    *("2147483647", "4294967295", "4294967296", "9223372036854775808", "1e-300", "-1e300"),
]
TEXTS = [
    "[/]",
    "a[/b]",
    "[red]x",
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "nope",
    "",
    " ",
    "ñ\u202e",
    "\udcff",
    "--",
    "-",
    "=",
    ",",
    "a=1,a=2",
    "x" * 5000,
    "nan",
    "infx",
    "nanx",
    "-1x",
    "2x",
    "sink=nan",
    "sink=inf",
    "sink=²",
    "4xm510",
    "9999999999x16",
    "nexmark-q5",
    "random-3",
    "random-99999999999999999999999",
    "cycle",
    "all",
    "ds2",
    "simulator",
    "flink",
    "--demo",
    "sqlite:////dev/full",
    "sqlite:///new.db",
    "sqlite:///damaged.db",
    "postgresql://127.0.0.1:1/nope",
    "mysql://nope",
    "://",
    "http://127.0.0.1:1",
    "127.0.0.1",
    "::1",
    "operator",
    "json",
]
PATHS = [
    "/dev/full",
    "/dev/null",
    "/dev/zero",
    "/",
    ".",
    "/nope/deep/file",
    "/proc/self/mem",
    "good.yaml",
    "twice.json",
    "deep.yaml",
    "deep.json",
    "bytes.yaml",
    "bomb.yaml",
    "folder",
    "loop",
    "empty.yaml",
    "x" * 300,
    "new.png",
    "new.txt",
    "noext",
    "a\x00b",
    "damaged.db",
    "markup.yaml",
    "nan.yaml",
    "graph.json",
    "hosts.yaml",
    "problem.yaml",
    "space.yaml",
    "rates.csv",
    "samples.json",
    "labels.jsonl",
    "kb",
    "model",
    "config.yaml",
    "half.yaml",
]
# Command lines that get as far as the work itself, so that one hostile value among sound ones is met there.
WORKING: dict[tuple[str, ...], str | tuple[str, ...]] = {
    ("place",): "--graph graph.json --hosts 2",
    ("plan",): (
        "good.yaml --forecast rates.csv --horizon 4 --capacity count=100",
        "good.yaml --rate 2x --model model",
        "good.yaml --rate 3x --observe 1x",
    ),
    ("serve",): ("--port 0 --data service", "--demo --port 0"),
    ("learn",): ("--data service", "--data service --rollback"),
    ("token", "create"): "somebody --store sqlite:///tokens.db",
    ("token", "list"): "--store sqlite:///tokens.db",
    ("token", "revoke"): "somebody --store sqlite:///tokens.db",
    ("provision", "plan"): "problem.yaml --seconds 0.2",
    ("provision", "sample"): "CMO1 --simulated --steps 3 --out new-samples.json",
    ("provision", "train"): "samples.json --model forest --out new-model",
    ("provision", "check"): "new-model samples.json",
    ("provision", "show"): "new-model --at 0.5:64",
    ("autoconfig", "run"): "space.yaml --steps 2 --strategy random --store session",
    ("autoconfig", "resume"): "session --steps 3",
    ("autoconfig", "show"): "session",
    ("sundog", "generate"): "world --lines 10 --entities 100 --days 2",
    ("sundog", "run"): "logs --knowledge kb --as-of 2013-12-20 --out sundog-out",
    ("sundog", "stream"): "logs --knowledge kb --out sundog-out --once",
    ("sundog", "rank"): "sundog-out --knowledge kb --as-of 2013-12-20",
    ("sundog", "train"): "sundog-out --as-of 2013-12-20 --labels labels.jsonl --model new-trees",
    ("sundog", "evaluate"): "sundog-out --as-of 2013-12-20 --labels labels.jsonl",
    ("sundog", "show"): "E1 --out sundog-out --knowledge kb",
    ("simulate",): "good.yaml --plan 2 --rate 2x",
    ("oracle",): "good.yaml --rate 2x",
    ("recommend",): ("good.yaml --rate 2x", "good.yaml --rate 2x --model model"),
    ("compare",): "good.yaml --tuners ds2 --rates two.yaml",
    ("tune",): "good.yaml --tuner ds2 --rates two.yaml",
    ("validate",): "good.yaml",
    ("distance",): "good.yaml nexmark-q5",
    ("history", "ingest"): "history runs.jsonl",
    ("history", "show"): "history",
    ("workloads", "show"): "nexmark-q5",
}
# These start something that outlives the call, or run for minutes with nothing wrong: they get values to refuse only.
_ENDLESS = {("flink", "up"), ("demo",), ("collect",), ("flink", "down")}
# Nothing in them takes long the first time.
_SPARED = {("sundog", "run"), ("sundog", "stream"), ("sundog", "rank"), ("history", "ingest"), ("history", "show")}
_GOOD = """name: words
operators:
- {id: lines, type: source, rate: 50}
- {id: count, type: window_aggregate, inputs: [lines]}
physics: {lines: {service_us: 10}, count: {service_us: 100}}
"""


def write_inputs(folder: Path, model: Path | None = None) -> None:
    """Files that the names above mean, good and bad; ``model`` is a bundle for those that ask for one."""
    if model is not None:
        shutil.copytree(model, folder / "model")
    (folder / "good.yaml").write_text(_GOOD)
    (folder / "markup.yaml").write_text(_GOOD.replace("count", '"a[/b]"').replace("words", '"[/] \\e[31m"'))
    (folder / "nan.yaml").write_text(_GOOD.replace("rate: 50", "rate: .nan"))
    (folder / "twice.json").write_text('{"name": "a", "name": "b"}')
    (folder / "deep.yaml").write_text("[" * 20_000)
    (folder / "deep.json").write_text("[" * 20_000)
    (folder / "bytes.yaml").write_bytes(b"\xff\xfe\x00name")
    rows = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12))
    (folder / "bomb.yaml").write_text(f"a0: &a0 [x]\n{rows}\n")
    (folder / "empty.yaml").write_text("")
    (folder / "damaged.db").write_bytes(b"SQLite format 3\x00" + b"\xab" * 8192)
    (folder / "folder").mkdir(exist_ok=True)
    (folder / "two.yaml").write_text("[1, 2]")
    (folder / "runs.jsonl").write_text("{}\n")
    (folder / "half.yaml").write_text(_GOOD.replace("words", '"\\uDCFF"'))
    (folder / "config.yaml").write_text("service: {window_s: 20}\n")
    _write_inputs_of_new_rooms(folder)
    if not (folder / "loop").is_symlink():
        (folder / "loop").symlink_to("loop")


def _write_inputs_of_new_rooms(folder: Path) -> None:
    tasks, edges = [{"id": "a", "load": 1}, {"id": "b", "load": 2}], [{"from": "a", "to": "b", "bytes_per_s": 5}]
    (folder / "graph.json").write_text(json.dumps({"tasks": tasks, "edges": edges}))
    (folder / "hosts.yaml").write_text("- {name: h0, cpu: 4, memory_mb: 100, zone: x}\n- {name: h1, zone: y}\n")
    size = "{name: small, cpu: 1, memory_mb: 64, performance_per_s: 100, price: 1}"
    (folder / "problem.yaml").write_text(f"sizes: [{size}]\nstart_cost: 1\nstop_cost: 1\nworkload: [100, 300]\n")
    command = json.dumps([sys.executable, "-S", "-c", "print({x})"])
    (folder / "space.yaml").write_text(
        f"objective: {{command: {command}, direction: minimize}}\nknobs: {{x: {{type: int, low: 1, high: 8}}}}\n"
    )
    rows = "".join(f"{900 * step},{100 + step % 7}\n" for step in range(200))
    (folder / "rates.csv").write_text(f"time,rate\n{rows}")
    samples = [
        {"cpu": cpu, "memory_mb": 64, "performance_per_s": 100 * cpu, "spread": 0.01, "seconds": 1}
        for cpu in (0.25, 0.5, 0.75, 1, 1.5, 2)
    ]
    (folder / "samples.json").write_text(json.dumps({"operator": "CMO1", "samples": samples}))
    (folder / "labels.jsonl").write_text('{"entity": "E1", "related": "E2", "grade": 3}\n')
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / "one.jsonl").write_text("{}\n")
    (folder / "kb").mkdir(exist_ok=True)
    people = [{"id": name, "names": [f"name {name}"], "type": "person"} for name in ("E1", "E2")]
    (folder / "kb" / "entities.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in people))
    (folder / "kb" / "relations.jsonl").write_text('{"from": "E1", "to": "E2", "type": "knows"}\n')


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the app with its path."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), typer.main.get_command(app))]
    while waiting:
        path, command = waiting.pop()
        below = getattr(command, "commands", None)
        if below is None:
            yield path, command
        else:
            waiting += [((*path, name), one) for name, one in below.items()]


@cache
def _commands() -> list[tuple[tuple[str, ...], Any]]:
    return sorted(commands(), key=lambda entry: entry[0])


def _value(parameter: Any) -> st.SearchStrategy[str]:
    if parameter.type_descriptor.annotation in (int, float):
        return st.sampled_from(NUMBERS)
    return st.sampled_from([*TEXTS, *PATHS, *NUMBERS])


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command with up to four of its options, each with a hostile value; or one that works, with one such option."""
    path, command = draw(st.sampled_from(_commands()))
    words = list(path)
    lines = WORKING.get(path, ())
    is_working = bool(lines) and draw(st.booleans())
    options = [one for one in command.params if one.param_type_name == "option" and one.name not in ("help",)]
    required = [one for one in options if one.required and not is_working]
    most = 1 if is_working else 4
    chosen = draw(st.lists(st.sampled_from(options), max_size=most, unique_by=lambda one: one.name)) if options else []
    if is_working:
        words += draw(st.sampled_from((lines,) if isinstance(lines, str) else lines)).split()
    if path in _ENDLESS:
        words += ["--no-such-option"]
    for option in {one.name: one for one in (*required, *chosen)}.values():
        words.append(draw(st.sampled_from(list(option.opts))))
        if not option.is_flag:
            words.append(draw(_value(option)))
    if is_working:
        return words
    for argument in (one for one in command.params if one.param_type_name == "argument"):
        if draw(st.booleans()) or argument.required:
            words.append(draw(_value(argument)))
    return words


def without_pauses() -> None:
    """No Flink answers here, and nobody waits between two tries to reach one; a service that listens ends at once."""
    import uvicorn

    from streamtune.engines.flink.client import FlinkClient

    uvicorn.Server.run = _listened  # type: ignore[method-assign]

    defaults = FlinkClient.__init__.__kwdefaults__
    assert "sleep" in defaults
    defaults["sleep"] = lambda _seconds: None


def _listened(_server: object, sockets: list[socket.socket]) -> None:
    for one in sockets:
        one.close()


def warm_up(folder: Path) -> None:
    """Libraries are loaded and kernels compiled by command lines that work: neither is a hang."""
    for path, lines in WORKING.items():
        if path not in _SPARED:
            for line in (lines,) if isinstance(lines, str) else lines:
                outcome([*path, *line.split()], folder, longest_s=0)


class HangError(BaseException):
    """Not an Exception: nothing in the product may swallow it."""


def outcome(words: list[str], folder: Path, longest_s: int = LONGEST_S) -> tuple[int, str]:
    """Exit code and all that was printed, of one command line in a folder; a hang raises ``HangError``.

    With ``longest_s`` 0 it may take as long as it likes.
    """

    def late(_number: int, _frame: FrameType | None) -> None:
        raise HangError(f"{words} took more than {longest_s} s")

    home, before = os.getcwd(), signal.signal(signal.SIGALRM, late)
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace") for _ in range(2))
    os.chdir(folder)
    signal.alarm(longest_s)
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            code = run(words)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        os.chdir(home)
    text = ""
    for stream in (stdout, stderr):
        stream.flush()
        text += stream.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]
    return code, text


def _outcome_in_time(words: list[str], folder: Path) -> tuple[int, str]:
    """The time that other work takes is in the clock as well: a hang is what hangs again."""
    try:
        return outcome(words, folder)
    except HangError:
        return outcome(words, folder)


def problem(words: list[str], folder: Path) -> str | None:
    """What is wrong with how a command line ended; None where all is well."""
    try:
        code, text = _outcome_in_time(words, folder)
    except HangError as error:
        return str(error)
    if code not in ALLOWED:
        return f"exit code {code}"
    for sign in ("Traceback (most recent call last)", "a defect of StreamTune", "\x1b[31mred", "\x1b]0;"):
        if sign in text:
            return f"{sign!r} in: {text[-600:]}"
    return None

"""Every path, name and number of every command is checked before anything heavy is loaded or anybody is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_fuzz import commands, outcome, write_inputs
from good_run import GOOD_RUN

# One line of each command that would get to its work.
LINES = {
    "advise": "good.yaml --cost-model costmodel --hosts 2xm510",
    "autoconfig resume": "session",
    "autoconfig run": "space.yaml --steps 2 --store new-session",
    "autoconfig show": "session",
    "bench": "fig6 --quick",
    "cluster": "history --out new-clusters",
    "collect": "--url http://127.0.0.1:1 --out collected",
    "compare": "good.yaml --tuners ds2 --rates two.yaml",
    "config check": "config.yaml",
    "config show": "",
    "costmodel fine-tune": "costmodel --plans history --out new-costs",
    "costmodel generate": "new-plans --plans 5",
    "costmodel show": "costmodel",
    "costmodel train": "history --out new-costs",
    "demo": "--out demo.html",
    "distance": "good.yaml nexmark-q5",
    "flink doctor": "--url http://127.0.0.1:1",
    "flink down": "",
    "flink plan": "--url http://127.0.0.1:1",
    "flink rates": "5 --url http://127.0.0.1:1",
    "flink resume": "--url http://127.0.0.1:1",
    "flink status": "--url http://127.0.0.1:1",
    "flink submit": "good.yaml --url http://127.0.0.1:1",
    "flink up": "",
    "history featurise": "history",
    "history generate": "new-history --runs 5",
    "history ingest": "history runs.jsonl",
    "history label": "history",
    "history show": "history",
    "learn": "--data service --min-runs 1",
    "model key": "new-keys.txt",
    "model show": "model",
    "model sign": "model --keys keys.txt",
    "model verify": "model --keys keys.txt",
    "oracle": "good.yaml",
    "place": "--graph graph.json --hosts 2",
    "plan": "good.yaml --rate 2x --model model",
    "predict": "good.yaml --cost-model costmodel --hosts 2xm510",
    "pretrain": "history --out new-model",
    "provision check": "operator-model samples.json",
    "provision plan": "problem.yaml",
    "provision sample": "CMO1 --simulated --steps 3 --out new-samples.json",
    "provision show": "operator-model --at 0.5:64",
    "provision train": "samples.json --model forest --out new-model",
    "recommend": "good.yaml --model model --rate 2x",
    "serve": "--port 0 --data service",
    "simulate": "good.yaml",
    "sundog evaluate": "ranked --as-of 2013-12-20 --labels labels.jsonl",
    "sundog generate": "world --lines 10 --entities 100 --days 2",
    "sundog rank": "ranked --knowledge kb --as-of 2013-12-20",
    "sundog run": "logs --knowledge kb --as-of 2013-12-20 --out new-ranked",
    "sundog show": "E1 --out ranked --knowledge kb",
    "sundog stream": "logs --knowledge kb --out new-ranked --once",
    "sundog train": "ranked --as-of 2013-12-20 --labels labels.jsonl --model new-trees",
    "token create": "somebody --store sqlite:///tokens.db",
    "token list": "--store sqlite:///tokens.db",
    "token revoke": "somebody --store sqlite:///tokens.db",
    "tune": "good.yaml --tuner ds2 --rates two.yaml",
    "validate": "good.yaml",
    "workloads export": "nexmark-q5 --out jobs",
    "workloads list": "",
    "workloads show": "nexmark-q5",
}
# Where only the system that is asked can say whether a text is right, or any text is.
FREE = {
    ("flink doctor", "job"),
    ("flink plan", "job"),
    ("flink rates", "job"),
    ("flink resume", "forget"),
    ("costmodel train", "engine"),
    ("learn", "engine"),
    ("pretrain", "engine"),
    ("token create", "name"),
}
# Neither a file, a folder, a name, an address, an amount nor a place to write to.
WRONG = "/dev/full/deep"
# What some lines need is made by others.
MADE_BY = (
    "autoconfig run space.yaml --steps 2 --strategy random --store session",
    "model key keys.txt",
    "model sign model --keys keys.txt",
    "provision train samples.json --model forest --out operator-model",
    "token create somebody --store sqlite:///tokens.db",
)
# These look at what is only hinted at here; that is their work, and needs nothing heavy.
SAID_AT_WORK = {"sundog evaluate": "is damaged", "sundog show": "is damaged", "learn": "has too few files"}
NUMBERS = {int: ("-7", "9" * 40), float: ("nan", "-7")}


# Lines that once took half a minute to be refused, since torch was loaded first, and others of their kind.
ONCE_SLOW = (
    "tune nexmark-q5 --model nope",
    "compare nexmark-q5 --model nope",
    "recommend nexmark-q5 --model nope",
    "predict nexmark-q5 --cost-model nope",
    "advise nexmark-q5 --cost-model nope",
    "bench nope",
    "bench fig8 --model nope",
    "model show nope",
    "costmodel show nope",
    "history label nope",
    "pretrain nope --out m",
    "cluster nope --out c",
    "sundog run nope --knowledge kb --as-of 2013-12-20 --out o",
    "sundog run good.yaml --knowledge nope --as-of 2013-12-20 --out o",
    "sundog stream nope --knowledge kb --out o",
    "sundog stream folder --knowledge kb --out o --rank nope",
    "sundog rank nope --knowledge kb --as-of 2013-12-20",
    "sundog train folder --as-of 2013-12-20 --labels nope --model m",
    "sundog evaluate folder --as-of 2013-12-20 --truth nope",
    "sundog show E1 --out nope",
    "autoconfig run nope.yaml",
    "autoconfig run deep.yaml",
    "autoconfig show nope",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, small_model: Path) -> Path:
    """What the lines name; of the heavy things no more than what tells that they are there."""
    folder = tmp_path_factory.mktemp("early")
    write_inputs(folder, small_model)
    for place, content in {
        "history/runs/file": "",
        "service/runs/one.jsonl": json.dumps(GOOD_RUN),
        "costmodel/manifest.json": '{"format": "streamtune-cost-model"}',
        "ranked/rankings/day=2013-12-20/window=7/file": "",
    }.items():
        (folder / place).parent.mkdir(parents=True)
        (folder / place).write_text(content)
    for line in MADE_BY:
        code, text = outcome(line.split(), folder, longest_s=0)
        assert code == 0, text
    return folder


def answers(folder: Path, lines: list[list[str]]) -> list[dict[str, Any]]:
    script = Path(__file__).with_name("early_refusals.py")
    asked = json.dumps({"folder": str(folder), "lines": lines})
    done = subprocess.run([sys.executable, str(script)], input=asked, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def wrong_lines() -> Iterator[tuple[str, list[str]]]:
    """(which value is wrong, the line): every parameter of every command in turn, all others sound."""
    for path, command in commands():
        name = " ".join(path)
        words = LINES[name].split()
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        for parameter in command.params:
            if getattr(parameter, "is_flag", False) or (name, parameter.name) in FREE:
                continue
            for value in NUMBERS.get(parameter.type_descriptor.annotation, (WRONG,)):
                if parameter in arguments:
                    place = arguments.index(parameter)
                    given = place < len(words) and not words[place].startswith("--")
                    line = [*words[:place], value, *words[place + given :]]
                else:
                    line = [*words, parameter.opts[0], value]
                yield f"{name} {parameter.opts[0]} {value[:9]}", [*path, *line]


def test_what_took_half_a_minute_to_be_refused(folder: Path) -> None:
    found = dict(zip(ONCE_SLOW, answers(folder, [line.split() for line in ONCE_SLOW]), strict=True))
    late = {line: (one["heavy"], one["code"], one["said"]) for line, one in found.items() if one["code"] != 2}
    assert late == {}


@pytest.mark.slow
def test_sound_lines_get_to_their_work(folder: Path) -> None:
    """Else what follows would show nothing: they would be refused for another reason."""
    lines = {" ".join(path): [*path, *LINES[" ".join(path)].split()] for path, _ in commands()}
    found = dict(zip(lines, answers(folder, list(lines.values())), strict=True))
    refused = {name: one["said"] for name, one in found.items() if one["code"] not in (0, None)}
    assert set(refused) == set(SAID_AT_WORK), refused
    assert all(SAID_AT_WORK[name] in said for name, said in refused.items())


@pytest.mark.slow
def test_every_wrong_value_is_refused_before_the_work(folder: Path) -> None:
    lines = dict(wrong_lines())
    found = dict(zip(lines, answers(folder, list(lines.values())), strict=True))
    assert len(lines) > 400
    late = {what: (one["heavy"], one["code"], one["said"]) for what, one in found.items() if one["code"] != 2}
    assert late == {}
    assert max(one["seconds"] for one in found.values()) < 5

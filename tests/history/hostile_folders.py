"""Folders as nobody would wish for, drawn by a seed: hostile names, sizes and kinds of files, sound and dirty rows."""

from __future__ import annotations

import copy
import gzip
import io
import json
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Record = dict[str, Any]

# What Spark and Hadoop take for patterns, escapes or addresses, each beside an innocent neighbour it could stand for.
NAMES = (
    "a[1]", "a1", "b{x,y}", "bx", "by", "e*f", "eXf", "q?z", "qaz", "sp ace", "pl+us", "per%20cent", "hash#x",
    "back\\slash", "umlä", "^caret", "quote's", "comma,name", "semi;colon", "new\nline", "tab\tbed", "%", "%zz", "%2F",
    "a&b=c", "day=3", " lead", "trail ", "-", "~", "$HOME", "`tick`", "\"double\"", "🦀", "e\u0301", "\u00e9", "null",
    "x" * 180, "$(ls)", "a|b", "<in>", "!", "@", "..x", "x..", "a'b\"c", "\u202e", "[", "]", "{", "}", "[!a]", "{a",
    "co:lon", "part=1", "\x01", "\x7f",
)  # fmt: skip
FOLDERS = ("in[1]", "in1", "day=3", "a b", "{x,y}", "x", "%20", "sub", "*", "d:ir", "deep/deep/deep", "runs.jsonl")
MAX_LINE_BYTES = 20_000

_GOOD: Record = {
    "schema_version": 1,
    "run_id": "run-0",
    "job": "clicks",
    "engine": "flink",
    "observed_at": "2026-11-16T10:00:00Z",
    "window_s": 60.0,
    "source_rates": {"in": 1000.0},
    "operators": [
        {"id": "in", "type": "source", "parallelism": 1, "records_in_per_s": 0.0, "records_out_per_s": 1000.0},
        {
            "id": "count", "type": "window_aggregate", "window_type": "sliding", "window_policy": "time",
            "window_length": 10.0, "window_slide": 2.0, "aggregate_function": "count", "parallelism": 4,
            "records_in_per_s": 1000.0, "records_out_per_s": 10.0,
            "busy_ms_per_s": 400.0, "idle_ms_per_s": 590.0, "backpressured_ms_per_s": 10.0,
        },
        {"id": "out", "type": "sink", "parallelism": 1, "records_in_per_s": 10.0, "records_out_per_s": 0.0},
    ],
    "edges": [{"source": "in", "target": "count", "partitioning": "hash"}, {"source": "count", "target": "out"}],
    "latency_ms": 12.5,
    "throughput_per_s": 10.0,
}  # fmt: skip


class HostileFolder:
    """Draws one folder; the same seed always gives the same names and contents."""

    def __init__(self, seed: int, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._random = random.Random(seed)
        self._seed = seed
        self._max_line_bytes = max_line_bytes
        self._next = 0
        self._given: list[Record] = []

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        writers = (
            *[self._lines] * 4, *[self._gzip] * 2, *[self._parquet] * 2, self._empty, self._damaged_gzip,
            self._damaged_parquet, self._zip, self._long_line, self._link, self._loop, self._hidden, self._odd_kind,
        )  # fmt: skip
        for _ in range(self._random.randint(1, 12)):
            self._random.choice(writers)(self._place(folder))
        self._random.choice((self._link, self._loop, self._lines))(self._place(folder))

    def _place(self, folder: Path) -> Path:
        """A new path without its ending, often in a folder of its own."""
        depth = self._random.choice((0, 0, 0, 1, 1, 2))
        inner = folder.joinpath(*(self._random.choice(FOLDERS) for _ in range(depth)))
        try:
            inner.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):  # a file of that name is there already
            inner = folder
        name = self._random.choice(NAMES)
        return inner / (f"{name}-{self._random.randint(0, 99)}" if self._random.random() < 0.3 else name)

    # Files

    def _lines(self, path: Path) -> None:
        ending = self._random.choice((".jsonl", ".json", ".jsonl", ".txt", "", ".JSONL", ".GZ", ".csv"))
        _put(path, ending, self._text())

    def _gzip(self, path: Path) -> None:
        members = [gzip.compress(self._text(), mtime=0) for _ in range(self._random.choice((1, 1, 2, 3)))]
        _put(path, self._random.choice((".jsonl.gz", ".gz")), b"".join(members))

    def _damaged_gzip(self, path: Path) -> None:
        whole = gzip.compress(self._text(), mtime=0)
        at = self._random.randrange(len(whole))
        flipped = whole[:at] + bytes([whole[at] ^ self._random.randint(1, 255)]) + whole[at + 1 :]
        _put(
            path,
            ".jsonl.gz",
            self._random.choice((whole[:-3], whole[:at], whole + b"garbage", flipped, b"\x1f", b"no")),
        )

    def _parquet(self, path: Path) -> None:
        _put(path, ".parquet", self._parquet_bytes())

    def _parquet_bytes(self) -> bytes:
        rows: list[Record] = [self._sound() for _ in range(self._random.randint(0, 30))]
        odd = self._random.choice(
            (None, None, None, {"run_id": [1.5], "job": [True]}, {"odd`na.me": ["x"]}, {"_c": [1]})
        )
        table = pa.table(odd) if odd else pa.Table.from_pylist(rows or [self._sound()])
        out = io.BytesIO()
        pq.write_table(
            table if odd or rows else table.slice(0, 0),
            out,
            compression=self._random.choice(("snappy", "zstd", "gzip", "none")),
            write_page_checksum=True,
            row_group_size=self._random.choice((3, 1000)),
        )
        return out.getvalue()

    def _damaged_parquet(self, path: Path) -> None:
        whole = self._parquet_bytes()
        middle = self._random.randrange(len(whole))
        cut = (whole[:middle], whole[:-20] + bytes(16) + b"PAR1", b"", b"PAR1", b"PAR1PAR1", whole[:-1], b"x" * 50)
        _put(path, ".parquet", self._random.choice(cut))

    def _empty(self, path: Path) -> None:
        _put(
            path,
            self._random.choice((".jsonl", ".jsonl.gz", "", ".txt")),
            self._random.choice((b"", b"", b"\n", b"\r\n\r\n")),
        )

    def _zip(self, path: Path) -> None:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("runs.jsonl", self._text())
        _put(path, self._random.choice((".zip", ".ZIP", ".bz2", ".jsonl.zst", ".tar")), packed.getvalue())

    def _long_line(self, path: Path) -> None:
        """Sound lines, one or two above the limit among them."""
        lines = [json.dumps(self._sound()).encode() for _ in range(self._random.randint(0, 40))]
        for _ in range(self._random.choice((1, 1, 2))):
            record = {
                **self._sound(),
                "job": "j" * (self._max_line_bytes + self._random.randint(10, 3 * self._max_line_bytes)),
            }
            lines.insert(self._random.randint(0, len(lines)), json.dumps(record).encode())
        text = b"".join(line + b"\n" for line in lines)
        is_gzip = self._random.random() < 0.3
        _put(path, ".jsonl.gz" if is_gzip else ".jsonl", gzip.compress(text, mtime=0) if is_gzip else text)

    def _link(self, path: Path) -> None:
        """To a file or folder nearby, or to nowhere; the ending of the name stays."""
        near = sorted(entry for entry in path.parent.iterdir() if not entry.is_symlink())
        target = self._random.choice(near) if near else path.parent / "nowhere"
        ending = "".join(Path(target.name).suffixes[-2:]) if target.is_file() else ".jsonl"
        if len(ending) < 12 and not _is_odd(target):
            _link_to(path.with_name(f"link-{self._random.randint(0, 999)}{ending}"), target)

    def _loop(self, path: Path) -> None:
        up = path.parent if self._random.random() < 0.5 else path.parent.parent
        inside = path.parent / "loop"
        inside.mkdir(exist_ok=True)
        # Never above the folder that is read: its parents hold other folders, and the tables.
        root = next(parent for parent in (path, *path.parents) if parent.name.startswith("folder-"))
        _link_to(inside / f"up-{self._random.randint(0, 9)}", up if up.is_relative_to(root) else root)

    def _hidden(self, path: Path) -> None:
        prefix = self._random.choice((".", "_", "._", "__"))
        _put(path.with_name(f"{prefix}{path.name}"), ".jsonl", self._text())

    def _odd_kind(self, path: Path) -> None:
        """A named pipe, which nobody writes to; or a name that is not UTF-8."""
        if self._random.random() < 0.5:
            pipe = path.with_name(
                f"pipe-{self._random.randint(0, 99)}" + self._random.choice((".jsonl", ".jsonl.gz", ".parquet"))
            )
            if not pipe.exists():
                os.mkfifo(pipe)
            return
        _put(path.with_name("latin-\udce4-1"), self._random.choice((".jsonl", ".jsonl.gz")), self._text())

    # Contents

    def _text(self) -> bytes:
        lines = [self._line() for _ in range(self._random.choice((0, 1, 3, 10, 60)))]
        newline = self._random.choice((b"\n", b"\n", b"\r\n"))
        text = b"".join(line + newline for line in lines)
        if self._random.random() < 0.3:
            text = text.removesuffix(newline)
        return (b"\xef\xbb\xbf" if self._random.random() < 0.2 else b"") + text

    def _line(self) -> bytes:
        if self._random.random() < 0.7:
            return json.dumps(self._sound()).encode()
        return self._random.choice(_DIRTY)(self)

    def _sound(self) -> Record:
        """A sound run, now and then one that was given before."""
        if self._given and self._random.random() < 0.05:
            return copy.deepcopy(self._random.choice(self._given))
        self._next += 1
        run = {
            **copy.deepcopy(_GOOD),
            "run_id": f"run-{self._seed}-{self._next}{self._random.choice(('', '', ' ä', chr(0x1F980)))}",
        }
        run["latency_ms"] = self._random.choice((12.5, 0.0, 1e-9, 123456.789))
        if self._random.random() < 0.5:
            run["schema_version"] = 2
        self._given.append(run)
        return run

    def changed(self, **fields: Any) -> bytes:
        return json.dumps({**self._sound(), **fields}).encode()

    def without(self, name: str) -> bytes:
        return json.dumps({key: value for key, value in self._sound().items() if key != name}).encode()

    def operator(self, position: int = 1, **fields: Any) -> bytes:
        run = copy.deepcopy(self._sound())
        run["operators"][position] |= fields
        return json.dumps(run).encode()

    def bytes_of(self) -> bytes:
        return json.dumps(self._sound()).encode()

    def some(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


_DIRTY: tuple[Callable[[HostileFolder], bytes], ...] = (
    lambda _one: b"",
    lambda _one: b"   ",
    lambda _one: b"\t \r",
    lambda _one: b"oops",
    lambda _one: b"{",
    lambda one: one.bytes_of()[: one.some(1, 200)],
    lambda one: one.bytes_of() + one.bytes_of(),  # two records in one line: none may vanish unseen
    lambda one: one.bytes_of() + b" trailing",
    lambda one: one.bytes_of() + b",",
    lambda one: b"[" + one.bytes_of() + b"," + one.bytes_of() + b"]",
    lambda one: b"[" + one.bytes_of() + b"]",
    lambda _one: b"[]",
    lambda _one: b"{}",
    lambda _one: b"null",
    lambda _one: b"7",
    lambda _one: b'"text"',
    lambda one: b"\xff\xfe" + one.bytes_of(),
    lambda one: one.bytes_of().replace(b"clicks", b"cl\xe4cks"),
    lambda _one: b"\x00" * 10,
    lambda one: one.bytes_of().replace(b", ", b",\r "),
    lambda one: b"  " + one.bytes_of() + b"  ",
    lambda _one: b'{"run_id": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    lambda one: one.bytes_of().replace(b"12.5", b"9" * 400),
    lambda one: one.bytes_of().replace(b"12.5", b"1e999"),
    lambda one: one.changed(latency_ms=float("nan")),
    lambda one: one.changed(latency_ms=-1),
    lambda one: one.changed(latency_ms="12.5"),
    lambda one: one.changed(window_s=1),
    lambda one: one.changed(window_s=None),
    lambda one: one.changed(job=""),
    lambda one: one.changed(job=7),
    lambda one: one.changed(job="j\u0000b"),
    lambda one: one.changed(job="other"),  # perhaps a conflicting duplicate
    lambda one: one.changed(run_id=None),
    lambda one: one.changed(run_id={"a": 1}),
    lambda one: one.changed(unknown="field"),
    lambda one: one.changed(schema_version=9),
    lambda one: one.changed(schema_version="1"),
    lambda one: one.changed(observed_at="yesterday"),
    lambda one: one.changed(observed_at="2026-11-16T10:00:00.5+02:00"),
    lambda one: one.changed(source_rates={"in": 0.0}),
    lambda one: one.changed(source_rates={"other": 5.0}),
    lambda one: one.changed(source_rates=[1]),
    lambda one: one.changed(operators=[]),
    lambda one: one.changed(operators="none"),
    lambda one: one.changed(edges=[{"source": "in", "target": "count"}] * 2),
    lambda one: one.changed(edges=[{"source": "in", "target": "nowhere"}]),
    lambda one: one.changed(edges=None),
    lambda one: one.without("run_id"),
    lambda one: one.without("operators"),
    lambda one: one.without("schema_version"),
    lambda one: one.operator(parallelism=0),
    lambda one: one.operator(parallelism=2.5),
    lambda one: one.operator(parallelism=2**40),
    lambda one: one.operator(busy_ms_per_s=4000.0),
    lambda one: one.operator(records_in_per_s=5000.0),
    lambda one: one.operator(type="Bad Type"),
    lambda one: one.operator(window_slide=20.0),
    lambda one: one.operator(id="in"),
    lambda one: one.operator(0, type="map"),
)


def _is_odd(path: Path) -> bool:
    return not path.exists() or not (path.is_file() or path.is_dir())


def _link_to(link: Path, target: Path) -> None:
    if not link.is_symlink() and not link.exists():
        link.symlink_to(target)


def _put(path: Path, ending: str, content: bytes) -> None:
    """A new file; what is there already stays as it is."""
    file = path.with_name(path.name + ending)
    if not file.exists() and not file.is_symlink():
        file.write_bytes(content)

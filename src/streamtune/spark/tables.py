"""Tables that are either complete or absent, in any file format.

A table is a folder of parts and a list that says which parts count::

    runs/
      _manifest/0000000001.json      {"parts": ["batch-4711"], …}
      _manifest/0000000002.json      {"parts": ["batch-4711", "batch-4712"], …}
      part=batch-4711/day=2026-11-15/….parquet
      part=batch-4712/day=2026-11-16/….parquet
      part=batch-4713/               being written, or left by a killed step: no list names it, no reader sees it

A part is written first; then a manifest with the next number is put beside the others in one atomic step. Readers take
the manifest with the highest number. A part's id names the work that made it (a batch, a set of input files), so doing
the work again finds its id already listed and changes nothing. One writer per table at a time: a second one loses the
race for the next number and gets an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any

from pydantic import Field, ValidationError
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from streamtune.frozen import Frozen
from streamtune.sealed import checksum
from streamtune.spark.errors import StorageError
from streamtune.spark.files import Files, literal
from streamtune.spark.local_parquet import LocalFile, Work, files_below, read_task, tasks_of
from streamtune.spark.schemas import nullable, widened
from streamtune.spark.settings import TableSettings

_PART = "part"
# Formats of plain files, whose parts Spark reads together; of any other (Delta, Iceberg) a part is a table of its own.
_FILE_FORMATS = frozenset({"parquet", "orc", "avro", "json"})


class Manifest(Frozen):
    """What a table consists of."""

    number: int = 0
    format: str = "parquet"
    table_schema: dict[str, Any] = Field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    rows: Mapping[str, int] = Field(default_factory=dict)
    properties: Mapping[str, Any] = Field(default_factory=dict)
    checksum: str | None = Field(default=None, description="of all the rest; release 0.1.0 wrote none")

    def sealed(self) -> Manifest:
        """With its checksum."""
        return self.model_copy(update={"checksum": self._sum()})

    def _sum(self) -> str:
        rest = self.model_dump(mode="json", exclude={"checksum"})
        return checksum(json.dumps(rest, sort_keys=True).encode())

    @classmethod
    def read(cls, text: str, place: str) -> Manifest:
        """A manifest as written; one that has changed since, by a single bit even, is refused."""
        try:
            found = cls.model_validate_json(text)
        except ValidationError as error:
            raise StorageError(f"{place} is damaged: {error.errors()[0]['msg']}. Restore it from a copy") from error
        if found.checksum is not None and found.checksum != found._sum():
            raise StorageError(f"{place} is damaged: it is not what was written. Restore it from a copy")
        return found


class Table:
    """One table at one location."""

    def __init__(self, spark: SparkSession, location: str, settings: TableSettings | None = None) -> None:
        self._spark = spark
        self._files = Files(spark)
        self.location = location.rstrip("/")
        self.settings = settings or TableSettings()

    def manifest(self) -> Manifest:
        """The current list; an empty one where there is no table yet."""
        numbers = self._manifest_names()
        if not numbers:
            return Manifest(format=self.settings.format)
        path = f"{self.location}/_manifest/{numbers[-1]}"
        return Manifest.read(self._files.read_text(path), path)

    @property
    def exists(self) -> bool:
        return bool(self._manifest_names())

    def read(
        self, *, columns: StructType | None = None, parts: Iterable[str] | None = None, without: Iterable[str] = ()
    ) -> DataFrame:
        """All rows, or those of some parts, or those of all but some parts.

        ``columns`` may leave out columns and also fields of nested ones; formats that support it do not even read them.
        """
        manifest = self.manifest()
        if manifest.number == 0:
            raise StorageError(f"there is no table at '{self.location}': run the step that writes it first")
        schema = columns or StructType.fromJson(manifest.table_schema)
        wanted = set(manifest.parts if parts is None else parts) - set(without)
        chosen = [part for part in manifest.parts if part in wanted and manifest.rows[part]]
        if not chosen:
            return self._spark.createDataFrame([], schema)
        if manifest.format in _FILE_FORMATS:
            located = StructType([*schema.fields, StructField(_PART, StringType())])
            reader = self._spark.read.format(manifest.format).schema(located).option("basePath", self.location)
            return reader.load([literal(self._part_path(part)) for part in chosen]).select(*schema.fieldNames())
        frames = [self._spark.read.format(manifest.format).load(literal(self._part_path(part))) for part in chosen]
        return reduce(DataFrame.unionByName, (frame.select(*schema.fieldNames()) for frame in frames))

    def map_batches(self, work: Work, columns: StructType, schema: StructType | str) -> DataFrame:
        """``work`` on all rows in Arrow batches, as ``DataFrame.mapInArrow`` does it with ``columns`` of the rows.

        Parquet files on a local disk are read by the tasks themselves, which is several times cheaper.
        """
        tasks = self._local_tasks(self.manifest())
        if tasks is None:
            return self.read(columns=columns).mapInArrow(work, schema)
        shared = self._spark.sparkContext.broadcast((tasks, to_arrow_schema(nullable(columns), timezone="UTC")))
        count = len(tasks)
        return self._spark.range(0, count, 1, max(1, count)).mapInArrow(partial(_on_files, shared, work), schema)

    def _local_tasks(self, manifest: Manifest) -> list[list[LocalFile]] | None:
        """The files of the table in groups, None where Python cannot read them."""
        if manifest.number == 0 or manifest.format != "parquet":
            return None
        folder = self._files.local_path(self.location)
        if folder is None:
            return None
        parts = [part for part in manifest.parts if manifest.rows[part]]
        return tasks_of([file for part in parts for file in files_below(f"{folder}/{_PART}={part}")])

    def rows(self, part: str | None = None) -> int:
        """Rows in the table, or in one part, as counted when they were written."""
        manifest = self.manifest()
        return sum(manifest.rows.values()) if part is None else manifest.rows[part]

    def append(self, frame: DataFrame, part: str) -> bool:
        """Add a part. Idempotent: False, and nothing is done, if a part of this id is already listed."""
        before = self.manifest()
        if part in before.parts:
            return False
        rows = self._write(frame, part)
        schema = _widened(before, frame.schema, self.location)
        self._commit(before, schema, (*before.parts, part), {**before.rows, part: rows}, before.properties)
        return True

    def replace(self, frame: DataFrame, step: str, properties: Mapping[str, Any] | None = None) -> None:
        """Replace the whole contents by ``frame``; ``properties`` say how it was made."""
        before = self.manifest()
        part = f"{step}-{before.number + 1:06d}"
        rows = self._write(frame, part)
        self._commit(before, frame.schema, (part,), {part: rows}, properties or {})

    def compact(self) -> None:
        """Rewrite many small parts as one. Ids of parts are forgotten: only for tables that are complete."""
        self.replace(self.read(), "compact")

    def _write(self, frame: DataFrame, part: str) -> int:
        path = self._part_path(part)
        keys = [key for key in self.settings.partition_by if key in frame.columns]
        writer = frame.write.format(self.settings.format).mode("overwrite").options(**self.settings.options)
        (writer.partitionBy(*keys) if keys else writer).save(path)
        reader = self._spark.read.format(self.settings.format)
        if self.settings.format in _FILE_FORMATS:  # an empty part has no file to take the schema from
            reader = reader.schema(nullable(frame.schema))
        return int(reader.load(literal(path)).count())

    def _commit(
        self,
        before: Manifest,
        schema: StructType,
        parts: Sequence[str],
        rows: Mapping[str, int],
        properties: Mapping[str, Any],
    ) -> None:
        keys = tuple(key for key in self.settings.partition_by if key in schema.fieldNames())
        after = Manifest(
            number=before.number + 1,
            format=self.settings.format,
            table_schema=json.loads(schema.json()),
            partition_by=keys,
            parts=tuple(parts),
            rows=dict(rows),
            properties=dict(properties),
        ).sealed()
        target = f"{self.location}/_manifest/{after.number:010d}.json"
        if not self._files.create_text(target, after.model_dump_json(indent=1)):
            raise StorageError(
                f"another job has written the table at '{self.location}' meanwhile: run this step again, alone"
            )
        self._sweep(before, after)

    def _sweep(self, before: Manifest, after: Manifest) -> None:
        """Remove parts and manifests that neither the present nor the previous manifest needs.

        The previous one stays, since a reader may still be using it.
        """
        names = self._manifest_names()
        for name in names[:-2]:
            path = f"{self.location}/_manifest/{name}"
            old = Manifest.read(self._files.read_text(path), path)
            for part in set(old.parts) - set(before.parts) - set(after.parts):
                self._files.delete(self._part_path(part))
            self._files.delete(path)

    def _manifest_names(self) -> list[str]:
        names = self._files.names(f"{self.location}/_manifest")
        return [name for name in names if name.endswith(".json") and not name.startswith(".")]

    def _part_path(self, part: str) -> str:
        return f"{self.location}/{_PART}={part}"


def _on_files(
    shared: Broadcast[tuple[list[list[LocalFile]], Any]], work: Work, batches: Iterator[Any]
) -> Iterator[Any]:
    tasks, columns = shared.value
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from work(read_task(tasks[number], columns))


def _widened(before: Manifest, schema: StructType, location: str) -> StructType:
    """The table's columns with those that only the new rows have. New columns are null in the rows before them."""
    if not before.table_schema or not before.parts:
        return schema
    try:
        return widened(StructType.fromJson(before.table_schema), schema)
    except TypeError as clash:
        raise StorageError(f"the rows do not fit the table at '{location}': {clash}. Use another location") from clash

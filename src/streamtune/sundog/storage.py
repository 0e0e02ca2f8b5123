"""Files as Spark's Python workers reach them: local paths, or any address that pyarrow knows (hdfs://, s3://, gs://)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import fs

from streamtune.sundog.errors import SundogError


def locate(address: str) -> tuple[Any, str]:
    """The file system and the path in it. Hadoop writes local addresses as ``file:/…``."""
    if address.startswith("file:"):
        path = address.removeprefix("file:")
        return fs.LocalFileSystem(), "/" + path.lstrip("/")
    if "://" in address:
        try:
            system, path = fs.FileSystem.from_uri(address)
        except (pa.ArrowException, OSError, ValueError) as error:
            why = str(error).partition("\n")[0][:200]
            raise SundogError(f"{address} cannot be reached: {why}. Check the address") from error
        return system, str(path)
    return fs.LocalFileSystem(), address


def read_bytes(address: str, begin: int = 0, end: int | None = None) -> bytes:
    """A part of a file, or all of it."""
    system, path = locate(address)
    with system.open_input_file(path) as file:
        file.seek(begin)
        return bytes(file.read() if end is None else file.read(end - begin))


def read_compressed(address: str) -> bytes:
    """All of a gzip file."""
    system, path = locate(address)
    with system.open_input_stream(path, compression="gzip") as file:
        return bytes(file.read())


def size_of(address: str) -> int:
    system, path = locate(address)
    return int(system.get_file_info(path).size or 0)


def exists(address: str) -> bool:
    system, path = locate(address)
    return bool(system.get_file_info(path).type != fs.FileType.NotFound)


def names(address: str) -> list[str]:
    """What is in a folder, in order; nothing where there is none."""
    system, path = locate(address)
    found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return sorted(entry.base_name for entry in found)


def make_folder(address: str) -> None:
    system, path = locate(address)
    system.create_dir(path, recursive=True)


def write_parquet(address: str, tables: list[pa.Table], **options: Any) -> int:
    """Each table as a row group of one file; its size in bytes."""
    import pyarrow.parquet as pq

    system, path = locate(address)
    with pq.ParquetWriter(path, tables[0].schema, filesystem=system, **options) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=max(1, table.num_rows))
    return size_of(address)


def move(source: str, target: str) -> None:
    """Rename; what stood there is replaced."""
    system, path = locate(source)
    system.move(path, locate(target)[1])


def delete_folder(address: str) -> None:
    system, path = locate(address)
    if system.get_file_info(path).type == fs.FileType.Directory:
        system.delete_dir(path)


def delete_file(address: str) -> None:
    system, path = locate(address)
    if system.get_file_info(path).type == fs.FileType.File:
        system.delete_file(path)

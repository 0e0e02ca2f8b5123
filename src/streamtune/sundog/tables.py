"""Reading the tables that a run or a stream left, as any reader of Parquet would."""

from __future__ import annotations

from datetime import date

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from streamtune.sundog import storage
from streamtune.sundog.errors import SundogError
from streamtune.sundog.places import table_folder


def read_table(out: str, table: str, day: date, window: int) -> pd.DataFrame:
    """``features`` or ``rankings`` of one day and window."""
    folder = table_folder(out, table, day, window)
    if not storage.exists(folder):
        raise SundogError(f"there are no {table} of {day} with a window of {window} in {out}: run 'sundog rank' for it")
    system, path = storage.locate(folder)
    try:
        frame: pd.DataFrame = pq.read_table(path, filesystem=system, partitioning=None).to_pandas()
    except (pa.ArrowException, OSError) as error:
        raise damaged(folder, error) from error
    return frame


def damaged(place: str, error: Exception) -> SundogError:
    """What to say of a table that is there and cannot be read."""
    why = str(error).partition("\n")[0][:200]
    return SundogError(f"{place} is damaged: {why}. Remove it and run 'sundog rank' for that day again")


def ranked_days(out: str, window: int) -> list[date]:
    """Days that have rankings with this window, in order."""
    system, path = storage.locate(f"{out}/rankings")
    if system.get_file_info(path).type != fs.FileType.Directory:
        raise SundogError(f"there are no rankings in {out}: run 'sundog run' or 'sundog stream' first")
    names = [entry.base_name for entry in system.get_file_info(fs.FileSelector(path))]
    days = sorted(date.fromisoformat(name.removeprefix("day=")) for name in names if name.startswith("day="))
    return [day for day in days if storage.exists(table_folder(out, "rankings", day, window))]

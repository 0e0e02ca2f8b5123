"""Spark without any of our meaning: sessions, files, and tables that are whole or not there."""

from streamtune.extras import require

require("pyspark", "pandas", "pyarrow", extra="spark", what="Spark")

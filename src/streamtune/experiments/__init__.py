"""The papers' tables and figures. Only ``demo`` and ``bench`` import this room."""

from streamtune.extras import require

require("pyspark", "pandas", "matplotlib", "torch", "scipy", "xgboost", extra="spark,learn", what="an experiment")

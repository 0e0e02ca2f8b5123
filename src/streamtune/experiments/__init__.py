"""The papers' tables and figures. Only ``demo`` and ``bench`` import this room."""

from streamtune.extras import require

require("pyspark", "pandas", "pyarrow", "matplotlib", extra="spark", what="an experiment")
require("torch", "torch_geometric", "scipy", "sklearn", "xgboost", extra="learn", what="an experiment")

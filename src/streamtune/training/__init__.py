"""Models from histories, as Spark jobs: encoders per cluster, capacity curves, cost models."""

from streamtune.extras import require

require("pyspark", "pandas", "pyarrow", extra="spark", what="training on a history")
require("torch", "torch_geometric", "safetensors", "scipy", "sklearn", extra="learn", what="training on a history")

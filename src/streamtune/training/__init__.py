"""Models from histories, as Spark jobs: encoders per cluster, capacity curves, cost models."""

from streamtune.extras import require

require("pyspark", "pandas", "torch", "scipy", "safetensors", extra="spark,learn", what="training on a history")

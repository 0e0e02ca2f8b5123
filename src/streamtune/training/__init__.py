"""Models from histories, as Spark jobs: encoders per cluster, capacity curves, cost models."""

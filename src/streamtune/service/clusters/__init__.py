"""Where jobs are found: Flink clusters, and simulated ones for the demo."""

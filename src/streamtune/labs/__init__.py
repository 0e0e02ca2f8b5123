"""Places to try things on: a local Flink from the pip package, and histories of simulated jobs."""

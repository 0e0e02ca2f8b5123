"""ZeroTune: latency and throughput of a plan before it first runs, and the plan to start with."""

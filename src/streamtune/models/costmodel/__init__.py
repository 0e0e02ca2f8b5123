"""ZeroTune: latency and throughput of a plan before it first runs, and the plan to start with."""

from streamtune.extras import require

require("torch", "torch_geometric", "safetensors", "pyarrow", extra="learn", what="a cost model")

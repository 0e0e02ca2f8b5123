"""Seconds that ``sort`` takes for 200,000 numbers with a buffer, threads and a compressor: an objective by command."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time

buffer_kb, threads, compress = sys.argv[1:4]
random.seed(1)
with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    file.writelines(f"{random.random()}\n" for _ in range(200_000))
    file.flush()
    command = ["sort", f"--buffer-size={buffer_kb}K", f"--parallel={threads}", file.name]
    if compress != "none":
        command.insert(1, f"--compress-program={compress}")
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    print(time.perf_counter() - start)

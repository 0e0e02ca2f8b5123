"""The child process: ``python -m streamtune.engines.timely.worker`` runs one job until its standard input ends.

It speaks JSON lines: an order comes first, then requests; every request gets one response. There is no port, and when
the parent is gone, however it went, standard input ends and so does the child.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import IO, Any

from bytewax.run import cli_main

from streamtune.engines.timely.flow import build_flow
from streamtune.engines.timely.order import Order
from streamtune.engines.timely.runtime import Runtime

# bytewax holds sources back until the last epoch of its own is done. One that never ends gives Timely's own behaviour.
_ONE_LONG_EPOCH = timedelta(days=365)


def answer(runtime: Runtime, request: Mapping[str, Any]) -> dict[str, Any]:
    match request["do"]:
        case "snapshot":
            return runtime.snapshot(int(request["epochs_from"]))
        case "rates":
            runtime.set_rates(request["rates"])
            return {}
        case "results":
            return {"results": runtime.results or []}
        case "threads":
            return {"threads": [[key, index, ident] for (key, index), ident in sorted(runtime.threads.items())]}
        case unknown:
            return {"error": f"unknown request {unknown!r}"}


def listen(runtime: Runtime, answers: IO[str]) -> None:
    """Answer until the parent is gone, then end the process whatever its workers are doing.

    A parent that is killed while it waits for an answer is noticed by the answer, not by the end of the input.
    """
    try:
        for line in sys.stdin:
            answers.write(json.dumps(answer(runtime, json.loads(line))) + "\n")
            answers.flush()
    finally:
        os._exit(0)


def main() -> None:
    # Whatever prints to standard output must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    runtime = Runtime(Order.from_json(sys.stdin.readline()))
    threading.Thread(target=listen, args=(runtime, answers), daemon=True).start()
    run: Callable[..., None] = cli_main
    run(build_flow(runtime), workers_per_process=runtime.placement.workers, epoch_interval=_ONE_LONG_EPOCH)


if __name__ == "__main__":
    main()

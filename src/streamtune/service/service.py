"""``Service``: the fleet, the store and the API as one process."""

from __future__ import annotations

import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Literal

import uvicorn

from streamtune.errors import StreamTuneError
from streamtune.service.api.app import make_app
from streamtune.service.api.state import ApiState
from streamtune.service.clocks import RealClock, ServiceClock
from streamtune.service.clusters.base import Cluster
from streamtune.service.errors import ServiceError
from streamtune.service.fleet.context import Context
from streamtune.service.fleet.fleet import Fleet
from streamtune.service.fleet.tuners import Tuners
from streamtune.service.holder import Holder
from streamtune.service.learn.rounds import Rounds
from streamtune.service.learn.schedule import Schedule
from streamtune.service.metrics import ServiceCollector
from streamtune.service.recording import HistoryReader, HistoryWriter
from streamtune.service.settings import STORE_VARIABLE, LearnSettings, ServiceSettings, WatchedCluster
from streamtune.service.store import Store
from streamtune.service.webhooks import Webhooks
from streamtune.settings import Settings

log = logging.getLogger("streamtune.service")

# Learning gives way to the fleet.
_STREAMTUNE = "import os; os.nice(10); from streamtune.cli import main; main()"
TunerSettings = Callable[[str], Settings | None]
Reload = Callable[[], tuple[ServiceSettings, TunerSettings]]
MakeCluster = Callable[[WatchedCluster, ServiceSettings], Cluster]


class Service:
    """One service from its start to its end."""

    def __init__(
        self,
        settings: ServiceSettings,
        store: Store,
        clusters: Iterable[Cluster],
        *,
        data: Path,
        clock: ServiceClock | None = None,
        demo: Literal["simulated", "flink"] | None = None,
        source: str = "defaults",
        tuner_settings: TunerSettings = lambda _name: None,
        reload: Reload | None = None,
        make_cluster: MakeCluster | None = None,
        learn_options: Sequence[str] = (),
    ) -> None:
        clock = clock or RealClock()
        self._holder = Holder(data)
        self._reload, self._make_cluster = reload, make_cluster
        self.tuners = Tuners(store, memory=data / "memory.db", settings=tuner_settings)
        self.webhooks = Webhooks(store, settings.webhooks)
        self._writer = HistoryWriter(data / "runs", max(5.0, 60.0 / clock.speed)) if settings.history else None
        self.context = Context(store, clock, self._holder.name, settings, self.tuners, data=data)
        self.context.notify = self.webhooks.notify
        if self._writer is not None:
            self.context.record = self._writer.record
        self.fleet = Fleet(self.context, clusters)
        self.metrics = ServiceCollector(self.context, self.fleet)
        self.context.observed, self.context.decided = self.metrics.observed, self.metrics.decided
        self.api = ApiState(
            self.context,
            self.fleet,
            clock.now(),
            demo,
            source,
            history=HistoryReader(data).view,
            model_changed=self.tuners.refresh,
            metrics=self.metrics.text,
        )
        # By the environment: other users of the machine can read a command line, and an address may have a password.
        environment = {STORE_VARIABLE: store.database.url.render_as_string(hide_password=False)}
        self.schedule = Schedule(
            lambda: learn_command(data, self.context.settings.learn, learn_options),
            environment,
            lambda: self.context.settings.learn.every_hours,
            self.tuners.refresh,
            since_last_s=Rounds(data).age_s(),
        )
        self.api.learning = self.schedule.view
        self.app = make_app(self.api)
        self._server: uvicorn.Server | None = None
        self._closing = False

    def run(self, ready: Callable[[str], None] = lambda _url: None) -> None:
        """Serve until SIGTERM or SIGINT; SIGHUP reads the settings anew."""
        settings = self.context.settings.api
        try:
            listener = _listen(settings.host, settings.port)
            scheme = "https" if settings.tls_certificate else "http"
            host, port = listener.getsockname()[:2]
            self._server = uvicorn.Server(self._uvicorn())
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGHUP, self._on_hangup)
                for number in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(number, self._on_stop)
            self.fleet.start()
            self.webhooks.start()
            self.schedule.start()
            ready(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
            self._server.run(sockets=[listener])
        finally:
            self.close()

    def _uvicorn(self) -> uvicorn.Config:
        settings = self.context.settings.api
        for file in (settings.tls_certificate, settings.tls_key):
            if file is not None and not Path(file).is_file():
                raise ServiceError(f"{file} cannot be read: check service.api.tls_certificate and tls_key")
        return uvicorn.Config(
            self.app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=3,
            ssl_certfile=settings.tls_certificate,
            ssl_keyfile=settings.tls_key,
            limit_concurrency=1000,
        )

    def stop(self) -> None:
        """Ask ``run`` to end."""
        if self._server is not None:
            self._server.should_exit = True

    def close(self) -> None:
        """End the fleet: a rescale under way is finished."""
        self._closing = True
        self.schedule.stop()
        if not self.fleet.stop(self.context.settings.stop_grace_s):
            log.error("a rescale did not end in time: the next start looks at what became of it")
        if self._writer is not None:
            self._writer.flush()
        self.webhooks.stop()
        self.context.store.close()
        self._holder.release()

    def _on_stop(self, _number: int, _frame: FrameType | None) -> None:
        """Stop in order; who asks again meanwhile does not want to wait.

        uvicorn stops for a signal too, and sends it once more when it has: without a handler the process would end
        right there, with a rescale half done and the leases held.
        """
        if self._closing:
            raise KeyboardInterrupt
        self.stop()

    def _on_hangup(self, _number: int, _frame: FrameType | None) -> None:
        threading.Thread(target=self.reload, daemon=True).start()

    def reload(self) -> bool:
        """Read the settings anew; bad ones are refused as a whole, and the old ones stay."""
        if self._reload is None:
            return False
        try:
            settings, tuner_settings = self._reload()
            known = {cluster.name: cluster for cluster in self.context.settings.clusters}
            wanted = {cluster.name: cluster for cluster in settings.clusters}
            if _windows(settings) != _windows(self.context.settings):  # every cluster is asked in another rhythm
                known = {name: one.replace(url="") for name, one in known.items()}
            changed = [name for name in wanted if wanted[name] != known.get(name)]
            make = self._make_cluster
            made = [] if make is None else [make(wanted[name], settings) for name in changed]
        except StreamTuneError as error:
            log.error("the new settings are refused, the old ones stay", extra={"error": str(error)})
            self.context.store.audit.write(
                self.context.now(), "SIGHUP", "reload_refused", self.api.policy_source, {"error": str(error)}
            )
            return False
        self.context.settings = settings
        self.tuners.use(tuner_settings)
        self.webhooks.use(settings.webhooks)
        for name in [name for name in known if wanted.get(name) != known[name]]:
            self.fleet.remove(name)
        for cluster in made:
            self.fleet.add(cluster)
        for keeper in self.fleet.keepers():
            keeper.state.refresh()
        self.context.store.audit.write(self.context.now(), "SIGHUP", "reload", self.api.policy_source)
        log.info("settings were read anew", extra={"policies": len(settings.policies)})
        return True


def _windows(settings: ServiceSettings) -> tuple[float, float]:
    return settings.window_s, settings.settle_s


def learn_command(data: Path, how: LearnSettings, options: Sequence[str] = ()) -> list[str]:
    """A round of learning as the service's own settings want it, a demo's and those of a reload among them."""
    told = ["--min-runs", str(how.min_runs), "--evaluate-days", str(how.evaluate_days)]
    told += ["--tolerance", str(how.tolerance), *(["--engine", how.engine] if how.engine else [])]
    return [sys.executable, "-c", _STREAMTUNE, *options, "learn", "--data", str(data), *told]


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # With the protocol named, asyncio switches Nagle's algorithm off: without, answers may wait 40 ms for an
        # acknowledgement.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
        return listener
    except (OSError, OverflowError) as error:
        raise ServiceError(f"cannot listen on {host}:{port} ({error}): choose another --host or --port") from error

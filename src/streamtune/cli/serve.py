"""``streamtune serve``: the service."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from streamtune.cli.arguments import is_there
from streamtune.cli.options import current_config, setting
from streamtune.cli.output import err
from streamtune.config import Config, load_config
from streamtune.engines.flink.settings import FlinkSettings
from streamtune.errors import StreamTuneError
from streamtune.outputs import check_folder
from streamtune.service.settings import ApiSettings, ServiceSettings, WatchedCluster
from streamtune.settings import Settings
from streamtune.signatures import SignatureSettings, follow

if TYPE_CHECKING:
    from streamtune.service.clusters.base import Cluster
    from streamtune.service.service import Service


def serve(
    kind: Annotated[str, typer.Argument(metavar="[flink]", help="With --demo: a real local Flink, three jobs.")] = "",
    config_file: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings; as 'streamtune --config FILE serve'.")
    ] = None,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="A simulated fleet at 60 times the speed; with flink: jobs on a real local Flink."),
    ] = False,
    host: Annotated[str | None, setting(ApiSettings, "host")] = None,
    port: Annotated[int | None, setting(ApiSettings, "port")] = None,
    store: Annotated[str | None, setting(ServiceSettings, "store")] = None,
    data: Annotated[Path | None, setting(ServiceSettings, "data")] = None,
    tls_certificate: Annotated[str | None, setting(ApiSettings, "tls_certificate")] = None,
    tls_key: Annotated[str | None, setting(ApiSettings, "tls_key")] = None,
    log: Annotated[str, typer.Option(help="Form of the log on stderr: text or json.")] = "text",
) -> None:
    """Look after all jobs of all clusters, with an API and a dashboard.

    Clusters and policies stand in the section 'service' of streamtune.yaml; a job that no policy names is observed and
    never changed. SIGHUP reads the file again. Nothing but this machine is listened to unless --host says so.

    \b
    Examples:
      streamtune serve --demo
      streamtune serve --demo flink
      streamtune serve --config streamtune.yaml --store postgresql://host/streamtune
    """
    if kind not in ("", "flink") or (kind and not demo):
        raise StreamTuneError(f"'{kind}' means nothing here: 'streamtune serve --demo flink' is what there is")
    if log not in ("text", "json"):
        raise StreamTuneError(f"--log must be text or json, but got '{log}'")
    _check_paths(data, tls_certificate, tls_key)
    from streamtune.service.logs import set_up_logs

    set_up_logs("json" if log == "json" else "text")
    api = {"host": host, "port": port, "tls_certificate": tls_certificate, "tls_key": tls_key}
    given = _Given({name: value for name, value in api.items() if value is not None}, store, data, config_file)
    follow(partial(given.config().settings, SignatureSettings))  # --config behind 'serve' counts for models too
    if demo:
        _serve_demo("flink" if kind else "simulated", given)
    else:
        given.service().run(_say_where)


def _check_paths(data: Path | None, *files: str | None) -> None:
    """Before anything is loaded."""
    if data is not None:
        check_folder(data, "--data")
    for option, file in zip(("--tls-certificate", "--tls-key"), files, strict=True):
        if file is not None and not (is_there(Path(file)) and Path(file).is_file()):
            raise StreamTuneError(f"{option} {file} cannot be read: there is no such file. Check the path")


class _Given:
    """What the command line says, over what the file says."""

    def __init__(
        self, api: dict[str, str | int], store: str | None, data: Path | None, config_file: Path | None
    ) -> None:
        self.api, self.store, self.data, self._file = api, store, data, config_file

    def config(self) -> Config:
        return load_config(self._file) if self._file is not None else current_config()

    def settings(self, settings: ServiceSettings) -> ServiceSettings:
        changes: dict[str, object] = {"api": settings.api.replace(**self.api)}
        if self.store is not None:
            changes["store"] = self.store
        if self.data is not None:
            changes["data"] = str(self.data)
        return settings.replace(**changes)

    def service(self) -> Service:
        """The service of the config file."""
        config = self.config()
        settings = self.settings(config.settings(ServiceSettings))
        from streamtune.service.store import Store

        store = Store(settings.store_url)
        from streamtune.service.service import Service

        make = _cluster_maker(config)
        clusters = [make(one, settings) for one in settings.clusters]
        if not clusters:
            err.print(
                "no clusters yet: name them under service.clusters in streamtune.yaml, or try 'serve --demo'",
                highlight=False,
            )
        path = config.path

        def reload() -> tuple[ServiceSettings, Callable[[str], Settings | None]]:
            again = load_config(path)
            return self.settings(again.settings(ServiceSettings)), again.tuner

        return Service(
            settings,
            store,
            clusters,
            data=settings.data_folder,
            source=str(path or "defaults"),
            tuner_settings=config.tuner,
            reload=reload,
            make_cluster=make,
            learn_options=() if path is None else ("--config", str(path)),
        )


def _cluster_maker(config: Config) -> Callable[[WatchedCluster, ServiceSettings], Cluster]:
    flink = config.settings(FlinkSettings)

    def make(one: WatchedCluster, settings: ServiceSettings) -> Cluster:
        from streamtune.engines.base import MeasurementWindow
        from streamtune.service.clusters.flink import FlinkCluster

        settle_s = settings.settle_s if one.settle_s is None else one.settle_s
        window = MeasurementWindow(settle_s, settings.window_s if one.window_s is None else one.window_s)
        overrides = None if one.overrides is None else Path(one.overrides)
        return FlinkCluster(one.name, one.url, window, overrides=overrides, settings=flink)

    return make


def _serve_demo(kind: Literal["simulated", "flink"], given: _Given) -> None:
    """In a folder of its own, with a token that lasts as long as the demo."""
    folder = Path(given.data or tempfile.mkdtemp(prefix="streamtune-demo-"))
    try:
        if kind == "simulated":
            _run_demo(_simulated(folder, given))
        else:
            _run_on_flink(folder, given)
    finally:
        if given.data is None:
            shutil.rmtree(folder, ignore_errors=True)


def _simulated(folder: Path, given: _Given) -> Service:
    from streamtune.service.clocks import FastClock
    from streamtune.service.demo import SPEED, demo_clusters, demo_settings
    from streamtune.service.service import Service
    from streamtune.service.store import Store

    settings = given.settings(demo_settings())
    clock = FastClock(datetime.now(UTC), SPEED)
    store = Store(settings.store or f"sqlite:///{folder}/service.db")
    return Service(settings, store, demo_clusters(clock), data=folder, clock=clock, demo="simulated", source="the demo")


def _run_on_flink(folder: Path, given: _Given) -> None:
    """The demo on a real Flink: started here, and gone at the end."""
    from streamtune.service.clusters.flink import FlinkCluster
    from streamtune.service.demo_flink import flink_demo, flink_demo_settings, flink_demo_window
    from streamtune.service.service import Service
    from streamtune.service.store import Store

    settings = given.settings(flink_demo_settings())
    err.print("starting a local Flink with three jobs: a minute", highlight=False)
    with flink_demo(folder) as demo:
        cluster = FlinkCluster("local", demo.url, flink_demo_window())
        store = Store(settings.store or f"sqlite:///{folder}/service.db")
        _run_demo(Service(settings, store, [cluster], data=folder, demo="flink", source="the demo"))


def _run_demo(service: Service) -> None:
    now = datetime.now(UTC)
    _, token = service.context.store.tokens.create(f"you-{now:%H%M%S}", "operator", now)
    err.print(f"operator's token of this demo: {token}", highlight=False, soft_wrap=True)
    service.run(_say_where)


def _say_where(url: str) -> None:
    err.print(f"dashboard: {url}", highlight=False, soft_wrap=True)
    err.print("it can be read here without a token; changes need one: 'streamtune token create NAME'", highlight=False)

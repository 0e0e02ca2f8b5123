"""The application: all endpoints, errors in one form, the dashboard's files."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from streamtune import __version__
from streamtune.errors import StreamTuneError
from streamtune.service.api import about, decisions, events, jobs, security
from streamtune.service.api.limits import Gate, Limits, error_response
from streamtune.service.api.security import Sessions, needs_reader
from streamtune.service.api.state import ApiState
from streamtune.service.errors import RequestError
from streamtune.service.views import ErrorView

log = logging.getLogger("streamtune.service")

_CODES = (400, 401, 403, 404, 405, 409, 413, 421, 422, 429)
_NAMES = {400: "not_valid", 404: "not_found", 405: "method", 413: "too_large"}
_ERRORS: dict[int | str, dict[str, Any]] = {code: {"model": ErrorView} for code in _CODES}


def make_app(service: ApiState) -> FastAPI:
    """The application of one service."""
    app = routers_only()
    app.state.service = service
    app.state.sessions = Sessions()
    app.state.limits = Limits(service.context.settings.api)
    _add_dashboard(app, service)
    _add_errors(app)
    settings = service.context.settings.api
    hosts = {"localhost", settings.host, *settings.allowed_hosts}
    app.add_middleware(Gate, settings=settings, limits=app.state.limits, hosts=hosts)
    return app


def routers_only() -> FastAPI:
    """The endpoints without a service behind them: what the reference is made from."""
    app = FastAPI(
        title="StreamTune",
        version=__version__,
        summary="A fleet of streaming jobs under control.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # Swagger's page loads its scripts from elsewhere
        redoc_url=None,
        responses=_ERRORS,
    )
    reading = [Depends(needs_reader)]
    app.include_router(about.health)
    app.include_router(security.router)
    for router in (about.router, jobs.router, decisions.router, events.router):
        app.include_router(router, dependencies=reading)
    return app


def _add_dashboard(app: FastAPI, service: ApiState) -> None:
    """The page and its files; they hold no data, so that whoever reaches the service may load them."""

    @app.get("/", include_in_schema=False)
    def index() -> Response:
        return FileResponse(service.dashboard / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/static", StaticFiles(directory=service.dashboard), name="static")


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestError)
    def refused(_request: Request, error: RequestError) -> Response:
        response = error_response(error.status, error.code, error.message, error.next_step)
        if error.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response

    @app.exception_handler(RequestValidationError)
    def not_valid(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return error_response(422, "not_valid", f"{where}: {first['msg']}"[:500], "see /api/openapi.json")

    @app.exception_handler(HTTPException)
    def plain(_request: Request, error: HTTPException) -> Response:
        code = _NAMES.get(error.status_code, "http")
        response = error_response(error.status_code, code, str(error.detail), "see /api/openapi.json")
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(StreamTuneError)
    def failed(_request: Request, error: StreamTuneError) -> Response:
        log.error("a request failed", extra={"error": str(error)})
        return error_response(503, "unavailable", str(error), "try again; the log of the service says more")

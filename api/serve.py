"""Serving the coordinator until it is told to end."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path

from api import logs
from api.errors import is_storage_full
from api.http import PRIVATE_UMASK
from api.settings import ServiceSettings
from gsdm_grid.client import default_home
from gsdm_grid.errors import QueryError, ResourceError
from gsdm_grid.plan import placement_warnings

LOG_FILE = "coordinator.log"
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(settings: ServiceSettings, log_level: str = "INFO", verbose: bool = False) -> None:
    """Serve until SIGINT or SIGTERM. Port 0 takes a free one; ``server.json`` in the home folder says which.

    At a terminal the log goes to a file in the home folder, unless ``verbose``: there it would bury people's lines.
    """
    import uvicorn

    from api.http import protocol
    from api.wiring import make_app

    os.umask(PRIVATE_UMASK)
    _check_tls(settings)
    for warning in placement_warnings(settings.placement):
        print(f"warning: a query that does not say otherwise: {warning}", file=sys.stderr)
    log_file = settings.home.absolute() / LOG_FILE if sys.stderr.isatty() and not verbose else None
    logs.configure(log_level, log_file)
    listener = _listen(settings)
    settings = replace(settings, port=listener.getsockname()[1])
    try:
        app = make_app(settings)
    except BaseException:
        listener.close()
        raise
    _announce(settings, app.state.services.tokens.first_start(settings.home), log_file)
    config = uvicorn.Config(
        app,
        http=protocol(settings.limits),
        log_config=None,
        access_log=False,
        ssl_certfile=str(settings.tls_certificate) if settings.tls_certificate else None,
        ssl_keyfile=str(settings.tls_key) if settings.tls_key else None,
        timeout_graceful_shutdown=5,
        ws_max_size=1 << 20,
        server_header=False,
    )
    for number in (signal.SIGINT, signal.SIGTERM):  # raised once more by the server when it has ended
        signal.signal(number, lambda *_: None)

    class Server(uvicorn.Server):
        """Lets the readers of result streams go before it waits for what is being served."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            if hasattr(app.state, "result_streams"):
                app.state.result_streams.close()
            await super().shutdown(sockets)

    try:
        Server(config).run(sockets=[listener])
    except SystemExit:  # the server's way to say that the application did not start
        if (failure := getattr(app.state, "start_failure", None)) is None:
            raise
        raise ResourceError(f"the coordinator cannot start: {_reason(failure)}") from None
    finally:
        listener.close()
        _server_file(settings).unlink(missing_ok=True)


def _reason(failure: BaseException) -> str:
    """What was wrong, in a sentence; the log has the rest."""
    if is_storage_full(failure):
        return "its disk, or its database, is full; make room, or choose another --home"
    return f"{type(failure).__name__}: {failure}".splitlines()[0]


def _check_tls(settings: ServiceSettings) -> None:
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        raise QueryError("TLS needs both a certificate and its key")
    for path in (settings.tls_certificate, settings.tls_key):
        if path is not None and not path.is_file():
            raise QueryError(f"there is no file {path}")
    if settings.host not in LOOPBACK and settings.tls_certificate is None:
        print(
            f"warning: serving on {settings.host} without TLS: tokens and data can be read on the way", file=sys.stderr
        )


def _listen(settings: ServiceSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        raise ResourceError(
            f"cannot listen on {settings.host}:{settings.port} ({error.strerror}): choose another with --port"
        ) from None
    return listener


def _server_file(settings: ServiceSettings) -> Path:
    return settings.home / "server.json"


def _announce(settings: ServiceSettings, token: str | None, log_file: Path | None) -> None:
    home = settings.home.absolute()
    _server_file(settings).write_text(json.dumps({"url": settings.url, "pid": os.getpid()}))
    print(f"GSDM-grid coordinator at {settings.url}  (documentation: {settings.url}/docs)", flush=True)
    if home != default_home({}):
        print(f"other commands find it with: export GSDM_HOME={shlex.quote(str(home))}", flush=True)
    print("in a browser: gsdm open", flush=True)
    if log_file is not None:
        print(f"log: {log_file}", flush=True)
    if token is not None:
        print(f"admin token, shown once (also in {home / 'admin.token'}): {token}", flush=True)

"""Settings of a coordinator service: where it listens, what it keeps where, and what it allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gsdm_grid.client import default_home
from gsdm_grid.config import Settings

DEFAULT_PORT = 8642


@dataclass(frozen=True)
class ServiceLimits:
    """What one token, or one request, may ask for. Immutable."""

    body_bytes: int = 1 << 20
    """Largest request body; uploads of function code have their own limit."""
    bundle_bytes: int = 16 << 20
    """Largest upload of function code."""
    bundle_import_s: float = 30.0
    """How long the import of uploaded function code may take."""
    header_s: float = 10.0
    """How long the head of a request may take to arrive, from the connection's or the request's first moment."""
    body_s: float = 60.0
    """How long the body of a request may take to arrive, after its head."""
    queries_per_token: int = 1000
    """Queries that one token may have stored at a time."""
    result_streams: int = 256
    """Result streams (SSE, WebSocket, Arrow) open at a time, over all tokens."""
    result_read_bytes: int = 4 << 20
    """How many bytes of a result stream are read, and encoded, at a time."""
    vertices: int = 4096
    """Vertices of one query's data flow."""
    depth: int = 32
    """Nesting of one specification."""


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of one coordinator service. Immutable."""

    home: Path = field(default_factory=default_home)
    """Folder for the database, kept results, uploaded functions and the first token."""
    database: str | None = None
    """SQLAlchemy URL of the metadata; None is SQLite in ``home``."""
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    placement: str = "grid"
    """Where queries run unless their specification says otherwise."""
    result_bytes: int = 256 << 20
    """How much of each result stream is kept for readers."""
    data_folders: tuple[Path, ...] = ()
    """Folders in which streams of operators may read and write files; none: anywhere."""
    allowed_modules: tuple[str, ...] = ()
    """Modules, and packages with all that is in them, whose code documents may name as ``package.module:name``."""
    trial_share: float = 1.0
    """Share of the hosts of a pool that the plans of the optimizer's trials may use; the rest is left to queries."""
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    grid: Settings = field(default_factory=Settings)

    @property
    def database_url(self) -> str:
        """Where the metadata is."""
        return self.database or f"sqlite:///{self.home / 'gsdm.sqlite'}"

    @property
    def url(self) -> str:
        """Where clients find the service."""
        scheme = "https" if self.tls_certificate else "http"
        return f"{scheme}://{self.host}:{self.port}"

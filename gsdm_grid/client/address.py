"""Where the coordinator is and with which token it is asked: given, from the environment, or from this machine's files.

A coordinator that serves on this machine leaves ``server.json`` and ``admin.token`` in its home; the token is only used
for loopback addresses, so that it never leaves the machine by accident.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from gsdm_grid.errors import QueryError

DEFAULT_SERVER = "http://127.0.0.1:8642"


@dataclass(frozen=True)
class Address:
    """A coordinator's address and the token to show there. Immutable; the token is not in its ``repr``."""

    url: str
    token: str | None = field(default=None, repr=False)

    @property
    def host(self) -> str:
        """The host in the address."""
        return urlsplit(self.url).hostname or ""

    @property
    def is_loopback(self) -> bool:
        """Whether the address is one of this machine alone."""
        return _is_loopback(self.host)


def default_home(environment: Mapping[str, str] | None = None) -> Path:
    """Where a coordinator keeps its things: ``$GSDM_HOME``, else ``~/.gsdm``."""
    environment = os.environ if environment is None else environment
    return Path(environment.get("GSDM_HOME") or Path.home() / ".gsdm")


def resolve(
    server: str | None = None,
    token: str | None = None,
    home: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Address:
    """The address: as given, else ``GSDM_SERVER`` and ``GSDM_TOKEN``, else what a coordinator on this machine left."""
    environment = os.environ if environment is None else environment
    home = default_home(environment) if home is None else home
    url = server or environment.get("GSDM_SERVER") or _announced(home) or DEFAULT_SERVER
    found = Address(_checked(url), token or environment.get("GSDM_TOKEN") or None)
    if found.token is None and found.is_loopback:
        return Address(found.url, _admin_token(home))
    return found


def _announced(home: Path) -> str | None:
    """The address that a coordinator on this machine wrote down; one that listens everywhere is asked at loopback."""
    try:
        url = str(json.loads((home / "server.json").read_text())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    parts = urlsplit(url)
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(parts.hostname or "")
    if everywhere:
        parts = parts._replace(netloc=f"{everywhere}:{parts.port}" if parts.port else everywhere)
    return urlunsplit(parts)


def _admin_token(home: Path) -> str | None:
    try:
        return (home / "admin.token").read_text().strip() or None
    except OSError:
        return None


def _checked(url: str) -> str:
    whole = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(whole)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise QueryError(f"server {url!r} is no address: expected something like {DEFAULT_SERVER}")
    return whole.rstrip("/")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""What can go wrong between a client and a coordinator, as errors of the product's tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from gsdm_grid.errors import GsdmError

_TYPE = "urn:gsdm:problem:"
_STANDARD = frozenset({"type", "title", "status", "detail", "instance", "request_id"})


class ApiProblem(GsdmError):
    """The coordinator answered with a problem document (RFC 9457), or an operation ended with one."""

    def __init__(
        self,
        kind: str,
        status: int,
        detail: str,
        extras: Mapping[str, Any] | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(kind, status, detail, dict(extras or {}), request_id)
        self.kind = kind
        self.status = status
        self.detail = detail
        self.extras: Mapping[str, Any] = self.args[3]
        self.request_id = request_id
        if trace := self.extras.get("trace"):  # the lines of a user's function, see `FunctionError`
            self.add_note(str(trace))

    def __str__(self) -> str:
        if self.status >= 500 and self.request_id:
            return f"{self.detail} (request {self.request_id})"
        return self.detail

    @staticmethod
    def from_json(document: Mapping[str, Any], status: int = 500, request_id: str | None = None) -> ApiProblem:
        """The error that a problem document tells of; ``status`` and ``request_id`` if it does not say them."""
        kind = str(document.get("type", "about:blank")).removeprefix(_TYPE)
        detail = str(document.get("detail") or document.get("title") or kind)
        extras = {name: value for name, value in document.items() if name not in _STANDARD}
        return ApiProblem(
            kind, int(document.get("status", status)), detail, extras, document.get("request_id") or request_id
        )

    @staticmethod
    def of(response: httpx.Response) -> ApiProblem:
        """The error behind an answer that is none of success. Its body must have been read."""
        request_id = response.headers.get("X-Request-Id")
        try:
            document = response.json()
        except ValueError:
            document = None
        if not isinstance(document, dict) or not {"type", "detail", "title"} & set(document):
            url = response.request.url
            detail = f"{url.scheme}://{url.netloc.decode()} answered {response.status_code} {response.reason_phrase}"
            return ApiProblem("http", response.status_code, f"{detail} and no problem document", {}, request_id)
        return ApiProblem.from_json(document, response.status_code, request_id)


class NoCoordinator(GsdmError):
    """Nobody answers at the address."""

    def __init__(self, url: str, reason: str = "") -> None:
        super().__init__(url, reason)

    def __str__(self) -> str:
        url, reason = self.args
        because = f" ({reason})" if reason else ""
        return (
            f"no coordinator answers at {url}{because}: start one with `gsdm serve`, "
            "or name another with --server, or its home with GSDM_HOME"
        )

"""HTTP connections with time limits: a client that sends its request a byte at a time does not keep one for ever.

The head of a request must arrive within `ServiceLimits.header_s`, counted from when the connection is open or, on one
that is used again, from the first byte; its body within `ServiceLimits.body_s` after that. Answers have no limit:
result streams are read as slowly as their readers like. Between requests the web server's own limit holds (5 s). What
is no HTTP, and what comes too late, is answered with a problem document.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from api.errors import MEDIA_TYPE, STATUS, Problem, document
from api.settings import ServiceLimits


def protocol(limits: ServiceLimits) -> type[HttpToolsProtocol]:
    """The class of connections with these limits."""

    class LimitedProtocol(HttpToolsProtocol):
        """See the module. Bound to the event loop."""

        _timer: asyncio.TimerHandle | None = None
        _arriving = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """A request shall come."""
            super().connection_made(transport)
            self._allow(limits.header_s, "the head of the request")

        def connection_lost(self, exc: Exception | None) -> None:
            """No more limits."""
            self._allow_any_time()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            """The first byte of a request, perhaps on a connection that is used again."""
            super().on_message_begin()
            self._arriving = True
            if self._timer is None:
                self._allow(limits.header_s, "the head of the request")

        def on_headers_complete(self) -> None:
            """The head is here; the body may take its own time."""
            self._allow(limits.body_s, "the body of the request")
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            """The request is here."""
            self._arriving = False
            self._allow_any_time()
            super().on_message_complete()

        def handle_websocket_upgrade(self) -> None:
            """The connection is a WebSocket's from now on."""
            self._allow_any_time()
            super().handle_websocket_upgrade()

        def send_400_response(self, msg: str) -> None:
            """What came is no HTTP."""
            self._refuse(Problem("malformed", msg))

        def _allow(self, seconds: float, what: str) -> None:
            self._allow_any_time()
            self._timer = self.loop.call_later(seconds, self._too_slow, what, seconds)

        def _allow_any_time(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _too_slow(self, what: str, seconds: float) -> None:
            self._timer = None
            if self.transport.is_closing():
                return
            if self.cycle is not None and not self.cycle.response_complete and self.cycle.response_started:
                self.transport.close()  # its answer has begun: there is no room for another one
            elif not self._arriving:
                self.transport.close()  # not a byte came
            else:
                self._refuse(Problem("too-slow", f"{what} did not arrive within {seconds:g} s"))

        def _refuse(self, problem: Problem) -> None:
            """Answer outside of the application, and close the connection."""
            self._allow_any_time()
            body = json.dumps(document(problem)).encode()
            headers: dict[str, Any] = {
                "content-type": MEDIA_TYPE,
                "content-length": len(body),
                "x-content-type-options": "nosniff",
                "connection": "close",
            }
            head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            self.transport.write(STATUS_LINE[STATUS[problem.kind][0]] + head.encode() + b"\r\n" + body)
            self.transport.close()

    return LimitedProtocol

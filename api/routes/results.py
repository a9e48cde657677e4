"""Results over HTTP: the last windows as JSON, or the stream as server-sent events, Arrow, or over a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, WebSocket
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from api import errors
from api.errors import Problem, problem_of, responses
from api.http import (
    Token,
    authenticate_websocket,
    require,
    subprotocol_of,
)
from api.results import (
    Ended,
    Form,
    Heartbeat,
    Missed,
    ReaderEvent,
    ResultStreams,
    Windows,
    last_view,
    projected,
    sse,
    to_json,
)
from api.services import Services, WithServices, services_of
from gsdm_grid.errors import GsdmError
from gsdm_grid.storage import ResultLog

JSON, SSE, ARROW = "application/json", "text/event-stream", "application/vnd.apache.arrow.stream"
VIEW_POINTS, STREAM_POINTS = 500, 64
_POINTS = (
    "Longest vector shown in full in JSON; longer ones are reduced to so many points, 0 leaves vectors out. "
    f"Default: {VIEW_POINTS} for the last windows, {STREAM_POINTS} for streams. Arrow always has everything."
)
_FROM = (
    "The seq to begin at, or the `earliest` that is kept, or only what comes from now on (`latest`). What is not kept "
    "any more, or was damaged on disk, is reported as missed. JSON has the `last` of these windows: whoever asks again "
    "from `next` of the answer before gets the newest of what came since."
)
_COMPLEX = (
    "How JSON shows complex vectors longer than `points`: as `magnitude`, or as `parts`: the real and imaginary "
    "parts of the samples of those magnitudes. Complex numbers and shorter vectors always have both parts."
)

router = APIRouter(prefix="/v1/queries/{name}/results", tags=["results"])


class ResultsWanted(BaseModel):
    """What of a result stream is wanted, and how. Parameters that there are not are refused."""

    model_config = ConfigDict(extra="forbid")

    stream: str | None = Field(None, max_length=64, description="Which result stream; the first one by default.")
    last: int = Field(100, ge=1, le=1000, description="JSON: how many windows.")
    points: int | None = Field(None, ge=0, le=10_000, description=_POINTS)
    complex: Literal["magnitude", "parts"] = Field("magnitude", description=_COMPLEX)
    attributes: str | None = Field(
        None, min_length=1, max_length=1024, description="Only these attributes, separated by commas, and `ts`."
    )
    start: str = Field("earliest", alias="from", pattern=r"^(earliest|latest|[0-9]{1,18})$", description=_FROM)
    follow: bool = Field(False, description="Streams: go on when the run has ended, and wait for the next.")
    max_windows: int | None = Field(None, ge=1, le=10_000, description="Streams: most windows in one event or batch.")

    def names(self) -> tuple[str, ...] | None:
        """The attributes that are wanted; None is all."""
        return None if self.attributes is None else tuple(sorted({one.strip() for one in self.attributes.split(",")}))

    def begin(self, log: ResultLog, last_seen: int | None) -> int:
        """Seq of the first window to send."""
        if last_seen is not None:
            return last_seen + 1 if last_seen < log.next else log.first  # beyond the end: it saw another log
        return {"earliest": log.first, "latest": log.next}[self.start] if self.start.isalpha() else int(self.start)


class StreamWanted(ResultsWanted):
    """The same for a WebSocket."""

    format: Literal["json", "arrow"] = "json"


class ShownWindow(BaseModel):
    """One window."""

    seq: int = Field(description="Counts the windows of this result stream.")
    ordinal: int = Field(description="Place in the stream that the window was computed from.")
    values: dict[str, Any] = Field(
        description="Attributes. Complex numbers are `{re, im}`; vectors longer than `points` are "
        "`{minmax, length}` or, of complex numbers, `{magnitude, length}`; `{re, im, length}` with `complex=parts`."
    )


class MissedWindows(BaseModel):
    """Windows that cannot be read any more."""

    model_config = ConfigDict(serialize_by_alias=True)

    missed: int = Field(description="How many.")
    first: int = Field(alias="from", description="Seq of the first.")
    last: int = Field(alias="to", description="Seq of the last.")


class LastWindows(BaseModel):
    """The last windows of a result stream."""

    query: str
    type: dict[str, Any] = Field(description="The stream type.")
    spectra: bool = Field(
        description="Whether its vectors are spectra, in the order of the Fourier transform, as functions declare; "
        "false until the query is compiled."
    )
    first: int = Field(description="Seq of the oldest window that is kept.")
    next: int = Field(description="Seq that the next window will have.")
    state: str = Field(description="Whether the log is being written.")
    points: int = Field(description="Longest vector that is shown in full.")
    missed: list[MissedWindows] = Field(description="Which of them cannot be read: they were damaged on disk.")
    windows: list[ShownWindow]


_FORMS: dict[int | str, dict[str, Any]] = {
    200: {
        "model": LastWindows,
        "description": "The last windows; or the stream, in the form that `Accept` asks for.",
        "content": {
            SSE: {"schema": {"type": "string"}},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


def streams_of(connection: HTTPConnection) -> ResultStreams:
    """The open result streams of the application; made when the first one is opened."""
    state, services = connection.app.state, services_of(connection)
    if not hasattr(state, "result_streams"):
        state.result_streams = ResultStreams(services.settings.limits, services.tokens.lasting)
    streams: ResultStreams = state.result_streams
    return streams


@router.get(
    "",
    response_model=None,
    response_class=JSONResponse,
    responses={
        **_FORMS,
        **responses(
            *("unauthorized", "forbidden", "not-found", "not-acceptable", "invalid-request", "unknown-name"),
            *("too-many", "not-ready"),
        ),
    },
)
async def get_results(
    name: str,
    request: Request,
    services: WithServices,
    wanted: Annotated[ResultsWanted, Query()],
    token: Annotated[Token, Depends(require("viewer"))],
    last_event_id: Annotated[
        int | None,
        Header(alias="Last-Event-ID", ge=0, lt=2**62, description="Go on after this event; goes before `from`."),
    ] = None,
) -> Response:
    """Results of a query, kept as far as the coordinator's settings say, in one of three forms.

    `application/json`: the last windows, long vectors down-sampled for plots.

    `text/event-stream`: events `windows` (`{event, first, last, windows}`), `missed` (`{missed, from, to}`: you came
    too late for these, or they were damaged on disk), `end` (`{reason, next}`) and `failed` (`{error, next}`). The `id`
    of an event is the seq of its last window: a client that sends it as `Last-Event-ID` goes on there.

    `application/vnd.apache.arrow.stream`: all values, with columns `__seq__` and `__ordinal__`. What else happens is
    told by batches without rows, with an event in their metadata (`gsdm.event`).

    A reader that is slow, or gone, never slows the query.
    """
    media = _negotiated(request.headers.get("accept", "*/*"))
    log = await run_in_threadpool(services.logs.kept, name, wanted.stream)
    if media == JSON:
        points = VIEW_POINTS if wanted.points is None else wanted.points
        read_bytes = services.settings.limits.result_read_bytes
        spectra = await run_in_threadpool(services.views.gives_spectra, name, wanted.stream)
        return Response(await run_in_threadpool(_last, name, log, wanted, points, read_bytes, spectra), media_type=JSON)
    form = _form("sse" if media == SSE else "arrow", log, wanted)
    start = wanted.begin(log, last_event_id)
    return _StreamResponse(streams_of(request), services, name, token.id, log, form, start, wanted.follow)


def _last(name: str, log: ResultLog, wanted: ResultsWanted, points: int, read_bytes: int, spectra: bool) -> bytes:
    start, shown = wanted.begin(log, None), projected(log.type, wanted.names())
    view = last_view(log, shown, start, wanted.last, points, read_bytes, wanted.complex == "parts")
    return to_json({"query": name, "spectra": spectra, **view})


def _form(kind: Literal["sse", "json", "arrow"], log: ResultLog, wanted: ResultsWanted) -> Form:
    points = STREAM_POINTS if wanted.points is None else wanted.points
    return Form.of(kind, log.type, wanted.names(), points, wanted.max_windows, wanted.complex == "parts")


class _StreamResponse(StreamingResponse):
    """A result stream as server-sent events or in Arrow's form. Counts as open from its first to its last byte."""

    def __init__(
        self,
        streams: ResultStreams,
        services: Services,
        name: str,
        token_id: str,
        log: ResultLog,
        form: Form,
        at: int,
        follow: bool,
    ) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(self._body(), media_type=SSE if form.kind == "sse" else ARROW, headers=headers)
        self._streams, self._log, self._form, self._at, self._follow = streams, log, form, at, follow
        self._token_id = token_id
        self._view = partial(services.views.view, name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        with self._streams.reading(self._log, self._view, self._token_id) as self._reader:
            await super().__call__(scope, receive, send)

    async def _body(self) -> AsyncIterator[bytes]:
        is_arrow = self._form.kind == "arrow"
        yield self._form.arrow_schema(self._log.type) if is_arrow else b"retry: 1000\n\n"
        async for event in self._streams.events(self._reader, self._form, self._at, self._follow):
            if isinstance(event, Windows):
                yield event.body
            elif is_arrow:
                yield await run_in_threadpool(self._form.arrow_event, self._log.type, event)
            else:
                yield _as_sse(event)


def _as_sse(event: ReaderEvent) -> bytes:
    if isinstance(event, Missed):
        return sse("missed", to_json(event.document()), event.next - 1)
    if isinstance(event, Ended) and event.reason != "closing":  # then clients shall come back
        return sse("failed" if event.reason == "failed" else "end", to_json(event.document()))
    return b": nothing new\n\n"


@router.websocket("/ws")
async def follow_results(websocket: WebSocket, name: str) -> None:
    """The same events as messages: JSON texts; with `?format=arrow`, windows as binary Arrow messages, schema first.

    Where headers cannot be set, the token goes in a subprotocol `gsdm.bearer.TOKEN`.
    """
    try:
        token = await authenticate_websocket(websocket, "viewer")
        wanted = _wanted(websocket)
        services = services_of(websocket)
        log = await run_in_threadpool(services.logs.kept, name, wanted.stream)
        form = _form(wanted.format, log, wanted)
        streams = streams_of(websocket)
        with streams.reading(log, partial(services.views.view, name), token.id) as reader:
            await websocket.accept(subprotocol_of(websocket))
            events = streams.events(reader, form, wanted.begin(log, None), wanted.follow)
            await _converse(websocket, events, form, log)
    except (Problem, GsdmError) as error:
        if websocket.client_state.name != "CONNECTING":
            raise
        await websocket.send_denial_response(errors.response(problem_of(error), websocket.url.path))


def _wanted(websocket: WebSocket) -> StreamWanted:
    try:
        return StreamWanted.model_validate(dict(websocket.query_params))
    except ValidationError as error:
        found = [{"path": ".".join(map(str, one["loc"])), "reason": one["msg"]} for one in error.errors()[:20]]
        detail = "; ".join(f"{one['path']}: {one['reason']}" for one in found[:3])
        raise Problem("invalid-request", detail, errors=found) from None


async def _converse(websocket: WebSocket, events: AsyncIterator[ReaderEvent], form: Form, log: ResultLog) -> None:
    """Send until the stream ends or the client goes. What the client says is of no interest."""
    sending = asyncio.create_task(_send(websocket, events, form, log))
    hearing = asyncio.create_task(_hear(websocket))
    try:
        await asyncio.wait({sending, hearing}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, hearing):
            task.cancel()
            with suppress(asyncio.CancelledError, WebSocketDisconnect):
                await task


async def _hear(websocket: WebSocket) -> None:
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass


async def _send(websocket: WebSocket, events: AsyncIterator[ReaderEvent], form: Form, log: ResultLog) -> None:
    if form.kind == "arrow":
        await websocket.send_bytes(form.arrow_schema(log.type))
    async for event in events:
        if isinstance(event, Windows) and form.kind == "arrow":
            await websocket.send_bytes(event.body)
        elif isinstance(event, Windows):
            await websocket.send_text(event.body.decode())
        elif not isinstance(event, Heartbeat):  # the protocol has its own
            await websocket.send_text(to_json(event.document()).decode())
        if isinstance(event, Ended):
            await websocket.close({"closing": 1012, "revoked": 1008}.get(event.reason, 1000), event.reason)


def _negotiated(accept: str) -> str:
    """Which of our forms fits an ``Accept`` header best; JSON if there is no difference."""
    best: tuple[float, int, str] = (0.0, 0, "")
    for media in (JSON, SSE, ARROW):
        fitting = max((fit for one in accept.split(",") if (fit := _fit(one, media)) is not None), default=(0, 0.0))
        best = max(best, (fitting[1], fitting[0], media), key=lambda found: found[:2])
    if not best[2] or not best[0]:
        raise Problem("not-acceptable", f"results come as {JSON}, {SSE} or {ARROW}; none is accepted by {accept!r}")
    return best[2]


def _fit(media_range: str, media: str) -> tuple[int, float] | None:
    """How exactly a range names the form, and how much it is wanted."""
    name, *parameters = (part.strip().lower() for part in media_range.split(";"))
    names = {media: 2, media.partition("/")[0] + "/*": 1, "*/*": 0}
    if name not in names:
        return None
    quality = 1.0
    for parameter in parameters:
        if parameter.startswith("q="):
            with suppress(ValueError):
                quality = min(max(float(parameter[2:]), 0.0), 1.0)
    return names[name], quality

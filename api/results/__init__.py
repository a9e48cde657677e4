"""Readers of result streams, and windows as JSON."""

from api.results.json_windows import last_view, projected, to_json
from api.results.readers import Ended, Form, Heartbeat, Missed, ReaderEvent, ResultStreams, Windows, sse

__all__ = [
    "Ended",
    "Form",
    "Heartbeat",
    "Missed",
    "ReaderEvent",
    "ResultStreams",
    "Windows",
    "last_view",
    "projected",
    "sse",
    "to_json",
]

"""Readers of result streams, and windows as JSON."""

from api.results.json_windows import last_view, projected, to_json
from api.results.readers import Ended, Event, Form, Heartbeat, Missed, ResultStreams, Windows, sse

__all__ = [
    "Ended",
    "Event",
    "Form",
    "Heartbeat",
    "Missed",
    "ResultStreams",
    "Windows",
    "last_view",
    "projected",
    "sse",
    "to_json",
]

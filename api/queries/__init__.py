"""Queries as people submit them: their desired and actual state, and their way back after a crash."""

from api.queries.coordinator import Coordinator, etag

__all__ = [
    "Coordinator",
    "etag",
]

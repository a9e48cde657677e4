"""Calls into Ray that are under way: Ray is shut down when there are none.

Ray ends the whole process if a thread calls it while, or just after, another one shuts it down. So whoever calls Ray
says so, and whoever shuts it down waits for those calls and lets no more begin.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class RayCalls:
    """The calls of one pool. Thread-safe."""

    def __init__(self) -> None:
        self._count = 0
        self._closed = False
        self._changed = threading.Condition()

    @property
    def closed(self) -> bool:
        """Whether Ray is shut down, or about to be. What takes long looks at this now and then."""
        return self._closed

    @contextlib.contextmanager
    def begin(self) -> Iterator[bool]:
        """Call Ray inside of this if it gives True; if it gives False, Ray is not there any more.

        >>> calls = RayCalls()
        >>> with calls.begin() as allowed:
        ...     allowed
        True
        >>> calls.close(1.0)
        True
        >>> with calls.begin() as allowed:
        ...     allowed
        False
        """
        with self._changed:
            allowed = not self._closed
            self._count += allowed
        try:
            yield allowed
        finally:
            with self._changed:
                self._count -= allowed
                self._changed.notify_all()

    def close(self, timeout_s: float) -> bool:
        """Let no call begin any more and wait for those under way; False if some still are after ``timeout_s``."""
        with self._changed:
            self._closed = True
            return self._changed.wait_for(lambda: not self._count, timeout_s)

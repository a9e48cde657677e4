"""Waking a thread that waits for sockets, from another thread."""

from __future__ import annotations

import socket


class Waker:
    """One thread waits for its `fileno` beside its sockets; any other ends that wait. Closed once nobody waits."""

    def __init__(self) -> None:
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)

    def fileno(self) -> int:
        """What to wait for: it can be read once `wake` was called."""
        return self._read.fileno()

    def wake(self) -> None:
        """End the present or next wait. Any thread."""
        try:
            self._write.send(b"w")
        except OSError:
            return  # full means awake already; closed means there is nobody to wake

    def clear(self) -> None:
        """Forget wake-ups so far."""
        try:
            while self._read.recv(4096):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        """Close both ends."""
        self._read.close()
        self._write.close()

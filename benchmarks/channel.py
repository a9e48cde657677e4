"""Channels: GB/s and messages/s of each kind by message size, beside a bare socket and a bare memory copy.

Every pair runs in two processes: shared memory and sockets (with and without encryption) as working nodes use them,
and a bare TCP socket on loopback. A consumer looks at every block (its timestamps), but does not copy it.
"""

from __future__ import annotations

import multiprocessing
import socket
import time
from typing import Any

import numpy as np
from reporting import Report, arguments, median

from gsdm_grid.channels.keys import InstallationKey
from gsdm_grid.tuning.window_size import seconds_through_channel

SIZES = (4_096, 65_536, 262_144, 1_048_576, 4_194_304)


class OpenKey(InstallationKey):
    """No encryption: only to tell what encryption costs."""

    def secure_server(self, socket: Any) -> None:
        """Leave the socket as it is."""

    def secure_client(self, socket: Any) -> None:
        """Leave the socket as it is."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (OpenKey, (self.secret,))


def _sink(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as link:
        buffer = bytearray(1 << 22)
        while link.recv_into(buffer):
            pass


def through_socket(size: int, count: int) -> float:
    """Seconds for as many bytes through a bare TCP socket between two processes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = multiprocessing.get_context("spawn").Process(target=_sink, args=(server.getsockname()[1],))
        process.start()
        link, _ = server.accept()
    data = bytes(size)
    with link:
        for _ in range(20):
            link.sendall(data)
        started_s = time.perf_counter()
        for _ in range(count):
            link.sendall(data)
        link.shutdown(socket.SHUT_WR)
        process.join()
        return time.perf_counter() - started_s


def through_copy(size: int, count: int) -> float:
    """Seconds for as many bytes by np.copyto into a ring of 16 MiB, as a channel's ring is used."""
    source = np.zeros(size, np.uint8)
    ring = np.zeros((max((1 << 24) // size, 1), size), np.uint8)
    started_s = time.perf_counter()
    for number in range(count):
        np.copyto(ring[number % len(ring)], source)
    return time.perf_counter() - started_s


def main() -> int:
    """Run it."""
    options = arguments(__doc__ or "")
    report = Report("channels", options.json)
    budget = (1 << 28) if options.quick else (1 << 30)
    rounds = 1 if options.quick else 3
    key, bare_key = InstallationKey(), OpenKey()
    ways = {
        "memory copy": through_copy,
        "shared memory": lambda size, count: seconds_through_channel(size, count, True, key),
        "bare socket": through_socket,
        "sockets": lambda size, count: seconds_through_channel(size, count, False, bare_key),
        "encrypted sockets": lambda size, count: seconds_through_channel(size, count, False, key),
    }
    report.row("bytes", "way", "GB/s", "messages/s")
    rates: dict[tuple[str, int], float] = {}
    for size in SIZES:
        count = max(min(budget // size, 20_000), 50)
        measured: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(rounds):
            for way, measure in ways.items():
                report.progress(f"{size} bytes, round {number + 1} of {rounds}: {way}")
                measured[way].append(count / measure(size, count))
        for way, found in measured.items():
            rates[way, size] = median(found)
            report.row(size, way, rates[way, size] * size / 1e9, float(round(rates[way, size])))
    at = 1_048_576
    return report.finish(
        {
            "shm_of_memcpy": rates["shared memory", at] / rates["memory copy", at],
            "tcp_of_socket": rates["sockets", at] / rates["bare socket", at],
            "encrypted_of_socket": rates["encrypted sockets", at] / rates["bare socket", at],
            "shm_gb_s": {str(size): rates["shared memory", size] * size / 1e9 for size in SIZES},
            "tcp_gb_s": {str(size): rates["sockets", size] * size / 1e9 for size in SIZES},
            "socket_gb_s": {str(size): rates["bare socket", size] * size / 1e9 for size in SIZES},
            "memcpy_gb_s": {str(size): rates["memory copy", size] * size / 1e9 for size in SIZES},
        }
    )


if __name__ == "__main__":
    raise SystemExit(main())

"""Choosing the size of physical windows by measurement, as the parasplit paper does, once per machine.

The size is doubled while throughput through a channel between two processes gains more than 0.15 %. The choice is
remembered in a file, with the machine it was made on; a remembered choice from another machine is not used.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from gsdm_grid.channels import ChannelLimits, DataPlane, End, InstallationKey, Outlet
from gsdm_grid.config import cache_folder
from gsdm_grid.errors import ChannelError
from gsdm_grid.model import PhysicalWindow, TypeRegistry, create_stream_type

GAIN = 0.0015
SMALLEST, LARGEST = 1 << 16, 1 << 23
Bytes = create_stream_type("ProfileBytes", {"payload": "vector of uint8"}, registry=TypeRegistry())


@dataclass(frozen=True)
class SizeChoice:
    """A chosen size, and the throughput (bytes per second) of each size that was tried."""

    block_bytes: int
    tried: dict[int, float]


def choose(measure: Callable[[int], float]) -> SizeChoice:
    """Double the size while ``measure`` (bytes per second) gains more than 0.15 %.

    >>> choose(lambda size: 1e9 * size / (size + 300_000)).block_bytes
    8388608
    >>> choose(lambda size: min(size, 1 << 18)).block_bytes
    262144
    """
    size = SMALLEST
    tried = {size: measure(size)}
    while size < LARGEST:
        tried[size * 2] = measure(size * 2)
        if tried[size * 2] <= tried[size] * (1 + GAIN):
            break
        size *= 2
    return SizeChoice(size, tried)


def measure_channel(size: int, total_bytes: int = 1 << 29, rounds: int = 3) -> float:
    """Median bytes per second through shared memory to another process that reads them, in blocks of this size."""
    count = max(total_bytes // size, 64)
    key = InstallationKey()
    return statistics.median(
        count * size / seconds_through_channel(size, count, True, key, read=True) for _ in range(rounds)
    )


def seconds_through_channel(size: int, count: int, shared: bool, key: InstallationKey, read: bool = False) -> float:
    """Seconds for ``count`` blocks of ``size`` bytes through a channel to another process, which may read them all."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_consume, args=(key, there, read))
    process.start()
    there.close()
    context = zmq.Context()
    plane = DataPlane(key, context, "127.0.0.1", lambda: None)
    try:
        outlet = plane.outlet("profile", here.recv(), ChannelLimits(8, 1 << 25), shared, epoch=0)
        spent_s = _send(outlet, size, count, plane, process)
        here.send("enough")
    except EOFError:
        raise ChannelError("the process that was to read could not be started; a script needs a main guard") from None
    finally:
        here.close()
        process.join()
        plane.close()
        context.term()
    return spent_s


def _send(outlet: Outlet, size: int, count: int, plane: DataPlane, reader: BaseProcess) -> float:
    """Send blocks, after some that are not counted, until they have been read; gives the seconds that took."""
    payload = np.zeros((1, size), np.uint8)
    blocks = [Bytes.block(ts=[k], payload=payload).stamped(ordinals=range(k, k + 1)) for k in range(16)]
    warm = max(count // 10, 20)
    started_s = 0.0
    for number in range(warm + count):
        if number == warm:
            started_s = time.perf_counter()
        _work_until(outlet.ready, plane, reader)
        outlet.put(blocks[number % len(blocks)])
    outlet.put(End(final=True))
    _work_until(lambda: outlet.consumed >= outlet.next, plane, reader)
    return time.perf_counter() - started_s


def _consume(key: InstallationKey, pipe: Any, read: bool) -> None:
    context = zmq.Context()
    plane = DataPlane(key, context, "127.0.0.1", lambda: None)
    counted = 0

    def deliver(item: Any) -> None:
        nonlocal counted
        counted += 1
        if isinstance(item, PhysicalWindow):
            int(item.payload.max() if read else item.ts[-1])

    inlet = plane.inlet("profile", Bytes, deliver)
    pipe.send(plane.endpoint)
    while not pipe.poll():
        _work(plane)
        inlet.progress(counted, counted)
    plane.close()
    context.term()


def _work_until(reached: Callable[[], bool], plane: DataPlane, reader: BaseProcess) -> None:
    while not reached():
        if not reader.is_alive():
            raise ChannelError(f"the process that reads has ended with {reader.exitcode}")
        _work(plane)


def _work(plane: DataPlane) -> None:
    if not plane.receive(None, 16):
        poller = zmq.Poller()
        for polled in plane.sockets():
            poller.register(polled, zmq.POLLIN)
        poller.poll(20)


def hardware() -> str:
    """What a choice depends on: processor and number of cores."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    return f"{model} × {os.cpu_count()}"


def memory_file() -> Path:
    """Where choices are remembered."""
    return cache_folder() / "machine.json"


def remember(choice: SizeChoice, path: Path | None = None) -> Path:
    """Keep a choice for this machine."""
    target = path or memory_file()
    target.parent.mkdir(parents=True, exist_ok=True)
    told = {"hardware": hardware(), "block_bytes": choice.block_bytes, "tried": choice.tried}
    target.write_text(json.dumps(told, indent=2))
    return target


def remembered_block_bytes(path: Path | None = None) -> int | None:
    """The size chosen on this machine before, if any."""
    try:
        told = json.loads((path or memory_file()).read_text())
        return int(told["block_bytes"]) if told["hardware"] == hardware() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None

"""The bare kernel: stream query functions in plain loops over radio windows in memory, one process per loop.

It is what a machine could do at most. Each process calls the functions as the engine does, on one physical window after
the other; nothing is moved, ordered or acknowledged. No stream system that calls these functions can be faster.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from gsdm_grid.apps.demo.interrupts import interrupts_held, interrupts_not_inherited
from gsdm_grid.engine import keep_freed_memory
from gsdm_grid.errors import ResourceError

BLOCK_BYTES = 2 << 20
BLOCKS = 6  # as many bytes as the synthetic antenna's pool of 64 windows of 8192 samples
BYTES_PER_SAMPLE = 24  # three channels of complex64
START_S = 120.0  # until all processes have loaded their code and synthesized their windows
END_S = 5.0
Chain = Sequence[Mapping[str, str]]
"""References of functions, each of which takes the results of the one before. All but the last must be ``whole``."""


@dataclass(frozen=True)
class BareRate:
    """What some processes did together. Immutable. ``cpu_share``: CPU time that they got of what they asked for."""

    mb_s: float
    cpu_share: float


class BareKernel:
    """Processes that wait to be measured. ``chains``: what can be measured. Not thread-safe; close it after use.

    ``keep_memory``: they keep freed memory for the next block, as working nodes do.
    """

    def __init__(self, chains: Sequence[Chain], window: int, processes: int, keep_memory: bool = False) -> None:
        context = multiprocessing.get_context("spawn")
        self._workers: list[tuple[Any, Connection]] = []
        with interrupts_held(), interrupts_not_inherited():
            for _ in range(processes):
                near, far = context.Pipe()
                worker = context.Process(target=_serve, args=(chains, window, far, keep_memory), daemon=True)
                worker.start()
                far.close()
                self._workers.append((worker, near))

    def wait(self) -> None:
        """Wait until all processes are ready to be measured."""
        for _, connection in self._workers:
            _answer(connection, START_S)

    def measure(self, chain: int, processes: int, seconds: float) -> BareRate:
        """The rate of input of so many processes at the same time, for about ``seconds``."""
        chosen = [connection for _, connection in self._workers[:processes]]
        for connection in chosen:
            connection.send((chain, seconds))
        rates: list[BareRate] = [_answer(connection, START_S + seconds) for connection in chosen]
        return BareRate(sum(one.mb_s for one in rates), sum(one.cpu_share for one in rates) / processes)

    def close(self) -> None:
        """End the processes. Safe to call twice."""
        for _, connection in self._workers:
            connection.close()  # a process that waits for work ends by itself
        for worker, _ in self._workers:
            worker.terminate()
            worker.join(END_S)
            if worker.is_alive():
                worker.kill()
                worker.join()
        self._workers = []

    def __enter__(self) -> BareKernel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _answer(connection: Connection, timeout_s: float) -> Any:
    try:
        if not connection.poll(timeout_s):
            raise ResourceError(f"the bare kernel did not answer for {timeout_s:g} s")
        return connection.recv()
    except (EOFError, OSError) as error:
        raise ResourceError(f"a process of the bare kernel ended: {error or 'it gave no reason'}") from error


def _serve(chains: Sequence[Chain], window: int, connection: Connection, keep_memory: bool) -> None:
    """One process: loads everything and calls everything once, then measures when it is asked to."""
    if keep_memory:
        keep_freed_memory()
    count = max(1, BLOCK_BYTES // (BYTES_PER_SAMPLE * window))
    calls = [_call_on_blocks(chain, window, count) for chain in chains]
    with contextlib.suppress(EOFError, OSError):  # nobody asks any more
        connection.send("ready")
        while True:
            chain, seconds = connection.recv()
            connection.send(_rate(calls[chain], seconds, count * BYTES_PER_SAMPLE * window / 1e6))


def _rate(call: Callable[[int], None], seconds: float, block_mb: float) -> BareRate:
    """Call it with rising numbers; at least once."""
    cpu_s, began_s, blocks, passed_s = time.process_time(), time.perf_counter(), 0, 0.0
    while passed_s < seconds:
        call(blocks)
        blocks += 1
        passed_s = time.perf_counter() - began_s
    return BareRate(blocks * block_mb / passed_s, (time.process_time() - cpu_s) / passed_s)


def _call_on_blocks(chain: Chain, window: int, count: int) -> Callable[[int], None]:
    """What calls the functions of a chain on the n-th block of ``count`` windows; it has been called once."""
    from gsdm_grid.apps.radio import RadioSynthesizer
    from gsdm_grid.functions import StreamFunction, StreamView, resolve

    synthesizer = RadioSynthesizer(window, pool=BLOCKS * count)
    blocks = [synthesizer.block(start, count) for start in range(0, BLOCKS * count, count)]
    stages: list[tuple[StreamFunction, StreamView, dict[str, Any]]] = []

    def apply(function: StreamFunction, view: StreamView, params: dict[str, Any], block: Any) -> Any:
        result = None
        view.feed(block)
        while view.at < len(view.block):
            result = function(view, **params)
            view.advance()
        return result

    block: Any = blocks[0]
    for reference in chain:
        function = resolve(reference)
        stages.append((function, StreamView(block.type, function.whole), function.bind(None)))
        block = apply(*stages[-1], block)

    def call(number: int) -> None:
        block: Any = blocks[number % BLOCKS]
        for function, view, params in stages:
            block = apply(function, view, params, block)

    return call

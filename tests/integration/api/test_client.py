"""Readers of result streams while the coordinator is killed and comes back."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from gsdm_grid.client import AsyncClient, Client

COUNT = 1500
DEADLINE_S = 90.0
WINDOW_NS = 256_000
SPECIFICATION = {
    "name": "q",
    "inputs": [{"type": "Radio", "interface": "synthetic_radio", "options": {"window": 256, "rate": 400}}],
    "flow": {"template": "PCC", "args": [2, "RRpart", "fft3", {}, "S-Merge"]},
    "stop": {"count": COUNT},
}


def read_events(server, token, seen):
    """Number and timestamp of each window, as JSON."""
    with Client(server, token) as client:
        for event in client.results("q", follow=True, until=COUNT, attributes=["ts"]):
            assert not event.missed
            seen += [(window["seq"], window["values"]["ts"]) for window in event.windows]


def read_blocks(server, token, seen):
    """Number and timestamp of each window, as Arrow; the number is where it stands among those that came."""
    with Client(server, token) as client:
        for block in client.result_blocks("q", follow=True, until=COUNT):
            assert np.all(np.any(np.asarray(block.x), axis=1))
            seen += list(enumerate(block.ts.tolist(), len(seen)))


def read_events_awaiting(server, token, seen):
    """As `read_events`, with the client for asynchronous programs."""

    async def read():
        async with AsyncClient(server, token) as client:
            async for event in client.results("q", follow=True, until=COUNT, attributes=["ts"]):
                assert not event.missed
                seen.extend((window["seq"], window["values"]["ts"]) for window in event.windows)

    asyncio.run(read())


def test_readers_of_a_killed_coordinator_go_on_without_a_lost_or_doubled_window(own_service, free_port, wait_for):
    service = own_service("--placement", "threads", port=free_port).start()
    readers = (read_events, read_blocks, read_events_awaiting)
    seen = [[] for _ in readers]
    with Client(service.url, service.token) as client:
        client.submit(SPECIFICATION)
        client.run("q", timeout_s=DEADLINE_S)
    with ThreadPoolExecutor(len(readers)) as threads:
        reading = [
            threads.submit(read, service.url, service.token, one) for read, one in zip(readers, seen, strict=True)
        ]
        wait_for(lambda: min(map(len, seen)), lambda count: count > 100)
        service.kill()
        broken_off = [len(one) for one in seen]
        service.start()
        for one in reading:
            one.result(DEADLINE_S)
    assert all(100 < count < COUNT for count in broken_off), broken_off
    expected = [(number, number * WINDOW_NS) for number in range(COUNT)]
    for one in seen:
        assert one == expected

"""Readers of result streams while the coordinator is killed and comes back."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gsdm_grid.apps.radio.synthetic import RadioSynthesizer
from gsdm_grid.client import AsyncClient, Client
from gsdm_grid.testing import eventually

DEADLINE_S = 90.0
WINDOW_NS = 256_000
SPECIFICATION = {
    "name": "q",
    "inputs": [{"type": "Radio", "interface": "synthetic_radio", "options": {"window": 256, "rate": 400}}],
    "flow": {"template": "PCC", "args": [2, "RRpart", "fft3", {}, "S-Merge"]},
}


def read_events(address, seen):
    """Number and timestamp of each window, as JSON; returns why the stream ended."""
    with Client(*address) as client:
        for event in client.results("q", follow=True, attributes=["ts"]):
            assert not event.missed
            seen += [(window["seq"], window["values"]["ts"]) for window in event.windows]
    return event.end


def read_events_awaiting(address, seen):
    """As `read_events`, with the client for asynchronous programs."""

    async def read():
        async with AsyncClient(*address) as client:
            async for event in client.results("q", follow=True, attributes=["ts"]):
                assert not event.missed
                seen.extend((window["seq"], window["values"]["ts"]) for window in event.windows)
        return event.end

    return asyncio.run(read())


def read_blocks(address, seen):
    """As `read_events`, with all values."""
    with Client(*address) as client:
        for seq, block in client.numbered_blocks("q", follow=True):
            assert np.all(np.any(np.asarray(block.x), axis=1))
            seen += zip(range(seq, seq + len(block)), block.ts.tolist(), strict=True)
    return "dropped"


def read_plain_blocks(address, seen):
    """As `read_blocks`, without the numbers: a window's is where it stands among those that came."""
    with Client(*address) as client:
        for block in client.result_blocks("q", follow=True):
            seen += enumerate(block.ts.tolist(), len(seen))
    return "dropped"


@pytest.mark.slow
def test_readers_of_a_killed_coordinator_go_on_without_a_lost_or_doubled_window(own_service, free_port):
    service = own_service("--placement", "threads", port=free_port).start()
    address = (service.url, service.token)
    readers = (read_events, read_events_awaiting, read_blocks, read_plain_blocks)
    seen = [[] for _ in readers]
    with Client(*address) as client, ThreadPoolExecutor(len(readers)) as threads:
        client.submit(SPECIFICATION)
        client.run("q", timeout_s=DEADLINE_S)
        reading = [threads.submit(read, address, one) for read, one in zip(readers, seen, strict=True)]
        try:
            eventually(lambda: min(map(len, seen)), lambda count: count > 100, DEADLINE_S)
            service.kill()
            before = max(map(len, seen))
            service.start()
            eventually(lambda: min(map(len, seen)), lambda count: count > before + 200, DEADLINE_S)
            client.deactivate("q", timeout_s=DEADLINE_S)
            count = client.window_count("q")
            eventually(lambda: min(map(len, seen)), lambda found: found >= count, DEADLINE_S)
        finally:
            client.drop("q", timeout_s=DEADLINE_S)  # ends the readers
        assert {one.result(DEADLINE_S) for one in reading} == {"dropped"}
    expected = [(number, number * WINDOW_NS) for number in range(count)]
    for one in seen:
        assert one == expected


def test_every_window_of_a_synthetic_stream_is_read_as_it_was_made(service):
    spec = {
        "name": "every-window",
        "flow": "identity",
        "inputs": [{"type": "Radio", "interface": "synthetic_radio", "options": {"window": 8192}}],
        "stop": {"count": 400},
    }
    radio, following = RadioSynthesizer(8192), 0
    with Client(service.url, service.token) as client:
        client.submit(spec)
        client.run("every-window")
        for seq, block in client.numbered_blocks("every-window"):
            assert seq == following
            assert list(block.ordinals) == list(range(seq, seq + len(block)))
            expected = radio.block(seq, len(block))
            assert all(np.array_equal(block[name], expected[name]) for name in expected.columns)
            following += len(block)
        client.drop("every-window")
    assert following == 400

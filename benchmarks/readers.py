"""Readers of a result stream: the rate of a query without readers, and with 100 of which half have stopped reading.

A coordinator serves one query whose windows it keeps. Intervals with and without readers alternate in one run. The
query runs at a rate that it can hold (half of its full speed), which it must go on holding, and at full speed, where
whatever readers cost shows: they share the machine's cores with it.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
from reporting import Report, arguments, median

READERS = 100
WINDOW = 1024


def main() -> int:
    """Run it."""
    options = arguments(__doc__ or "")
    report = Report(f"{READERS} readers, half of them stopped", options.json)
    rounds, seconds = (2, 2.0) if options.quick else (5, 5.0)
    report.row("query", "windows/s without", "windows/s with", "with / without")
    with tempfile.TemporaryDirectory() as home:
        service = _serve(Path(home))
        try:
            full = _measure(report, Path(home), "full", None, rounds, seconds)
            held = _measure(report, Path(home), "held", full[0] / 2, rounds, seconds)
        finally:
            service.terminate()
            service.wait(60)
    report.row("at half of full speed", *held, held[1] / held[0])
    report.row("at full speed", *full, full[1] / full[0])
    return report.finish(
        {
            "held_windows_s": held[0],
            "held_ratio": held[1] / held[0],
            "full_windows_s": full[0],
            "full_ratio": full[1] / full[0],
        }
    )


def _serve(home: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gsdm_grid.cli", "serve", "--home", str(home), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (home / "server.json").exists() or not (home / "admin.token").exists():
        time.sleep(0.1)
    return process


def _client(home: Path) -> httpx.Client:
    url = json.loads((home / "server.json").read_text())["url"]
    token = (home / "admin.token").read_text().strip()
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60)


def _measure(
    report: Report, home: Path, name: str, rate: float | None, rounds: int, seconds: float
) -> tuple[float, float]:
    """Median rates without and with readers."""
    options: dict[str, Any] = {"window": WINDOW} | ({"rate": rate} if rate else {})
    source = {"type": "Radio", "interface": "synthetic_radio", "options": options}
    with _client(home) as client:
        client.post("/v1/queries", json={"name": name, "inputs": [source], "function": "fft3", "plan": "auto"})
        operation = client.post(f"/v1/queries/{name}/run").headers["Location"]
        report.progress(f"{name}: starting")
        while client.get(operation).json()["status"] not in ("succeeded", "failed"):
            time.sleep(0.2)
        time.sleep(2)
        without, beside = [], []
        for number in range(rounds):
            without.append(_rate(client, name, seconds))
            stop = multiprocessing.Event()
            readers = multiprocessing.Process(
                target=_read, args=(str(client.base_url), client.headers["Authorization"], name, stop)
            )
            readers.start()
            while "gsdm_result_readers 100.0" not in client.get("/metrics").text:
                time.sleep(0.1)
            beside.append(_rate(client, name, seconds))
            stop.set()
            readers.join()
            report.progress(f"{name}, round {number + 1} of {rounds}: {without[-1]:.0f} and {beside[-1]:.0f} windows/s")
        client.delete(f"/v1/queries/{name}")
    return median(without), median(beside)


def _rate(client: httpx.Client, name: str, seconds: float) -> float:
    def kept() -> tuple[float, int]:
        found = client.get(f"/v1/queries/{name}/results", params={"last": 1, "points": 1}).json()["next"]
        return time.monotonic(), found

    (before_s, before), _, (after_s, after) = kept(), time.sleep(seconds), kept()
    return (after - before) / (after_s - before_s)


def _read(url: str, bearer: str, name: str, stop: Any) -> None:
    """All readers, in a process of their own."""
    asyncio.run(_read_all(url, bearer, name, stop))


async def _read_all(url: str, bearer: str, name: str, stop: Any) -> None:
    async def one(client: httpx.AsyncClient, reads: bool) -> None:
        asked = {"from": "latest", "points": 16}
        async with client.stream("GET", f"/v1/queries/{name}/results", params=asked) as answer:
            async for _ in answer.aiter_raw():
                if not reads:
                    await asyncio.sleep(3600)

    headers = {"Authorization": bearer, "Accept": "text/event-stream"}
    limits = httpx.Limits(max_connections=READERS)
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=None, limits=limits) as client:
        tasks = [asyncio.create_task(one(client, number % 2 == 0)) for number in range(READERS)]
        await asyncio.to_thread(stop.wait)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    raise SystemExit(main())

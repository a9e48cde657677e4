"""The peer: Spark Structured Streaming doing the job of the benchmarks, as well as it can be made to.

A Python data source gives Arrow record batches of windows from a pool in memory, `mapInArrow` transforms the three
vectors with scipy on views of the same bytes, and an Arrow stream writer takes the spectra and counts them. Windows are
rows, vectors are binary values. Each measurement has a process and a Spark of its own.

    python benchmarks/structured_streaming.py throughput --window 8192 --seconds 5 --json
    python benchmarks/structured_streaming.py latency --window 2048 --rate 50 --seconds 5 --json

How the configuration was chosen: CPU seconds of Spark and its workers per 100 MB of input, windows of 8192, because the
two cores were shared (load 10 to 15) and MB/s meant little. Each figure is one stretch of three micro-batches, NOT a
median; only differences as large as those of the first three lines tell anything.

| variant (binary columns and an Arrow sink where not said)   | CPU s per 100 MB |
|-------------------------------------------------------------|------------------|
| array<float> columns, micro-batches of 50 MB                | 3.32, 2.48       |
| micro-batches of 100 MB                                     | 2.26, 1.96, 1.36 |
| the same into the noop sink (nobody gets the result)        | 1.29, 0.93       |
| micro-batches of 200 MB                                     | 1.21, 1.32       |
| micro-batches of 400 MB (chosen)                            | 1.06             |
| 100 MB, arrow.pythonUDF.columnarInput.enabled               | 1.63             |
| 200 MB, arrow.pythonUDF.columnarInput.enabled               | 1.34             |
| 200 MB, rows of 10 windows each                             | 1.22             |
| 200 MB, python.unix.domain.socket.enabled (chosen)          | 1.25, 1.24       |
| 200 MB, python.udf.pipelined.enabled                        | 1.51             |

Not compared: the collector (Parallel was used throughout), memory, more than two partitions, other sizes of record
batches, maxRecordsPerBatch, availableNow, foreachBatch, asynchronous progress tracking. ``--set`` and ``--batch-bytes``
try other settings.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

NAME = "radio_pool"
CHANNELS = ("x", "y", "z")
SCHEMA = "ts long, x binary, y binary, z binary"
POOL_BYTES = 12 << 20
RECORD_BATCH_BYTES = 2 << 20
BATCH_BYTES = 400_000_000  # of a micro-batch, when throughput matters
PARTITIONS = 2
SHARE_BYTES = 4_000_000  # of a task at least: each costs three Python workers, so a small micro-batch is one task
WARM_BATCHES = 4
START_S = 180.0
SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "3g",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.numRecentProgressUpdates": "1",
    "spark.sql.streaming.minBatchesToRetain": "2",
}


# --- the query's three pieces, which run in Spark's Python workers


@lru_cache
def _pool(folder: str) -> np.ndarray:
    """Channels × windows × samples, mapped from memory once per worker."""
    return np.load(Path(folder) / "pool.npy", mmap_mode="r")


def _column(block: np.ndarray) -> pa.Array:
    """One binary value per row of a contiguous array; not copied."""
    width = block.shape[1] * block.itemsize
    offsets = np.arange(0, (len(block) + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), len(block), [None, pa.py_buffer(offsets), pa.py_buffer(block)])


def _samples(column: pa.Array, window: int) -> np.ndarray:
    """Windows × samples of a binary column; not copied."""
    _, offsets, payload = column.buffers()
    first = int(np.frombuffer(offsets, np.int32, 1, 4 * column.offset)[0])
    return np.frombuffer(payload, np.complex64, len(column) * window, first).reshape(-1, window)


def _record_batch(ts: pa.Array, channels: Iterable[np.ndarray]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([ts, *map(_column, channels)], names=["ts", *CHANNELS])


def spectra(batches: Iterator[pa.RecordBatch], window: int) -> Iterator[pa.RecordBatch]:
    """Fourier transform of the three channels: what `mapInArrow` runs."""
    from scipy import fft

    for batch in batches:
        samples = (_samples(batch.column(name), window) for name in CHANNELS)
        yield _record_batch(batch.column("ts"), (fft.fft(each, axis=-1) for each in samples))


@dataclass
class Windows(InputPartition):
    """Windows from ``start`` up to but without ``stop``: one task's share of a micro-batch."""

    start: int
    stop: int


class PoolReader(DataSourceStreamReader):
    """Gives the pool's windows again and again: as many as a micro-batch takes, or as many as are due at the rate.

    With a rate, ``ts`` is the wall-clock time in ns at which the window is due, else its ordinal.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._folder = options["folder"]
        self._window = int(options["window"])
        self._batch = int(options["batch"])
        self._rate = float(options["rate"])
        self._began_ns = int(options["began_ns"])

    def initialOffset(self) -> dict:
        return {"at": 0}

    def latestOffset(self, start: dict, limit: Any) -> dict:  # noqa: ARG002
        at = start["at"]
        if not self._rate:
            return {"at": at + self._batch}
        while True:  # waiting here finds the next window sooner than Spark's polling
            passed_s = (time.time_ns() - self._began_ns) / 1e9
            due = int(passed_s * self._rate) + 1
            if due > at:
                return {"at": min(due, at + self._batch)}
            time.sleep(max(at / self._rate - passed_s, 0.0001))

    def partitions(self, start: dict, end: dict) -> Sequence[Windows]:
        first, count = start["at"], end["at"] - start["at"]
        ways = max(1, min(PARTITIONS, count * 24 * self._window // SHARE_BYTES)) if count else 0
        return [Windows(first + count * i // ways, first + count * (i + 1) // ways) for i in range(ways)]

    def read(self, partition: Windows) -> Iterator[pa.RecordBatch]:
        pool = _pool(self._folder)
        size, most = pool.shape[1], max(1, RECORD_BATCH_BYTES // (24 * self._window))
        at = partition.start
        while at < partition.stop:
            row = at % size
            count = min(most, partition.stop - at, size - row)
            yield _record_batch(pa.array(self._ts(at, count)), pool[:, row : row + count])
            at += count

    def _ts(self, start: int, count: int) -> np.ndarray:
        ordinals = np.arange(start, start + count, dtype=np.int64)
        return self._began_ns + (ordinals * (1e9 / self._rate)).astype(np.int64) if self._rate else ordinals


@dataclass
class Taken(WriterCommitMessage):
    """What one task's writer took."""

    first: int
    last: int
    count: int
    latencies_ns: list[int]


class CountingWriter(DataSourceStreamArrowWriter):
    """The sink: takes the spectra and counts them. Writes one line of JSON per micro-batch for the measurement."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._log = Path(options["folder"]) / "sink"
        self._timed = bool(float(options["rate"]))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Taken:
        parts, latencies = [], []
        for batch in iterator:
            now = time.time_ns()
            ts = batch.column("ts").to_numpy()
            parts.append(ts)
            if self._timed:
                latencies.extend((now - ts).tolist())
        ts = np.concatenate(parts) if parts else np.empty(0, np.int64)
        if not len(ts):
            return Taken(0, -1, 0, [])
        if np.any(np.diff(ts) <= 0):
            raise ValueError("windows out of order within a partition")
        return Taken(int(ts[0]), int(ts[-1]), len(ts), latencies)

    def commit(self, messages: list[Taken | None], batchId: int) -> None:  # noqa: ARG002
        taken = [message for message in messages if message is not None and message.count]
        line = {
            "at_ns": time.monotonic_ns(),
            "parts": [(part.first, part.last, part.count) for part in taken],
            "latencies_ns": [value for part in taken for value in part.latencies_ns],
        }
        with self._log.open("a") as log:
            log.write(json.dumps(line) + "\n")

    def abort(self, messages: list[Taken | None], batchId: int) -> None:
        """Nothing to undo: the query's failure is reported."""


class RadioPool(DataSource):
    """Source and sink under one name."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> PoolReader:  # noqa: ARG002
        return PoolReader(self.options)

    def streamWriter(self, schema: Any, overwrite: bool) -> CountingWriter:  # noqa: ARG002
        return CountingWriter(self.options)


# --- the measurement, in a process of its own


class Run:
    """One streaming query in its own Spark, until the block is left. Made by `_measure_…`."""

    def __init__(self, window: int, batch: int, rate: float = 0.0, extra: Mapping[str, str] | None = None) -> None:
        self._window = window
        self._options = {"window": window, "batch": batch, "rate": rate}
        self._extra = extra or {}

    def __enter__(self) -> Run:
        from pyspark.sql import SparkSession

        self._folder = tempfile.TemporaryDirectory(prefix="structured_streaming_", dir=_memory_folder())
        folder = self._folder.name
        _save_pool(folder, self._window)
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        here = str(Path(__file__).parent)  # the workers import this module: what they keep outlives a micro-batch
        os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        java = f"-XX:+UseParallelGC -Djava.io.tmpdir={folder}"
        settings = {
            **SPARK,
            "spark.driver.extraJavaOptions": java,
            "spark.local.dir": folder,
            "spark.sql.warehouse.dir": folder,
            **self._extra,
        }
        builder = SparkSession.builder.master("local[2]")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("OFF")
        self._spark.dataSource.register(RadioPool)
        options = {**self._options, "folder": folder, "began_ns": time.time_ns()}
        self._query = (
            self._spark.readStream.format(NAME)
            .options(**options)
            .load()
            .mapInArrow(partial(spectra, window=self._window), SCHEMA)
            .writeStream.format(NAME)
            .options(**options)
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(processingTime="0 seconds")
            .start()
        )
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self._query.stop()
            self._spark.stop()
        finally:
            self._folder.cleanup()

    def commits(self) -> list[dict[str, Any]]:
        """What the sink took so far, one entry per micro-batch."""
        log = Path(self._folder.name) / "sink"
        lines = log.read_text().split("\n")[:-1] if log.exists() else []
        return [json.loads(line) for line in lines]

    def wait(self, enough: Any, timeout_s: float) -> list[dict[str, Any]]:
        """The commits, when there are enough of them."""
        deadline = time.monotonic() + timeout_s
        while not enough(commits := self.commits()):
            if self._query.exception() is not None:
                raise RuntimeError(f"the streaming query failed: {self._query.exception()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(commits)} micro-batches in {timeout_s} s")
            time.sleep(0.1)
        return commits


def _memory_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _save_pool(folder: str, window: int) -> None:
    from gsdm_grid.apps.radio.synthetic import RadioSynthesizer

    count = max(4, POOL_BYTES // (24 * window))
    block: Any = RadioSynthesizer(window, pool=count).block(0, count)
    np.save(Path(folder) / "pool.npy", np.stack([block[name] for name in CHANNELS]))


def _check_order(commits: Sequence[Mapping[str, Any]], ordinals: bool) -> None:
    """Micro-batches and their partitions came in order; with ordinals as timestamps, none is missing."""
    parts = [part for commit in commits for part in commit["parts"]]
    taken = 0
    previous = -1
    for first, last, count in parts:
        taken += count
        if first <= previous or (ordinals and last + 1 != taken):
            raise ValueError(f"windows out of order or missing at {first}")
        previous = last


def _measure_throughput(
    window: int, seconds: float, repeats: int, batch_bytes: int, extra: Mapping[str, str]
) -> dict[str, Any]:
    batch = max(PARTITIONS, batch_bytes // (24 * window))
    with Run(window, batch, extra=extra) as run:
        warm = run.wait(lambda commits: len(commits) >= WARM_BATCHES, START_S)
        edges = warm[-1]["at_ns"] + np.arange(repeats + 1) * int(seconds * 1e9)
        commits = run.wait(lambda commits: commits[-1]["at_ns"] >= edges[-1], START_S + seconds * repeats)
    _check_order(commits, ordinals=True)
    times = [commit["at_ns"] for commit in commits]
    taken = np.cumsum([sum(part[2] for part in commit["parts"]) for commit in commits])
    rates = np.diff(np.interp(edges, times, taken)) * 24 * window / seconds / 1e6
    steady = np.diff(times[WARM_BATCHES - 1 :]) / 1e9
    return {"mb_s": rates.tolist(), "batch_s": statistics.median(steady.tolist()), "batch_windows": batch}


def _measure_latency(window: int, rate: float, seconds: float, extra: Mapping[str, str]) -> dict[str, Any]:
    batch = max(1, BATCH_BYTES // (24 * window))  # only bounds how it catches up after the start
    with Run(window, batch, rate, extra) as run:
        warm = run.wait(_caught_up, START_S)
        end_ns = warm[-1]["at_ns"] + int(seconds * 1e9)
        commits = run.wait(lambda commits: commits[-1]["at_ns"] >= end_ns, START_S + seconds)
    _check_order(commits, ordinals=False)
    steady = commits[len(warm) :]
    latencies = np.concatenate([commit["latencies_ns"] for commit in steady]) / 1e6
    gaps = np.diff([commit["at_ns"] for commit in commits[len(warm) - 1 :]]) / 1e6
    return {
        "p50_ms": float(np.percentile(latencies, 50)),
        "p99_ms": float(np.percentile(latencies, 99)),
        "windows": len(latencies),
        "windows_s": len(latencies) / (gaps.sum() / 1e3),  # below the rate if it cannot keep up: latency then grows
        "batch_ms": float(np.median(gaps)),
    }


def _caught_up(commits: Sequence[Mapping[str, Any]]) -> bool:
    """After the backlog of the start: enough micro-batches, and the last is not smaller than half the one before."""
    sizes = [len(commit["latencies_ns"]) for commit in commits]
    return len(sizes) >= 2 * WARM_BATCHES and 2 * sizes[-1] >= sizes[-2]


# --- what other benchmarks call


def throughput(window: int, seconds: float, repeats: int = 3) -> list[float]:
    """MB/s of input at steady state, ``repeats`` stretches of this many seconds in a Spark of its own."""
    arguments = ["throughput", "--window", window, "--seconds", seconds, "--repeats", repeats]
    rates: list[float] = _in_subprocess(arguments, seconds * repeats)["mb_s"]
    return rates


def latency(window: int, rate_windows_s: float, seconds: float) -> dict[str, Any]:
    """``p50_ms`` and ``p99_ms`` from the time a window is due to its arrival in the sink, in a Spark of its own."""
    return _in_subprocess(["latency", "--window", window, "--rate", rate_windows_s, "--seconds", seconds], seconds)


def _in_subprocess(arguments: Sequence[Any], seconds: float) -> dict[str, Any]:
    """Run this file; its last line is the result. Nothing is left of it, even if it has to be killed."""
    command = [sys.executable, __file__, *map(str, arguments), "--json"]
    with tempfile.TemporaryDirectory(prefix="structured_streaming_", dir=_memory_folder()) as folder:
        log = Path(folder) / "errors"
        with log.open("w") as errors:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "TMPDIR": folder},
                start_new_session=True,
            )
            try:
                output, _ = process.communicate(timeout=3 * START_S + seconds)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{log.read_text()[-2000:]}")
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


def main() -> None:
    """Measure in this process and print the result, with ``--json`` as one line of JSON."""
    parser = argparse.ArgumentParser(description="Spark Structured Streaming on the job of the benchmarks.")
    parser.add_argument("what", choices=("throughput", "latency"))
    parser.add_argument("--window", type=int, default=8192)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rate", type=float, default=100.0, help="windows per second (latency)")
    parser.add_argument("--batch-bytes", type=int, default=BATCH_BYTES, help="size of a micro-batch (throughput)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another setting of Spark")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    extra = dict(setting.split("=", 1) for setting in given.set)
    if given.what == "throughput":
        result = _measure_throughput(given.window, given.seconds, given.repeats, given.batch_bytes, extra)
    else:
        result = _measure_latency(given.window, given.rate, given.seconds, extra)
    print(json.dumps(result) if given.json else result)


if __name__ == "__main__":
    # as a module of its own name, so that the workers import its classes instead of getting them pickled by value
    from structured_streaming import main as run_main

    run_main()

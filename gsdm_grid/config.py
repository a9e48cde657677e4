"""Settings: every number a person may want to change, with its default and its unit.

Nothing here is read at import time; whoever starts the system makes a `Settings` and passes it on.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """Settings of one installation. Immutable."""

    block_bytes: int | None = None
    """Physical windows are filled up to about this size; None takes what `gsdm tune` chose here, else 2 MiB."""
    flush_s: float = 0.002
    """How long windows may wait for others to fill a physical window with; a query may say otherwise."""
    channel_blocks: int = 8
    """Physical windows that may be under way on one channel."""
    channel_bytes: int = 64 << 20
    """Bytes that may be under way on one channel."""
    thread_cores: int | None = None
    """Cores that all working nodes in threads of this process share; None: all there are. Python lets one thread at a
    time through: many sites that do little each are faster on one core than on several."""
    shared_memory: bool = True
    """Whether working nodes on one machine exchange windows through shared memory."""
    start_timeout_s: float = 120.0
    """How long working nodes may take to start."""
    acquire_timeout_s: float = 600.0
    """How long a query waits for hosts that others have; a query may say otherwise."""
    drop_timeout_s: float = 10.0
    """How long working nodes may take to end by themselves before they are ended by force."""
    restarts: int = 5
    """How often one working node may die and be started anew before its query fails."""
    orphan_s: float = 30.0
    """A working node that has not heard of its coordinator for this long ends itself."""
    address: str = "127.0.0.1"
    """Address of this machine at which working nodes reach the coordinator, and each other."""
    ray_address: str | None = None
    """Ray cluster to use; None starts a local one when first needed."""
    ray_dashboard: bool = False
    """Whether a Ray started here serves its dashboard."""
    spark_master: str | None = None
    """Spark master to use; None runs Spark inside this process's JVM (``local[n]``)."""
    spark_log_level: str | None = None
    """Show Spark's own log lines from this level on (`WARN`, `INFO`, …), what it says when it starts, and its progress
    bars; None: only what functions print, and errors while it starts."""
    ray_most_cpus: float | None = None
    """How many CPUs the autoscaler of the Ray cluster may bring it to; None: it has none."""
    spare_hosts: int = 0
    """How many Ray actors are kept ready, so that queries start sooner."""
    progress: bool | None = None
    """Whether lines on standard error say that Ray and Spark are being started; None: at a terminal, in a notebook."""
    pools: Mapping[str, str] = field(default_factory=dict)
    """Named resource pools: the address of a Ray cluster each."""


def cache_folder() -> Path:
    """Where this account keeps what it can get again, on this machine; a temporary place where it has no home."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "gsdm"
    home = Path(os.path.expanduser("~"))
    if home.is_dir() and os.access(home, os.W_OK):
        return home / ".cache" / "gsdm"
    return Path(tempfile.gettempdir()) / f"gsdm-{os.getuid()}"

"""Working nodes in Ray actors: routers, splitters, merges. Actors are named after query and site.

Ray places and starts the processes; stream data never rides on actor calls.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from gsdm_grid.engine import Bootstrap, run_node
from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts.base import Live

NAMESPACE = "gsdm"
EMBEDDED_CPUS = 64  # logical: actors mostly wait, so more of them than cores may live on one machine


class NodeActor:
    """The actor: runs one working node until it is dropped."""

    def run(self, bootstrap: Bootstrap) -> dict[str, Any]:
        """Final statistics of the node."""
        return run_node(bootstrap)

    def pid(self) -> int:
        """Process id, for tests that kill it."""
        import os

        return os.getpid()


class RayGroup:
    """Actors of one query."""

    def __init__(self, bootstraps: Sequence[Bootstrap], launches: Counter[str]) -> None:
        self._bootstraps = {bootstrap.node: bootstrap for bootstrap in bootstraps}
        self._actors: dict[str, Any] = {}
        self._runs: dict[str, Any] = {}
        self._launches = launches
        for node in self._bootstraps:
            self._launch(node)

    def _launch(self, node: str) -> None:
        import ray

        remote = ray.remote(max_concurrency=2, num_cpus=1, max_restarts=0)(NodeActor)
        self._launches[node] += 1
        launch = self._launches[node]
        name = node if launch == 1 else f"{node}#{launch}"  # Ray frees the name of a dead actor only after a while
        self._actors[node] = actor = remote.options(name=name, namespace=NAMESPACE).remote()
        self._runs[node] = actor.run.remote(self._bootstraps[node])

    def lost(self) -> dict[str, str]:
        """See `HostGroup`."""
        import ray

        done, _ = (
            ray.wait(list(self._runs.values()), num_returns=len(self._runs), timeout=0) if self._runs else ([], [])
        )
        reasons = {}
        for node, run in self._runs.items():
            if run in done:
                try:
                    ray.get(run)
                except Exception as error:
                    reasons[node] = str(error).strip().splitlines()[-1]
        return reasons

    def restart(self, node: str) -> bool:
        """See `HostGroup`."""
        self._launch(node)
        return True

    def release(self, nodes: Sequence[str], timeout_s: float) -> None:
        """See `HostGroup`."""
        import ray

        ended = [self._runs.pop(node) for node in nodes if node in self._runs]
        if ended:
            ray.wait(ended, num_returns=len(ended), timeout=timeout_s)
        for node in nodes:
            if node in self._actors:
                ray.kill(self._actors.pop(node))

    def stop(self, timeout_s: float) -> None:
        """See `HostGroup`."""
        import ray

        if self._runs and ray.is_initialized():
            ray.wait(list(self._runs.values()), num_returns=len(self._runs), timeout=timeout_s)
            for actor in self._actors.values():
                ray.kill(actor)
        self._runs, self._actors = {}, {}


class RayPool:
    """Starts nodes as Ray actors; connects to the cluster at ``address``, or starts a local Ray, when first needed.

    A local Ray dies with the thread that started it (its processes ask the kernel for that), so a thread of the
    pool's own starts it and lives until `close`.
    """

    def __init__(self, address: str | None = None, dashboard: bool = False) -> None:
        self._address = address
        self._dashboard = dashboard
        self._keeper: threading.Thread | None = None
        self._connected: Future[None] = Future()
        self._closing = threading.Event()
        self._launches: Counter[str] = Counter()
        self._lock = threading.Lock()

    def connect(self) -> None:
        """Connect now, if not connected yet."""
        import ray

        with self._lock:
            if ray.is_initialized():
                return
            self._connected = Future()
            self._closing.clear()
            self._keeper = threading.Thread(target=self._keep, name="gsdm-ray", daemon=True)
            self._keeper.start()
            try:
                self._connected.result()
            except Exception as error:
                self._keeper = None
                place = f"at {self._address!r}" if self._address else "on this machine"
                raise ResourceError(f"Ray could not be reached or started {place}: {error}") from error

    def _keep(self) -> None:
        import ray

        options: dict[str, Any] = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": "ERROR"}
        if self._address is None:
            options |= {"num_cpus": EMBEDDED_CPUS, "include_dashboard": self._dashboard}
        try:
            ray.init(address=self._address or "local", **options)
        except BaseException as error:
            self._connected.set_exception(error)
            return
        self._connected.set_result(None)
        self._closing.wait()
        ray.shutdown()

    def start(self, query: str, bootstraps: Sequence[Bootstrap], live: Live) -> RayGroup:  # noqa: ARG002
        """See `HostPool`: what the cluster will never have is refused at once; what is in use is waited for."""
        import ray

        self.connect()
        total, free = (found.get("CPU", 0.0) for found in (ray.cluster_resources(), ray.available_resources()))
        if len(bootstraps) > total:
            raise ResourceError(
                f"query {query!r} asks for {len(bootstraps)} Ray actors of one CPU each; "
                f"the cluster has {total:g} CPUs, of which {free:g} are free"
            )
        return RayGroup(bootstraps, self._launches)

    def warm(self) -> None:
        """See `HostPool`."""
        with contextlib.suppress(ResourceError):
            self.connect()

    def inventory(self) -> dict[str, Any]:
        """See `HostPool`."""
        import ray

        if not ray.is_initialized():
            return {"started": False, "address": self._address or "embedded"}
        return {
            "started": True,
            "address": self._address or "embedded",
            "nodes": [
                {"id": node["NodeID"][:12], "address": node["NodeManagerAddress"], "resources": node["Resources"]}
                for node in ray.nodes()
                if node["Alive"]
            ],
            "total": ray.cluster_resources(),
            "available": ray.available_resources(),
        }

    def close(self) -> None:
        """See `HostPool`: shuts down only what it started."""
        with self._lock:
            if self._keeper is not None:
                self._closing.set()
                self._keeper.join()
                self._keeper = None

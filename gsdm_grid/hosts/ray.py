"""Working nodes in Ray actors: routers, splitters, merges. Each is placed in a bundle of its query's lease.

Actors are named after their site, in a namespace of their query. Ray places and starts the processes; stream data never
rides on actor calls. A pool may keep *spare* actors, processes that have started and imported everything but do nothing
yet: a node whose bundle is on the machine of a spare one takes it, and starts in milliseconds instead of seconds.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from typing_extensions import override

from gsdm_grid.channels import shared_memory
from gsdm_grid.engine import Bootstrap, run_node
from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts.base import HostGroup, HostPool, HostRequest
from gsdm_grid.hosts.leases import Lease, RayLeases
from gsdm_grid.hosts.ray_calls import RayCalls

logger = logging.getLogger(__name__)

NAMESPACE = "gsdm"
EMBEDDED_CPUS = 64  # logical: actors mostly wait, so more of them than cores may live on one machine
SETTLE_S = 2.0
ALIVE_S = 2.0
CLOSE_S = 5.0
CALLS_S = 20.0
"""How long the shutdown of Ray waits for calls that are under way."""
LOOK_S = 0.05


class NodeActor:
    """The actor: runs one working node until it is dropped."""

    def run(self, bootstrap: Bootstrap) -> dict[str, Any]:
        """Final statistics of the node."""
        return run_node(bootstrap)

    def where(self) -> tuple[int, str]:
        """Process id, and id of the Ray node."""
        import os

        import ray

        return os.getpid(), ray.get_runtime_context().get_node_id()


class Spares:
    """Actors that wait to become working nodes. Thread-safe; filled by a thread of its own."""

    def __init__(self, count: int, calls: RayCalls) -> None:
        self._count = count
        self._calls = calls
        self._ready: list[tuple[Any, str]] = []
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._closing = threading.Event()
        self._numbers = itertools.count()
        self._filler: threading.Thread | None = None

    def fill(self) -> None:
        """Begin to keep spare actors, in the background."""
        if self._count and self._filler is None:
            self._wanted.set()
            self._filler = threading.Thread(target=self._fill, name="gsdm-spares", daemon=True)
            self._filler.start()

    def take(self, machine: str | None) -> Any | None:
        """A live spare actor on this machine, or None; another one is started for it, when things have settled."""
        import ray

        while True:
            with self._lock:
                found = next((spare for spare in self._ready if spare[1] == machine), None)
                if found is None:
                    return None
                self._ready.remove(found)
            self._wanted.set()
            with contextlib.suppress(Exception):  # it died meanwhile: take another
                ray.get(found[0].where.remote(), timeout=ALIVE_S)
                return found[0]

    def __len__(self) -> int:
        return len(self._ready)

    def close(self) -> None:
        """Keep none any more."""
        self._closing.set()
        self._wanted.set()
        if self._filler is None:
            return
        self._filler.join()
        with self._lock:
            ready, self._ready = self._ready, []
        import ray

        for actor, _ in ready:
            with contextlib.suppress(Exception):
                ray.kill(actor)

    def _fill(self) -> None:
        while not self._closing.is_set():
            self._wanted.wait()
            self._wanted.clear()
            self._closing.wait(SETTLE_S)
            while len(self._ready) < self._count and not self._closing.is_set():
                if not self._add():
                    break

    def _add(self) -> bool:
        """Start one more; False if there is no room for it now."""
        import ray

        with self._calls.begin() as allowed:
            if not allowed:
                return False
            actor = _actor({"num_cpus": 0, "name": f"spare-{next(self._numbers)}", "namespace": NAMESPACE})
            try:
                _, machine = ray.get(actor.where.remote(), timeout=60)
            except Exception:  # try again when one is taken
                ray.kill(actor)
                return False
        with self._lock:
            self._ready.append((actor, machine))
        return True


def _actor(options: dict[str, Any]) -> Any:
    import ray

    return ray.remote(max_concurrency=2, max_restarts=0)(NodeActor).options(**options).remote()


def _connected() -> bool:
    import ray

    return bool(ray.is_initialized())


class RayGroup(HostGroup):
    """Actors of one request."""

    def __init__(
        self, request: HostRequest, lease: Lease, spares: Spares, launches: Counter[str], calls: RayCalls
    ) -> None:
        self._lease = lease
        self._calls = calls
        self._spares = spares
        self._bootstraps = {bootstrap.node: bootstrap for bootstrap in request.bootstraps}
        self._actors: dict[str, Any] = {}
        self._runs: dict[str, Any] = {}
        self._places: dict[str, Any] = {}  # asked before user code runs: it may give nobody else a turn
        self._launches = launches
        for node in self._bootstraps:
            self._launch(node)

    def _launch(self, node: str) -> None:
        spare = self._spares.take(self._lease.machine(node)) if len(self._spares) and self._lease.plain(node) else None
        self._actors[node] = actor = spare or _actor({**self._lease.options(node), **self._named(node)})
        self._places[node] = actor.where.remote()
        self._runs[node] = actor.run.remote(self._bootstraps[node])

    def _named(self, node: str) -> dict[str, str]:
        query, _, site = node.partition("/")
        self._launches[node] += 1
        launch = self._launches[node]
        name = site if launch == 1 else f"{site}#{launch}"  # Ray frees the name of a dead actor only after a while
        return {"name": name, "namespace": f"{NAMESPACE}.{query}"}

    @override
    def lost(self) -> dict[str, str]:
        with self._calls.begin() as allowed:
            return self._failures() if allowed else {}

    def _failures(self) -> dict[str, str]:
        import ray

        runs = dict(self._runs)
        done, _ = ray.wait(list(runs.values()), num_returns=len(runs), timeout=0) if runs else ([], [])
        reasons = {}
        for node, run in runs.items():
            if run in done:
                try:
                    ray.get(run)
                except Exception as error:
                    reasons[node] = str(error).strip().splitlines()[-1]
        return reasons

    @override
    def restart(self, node: str) -> bool:
        """In its bundle, which Ray has moved if its machine is gone."""
        with self._calls.begin() as allowed:
            if allowed:
                self._launch(node)
            return allowed

    @override
    def release(self, nodes: Sequence[str], timeout_s: float) -> Sequence[str]:
        with self._calls.begin() as allowed:
            if allowed:
                self._end(nodes, timeout_s)
                self._lease.release(nodes)
        return ()

    @override
    def stop(self, timeout_s: float) -> Sequence[str]:
        with self._calls.begin() as allowed:
            if allowed and _connected():
                self._end(list(self._actors), timeout_s)
                self._lease.release()
        self._runs, self._actors = {}, {}
        return ()

    def _end(self, nodes: Sequence[str], timeout_s: float) -> None:
        """Wait until nodes have ended, then end their actors, by force where user code has not returned."""
        import ray

        runs = {self._runs.pop(node): node for node in nodes if node in self._runs}
        _, busy = ray.wait(list(runs), num_returns=len(runs), timeout=timeout_s) if runs else ([], [])
        for node in nodes:
            if node in self._actors:
                ray.kill(self._actors.pop(node))
        for run in busy:
            self._await_end_of(runs[run])
        if busy:
            shared_memory.sweep()
        for node in nodes:
            self._places.pop(node, None)

    def _await_end_of(self, node: str) -> None:
        """Ray kills a process some time after it was asked to; here, of those on this machine, that is waited for."""
        import ray

        with contextlib.suppress(Exception):  # its actor had died before it could tell where it was
            pid, machine = ray.get(self._places[node], timeout=ALIVE_S)
            deadline_s = time.monotonic() + CLOSE_S
            while machine == ray.get_runtime_context().get_node_id() and time.monotonic() < deadline_s:
                os.kill(pid, 0)
                time.sleep(LOOK_S)


class RayPool(HostPool):
    """Starts nodes as Ray actors; connects to the cluster at ``address``, or starts a local Ray, when first needed.

    A local Ray dies with the thread that started it (its processes ask the kernel for that), so a thread of the
    pool's own starts it and lives until `close`. A process can be connected to one Ray cluster only.
    """

    def __init__(
        self,
        address: str | None = None,
        dashboard: bool = False,
        spares: int = 0,
        most_cpus: float | None = None,
    ) -> None:
        self._calls = RayCalls()
        self.leases = RayLeases(most_cpus, self._calls)
        self._address = address
        self._dashboard = dashboard
        self._spares = Spares(spares, self._calls)
        self._keeper: threading.Thread | None = None
        self._connected: Future[None] = Future()
        self._closing = threading.Event()
        self._launches: Counter[str] = Counter()
        self._lock = threading.Lock()

    def connect(self) -> None:
        """Connect now, if not connected yet."""
        import ray

        with self._lock:
            if self._closing.is_set():
                raise ResourceError("Ray is not used any more: its pool is closed")
            if ray.is_initialized():
                return
            self._connected = Future()
            self._keeper = threading.Thread(target=self._keep, name="gsdm-ray", daemon=True)
            self._keeper.start()
            try:
                self._connected.result()
            except Exception as error:
                self._keeper = None
                place = f"at {self._address!r}" if self._address else "on this machine"
                raise ResourceError(f"Ray could not be reached or started {place}: {error}") from error
            atexit.register(self.close)  # before what Ray does at exit, which does not wait for threads that call it

    def _keep(self) -> None:
        import ray

        options: dict[str, Any] = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": "ERROR"}
        if self._address is None:
            options |= {"num_cpus": EMBEDDED_CPUS, "include_dashboard": self._dashboard}
            options["_system_config"] = {"worker_niceness": 0}  # Ray's 15 would let streams give way to everything else
        try:
            ray.init(address=self._address or "local", **options)
        except BaseException as error:
            self._connected.set_exception(error)
            return
        self._connected.set_result(None)
        self._closing.wait()
        if not self._calls.close(CALLS_S):
            logger.warning("Ray is shut down while it is still being called: this process may end with it")
        ray.shutdown()

    @override
    def start(self, request: HostRequest) -> RayGroup:
        self.connect()
        with self._calls.begin() as allowed:
            if not allowed:
                raise ResourceError(f"query {request.query!r} gets no hosts: Ray is being shut down")
            lease = self.leases.acquire(request)
            try:
                return RayGroup(request, lease, self._spares, self._launches, self._calls)
            except BaseException:
                lease.release()
                raise

    @override
    def warm(self) -> None:
        with contextlib.suppress(ResourceError):
            self.connect()
            self._spares.fill()

    @override
    def inventory(self) -> dict[str, Any]:
        with self._calls.begin() as allowed:
            if allowed and _connected():
                return self._observed()
        return {"started": False, "address": self._address or "embedded", "leases": []}

    def _observed(self) -> dict[str, Any]:
        import ray

        return {
            "started": True,
            "address": self._address or "embedded",
            "nodes": [
                {
                    "id": node["NodeID"][:12],
                    "address": node["NodeManagerAddress"],
                    "resources": node["Resources"],
                    "labels": {key: value for key, value in node["Labels"].items() if not key.startswith("ray.io/")},
                }
                for node in ray.nodes()
                if node["Alive"]
            ],
            **({} if self._address else {"cores": os.cpu_count()}),  # its CPUs are EMBEDDED_CPUS, whatever there is
            "total": ray.cluster_resources(),
            "available": ray.available_resources(),
            "spares": len(self._spares),
            "leases": self.leases.to_json(),
        }

    @override
    def close(self) -> None:
        """Shuts down only what it started. A closed pool cannot be used again."""
        self._closing.set()
        if not self._lock.acquire(timeout=CLOSE_S):  # it still tries to connect, and cannot be told otherwise
            return
        try:
            self._spares.close()
            if self._keeper is not None:
                self._keeper.join()
                self._keeper = None
                atexit.unregister(self.close)
        finally:
            self._lock.release()

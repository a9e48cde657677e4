"""Ordered input ports: what S-Merge and OS-Join share.

Each port delivers rows with rising keys (ordinals, or timestamps). A port has *passed* a key when nothing at or
below it can still come; what all ports have passed is decided and can be worked on. Marks move a port on without rows:
ordinal marks where rows go by ordinals, time marks where they go by time. A port that holds the others up for longer
than the time-out is left behind until it delivers again: the gap is recorded, late rows are counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.errors import InternalError, QueryError
from gsdm_grid.model import NO_MARK, NO_TIME_MARK, PhysicalWindow, as_array, cut
from gsdm_grid.operators.base import Blocks, Kept, Snapshot, StreamOperator

NEVER = np.iinfo(np.int64).min
ALWAYS = np.iinfo(np.int64).max
GAPS_KEPT = 100


class Port:
    """Rows of one input that wait to be decided."""

    __slots__ = ("closed", "keys", "left_behind", "missed", "passed", "rows", "time_mark", "waited_for_since")

    def __init__(self) -> None:
        self.rows: PhysicalWindow | None = None
        self.keys: NDArray[np.int64] = np.empty(0, np.int64)
        self.passed: int = NEVER
        self.time_mark: int = NO_TIME_MARK
        self.closed = False
        self.left_behind = False
        self.missed: int = NEVER  # greatest key that was decided without this port
        self.waited_for_since: float | None = None

    @property
    def bound(self) -> int:
        """Key that this port has passed; a closed or left-behind port holds nothing up."""
        return ALWAYS if self.closed or self.left_behind else self.passed

    def snapshot(self) -> dict[str, Any]:
        """How far it is, without the rows that wait."""
        return {
            "passed": self.passed,
            "time_mark": self.time_mark,
            "closed": self.closed,
            "left_behind": self.left_behind,
            "missed": self.missed,
        }

    @staticmethod
    def restored(snapshot: Mapping[str, Any], rows: PhysicalWindow | None, by_ordinal: bool) -> Port:
        """A port that is as far, with rows that wait."""
        port = Port()
        port.passed, port.missed = snapshot["passed"], snapshot["missed"]
        port.time_mark = snapshot["time_mark"]
        port.closed, port.left_behind = snapshot["closed"], snapshot["left_behind"]
        if rows is not None:
            port.rows, port.keys = rows, as_array(rows.ordinals) if by_ordinal else rows.ts
        return port

    def take(self, count: int) -> PhysicalWindow | None:
        """Remove the first rows."""
        if self.rows is None or count == 0:
            return None
        taken: PhysicalWindow = self.rows if count == len(self.rows) else cut(self.rows, 0, count)
        rest = None if count == len(self.rows) else cut(self.rows, count)
        self.rows, self.keys = rest, self.keys[count:]
        return taken


class OrderedPorts(StreamOperator):
    """Base of combining operators; subclasses say in `decide` what becomes of decided rows.

    ``joins`` says that rows of different ports with equal keys belong together; otherwise the lower port goes first.
    """

    joins: ClassVar[bool] = False
    calls_functions: ClassVar[bool] = False
    """Whether results are what a user's function made of rows."""

    def __init__(self, ports: int, order: str, timeout_s: float | None) -> None:
        self.ports = [Port() for _ in range(ports)]
        self.by_ordinal = order == "ordinal"
        self.timeout_s = timeout_s
        self.late = 0
        self.gap_count = 0
        self.gaps: deque[dict[str, int]] = deque(maxlen=GAPS_KEPT)
        self._done = NEVER  # greatest key that has been decided
        self._mark = NO_MARK
        self._time_mark: int = NO_TIME_MARK

    def decide(self, pieces: list[PhysicalWindow | None]) -> list[PhysicalWindow]:
        """Make results, in order, of the decided rows of each port (None where a port has none)."""
        raise NotImplementedError

    def wants(self, port: int) -> bool:
        """See `StreamOperator`: one block at a time, so memory stays bounded by the slowest port."""
        return self.ports[port].rows is None

    def push(self, port: int, block: PhysicalWindow) -> Blocks:
        """See `StreamOperator`."""
        at = self.ports[port]
        keys = as_array(block.ordinals) if self.by_ordinal else block.ts
        threshold = self._first_in_time(at)
        if len(keys) and (keys[0] < threshold or (keys[1:] < keys[:-1]).any()):
            block, keys = self._without_late(block, keys, keys >= threshold)
        if at.left_behind and self.by_ordinal and len(keys):  # others have gone on in time meanwhile
            block, keys = self._without_late(block, keys, block.ts > self._time_mark)
        if len(keys):
            if at.left_behind:
                self._rejoin(port, int(keys[0]))
            joined = block if at.rows is None else PhysicalWindow.concat([at.rows, block])
            at.rows = joined
            at.keys = keys if len(at.keys) == 0 else np.concatenate([at.keys, keys])
            at.passed = max(at.passed, int(keys[-1]))
        if self.by_ordinal and block.mark >= 0:
            at.passed = max(at.passed, block.mark)
            if at.left_behind and block.mark >= self._done:
                self._rejoin(port, block.mark + 1)
        if block.time_mark > at.time_mark:
            at.time_mark = block.time_mark
            if not self.by_ordinal:
                at.passed = max(at.passed, at.time_mark + 1)  # at that time itself more may come
                if at.left_behind and at.passed > self._done:
                    self._rejoin(port, at.passed)
        at.waited_for_since = None
        return self._release()

    def close(self, port: int) -> Blocks:
        """See `StreamOperator`."""
        self.ports[port].closed = True
        return self._release()

    def resume(self) -> None:
        """See `StreamOperator`."""
        for port in self.ports:
            port.waited_for_since = None

    def tick(self, now_s: float) -> Blocks:
        """See `StreamOperator`: starts waiting for ports that hold up others, gives up after the time-out."""
        if self.timeout_s is None:
            return ()
        gave_up = False
        for number, port in enumerate(self.ports):
            if not self._holds_up(number):
                port.waited_for_since = None
            elif port.waited_for_since is None:
                port.waited_for_since = now_s
            elif now_s - port.waited_for_since >= self.timeout_s:
                port.left_behind = gave_up = True
                port.waited_for_since = None
                self.gap_count += 1
                self.gaps.append({"input": number, "after": port.passed if port.passed != NEVER else -1})
        return self._release() if gave_up else ()

    def deadline_s(self) -> float | None:
        """See `StreamOperator`."""
        if self.timeout_s is None:
            return None
        waiting = [port.waited_for_since for port in self.ports if port.waited_for_since is not None]
        return min(waiting) + self.timeout_s if waiting else None

    def waiting(self, port: int) -> Blocks:
        """See `StreamOperator`."""
        rows = self.ports[port].rows
        return () if rows is None else (rows,)

    def snapshot(self) -> Snapshot:
        """See `StreamOperator`: rows that wait for other ports, and how far each port is."""
        kept = tuple(None if port.rows is None else Kept(0, port.rows) for port in self.ports)
        return Snapshot(kept, progress=self.progress())

    def restore(self, snapshot: Snapshot) -> None:
        """See `StreamOperator`."""
        if snapshot.progress is None and not any(snapshot.kept):
            return
        if snapshot.progress is None or len(snapshot.kept) != len(self.ports):
            raise InternalError(f"{len(snapshot.kept)} ordered inputs were left, for {len(self.ports)} of another kind")
        rows = [None if kept is None else kept.windows for kept in snapshot.kept]
        told = snapshot.progress["ports"]
        self.ports = [Port.restored(one, held, self.by_ordinal) for one, held in zip(told, rows, strict=True)]
        self.go_on(snapshot.progress)

    def progress(self) -> dict[str, Any]:
        """How far it is, beside the rows that wait. Subclasses add what is theirs."""
        return {
            "ports": [port.snapshot() for port in self.ports],
            "done": self._done,
            "mark": self._mark,
            "time_mark": self._time_mark,
            "late": self.late,
            "gap_count": self.gap_count,
            "gaps": list(self.gaps),
        }

    def go_on(self, progress: Mapping[str, Any]) -> None:
        """Inverse of `progress`, but for the ports."""
        self._done, self._mark, self._time_mark = progress["done"], progress["mark"], progress["time_mark"]
        self.late, self.gap_count = progress["late"], progress["gap_count"]
        self.gaps = deque(progress["gaps"], maxlen=GAPS_KEPT)

    def statistics(self) -> dict[str, Any]:
        """See `StreamOperator`."""
        return {"late": self.late, "gaps": self.gap_count, "gap_list": list(self.gaps)}

    def _first_in_time(self, port: Port) -> int:
        """Smallest key that a port may still deliver without making the result go back, or repeat itself."""
        threshold = max(self._done, self._mark if self.by_ordinal else max(port.passed, self._first_time))
        return max(threshold, port.missed + 1) if self.joins and port.missed != NEVER else threshold

    @property
    def _first_time(self) -> int:
        """Earliest timestamp that a result may still have."""
        return self._time_mark + 1 if self._time_mark > NO_TIME_MARK else NEVER

    def _holds_up(self, number: int) -> bool:
        """Whether rows of other ports wait for this one, which has none."""
        port = self.ports[number]
        if port.bound == ALWAYS or port.rows is not None:
            return False
        return any(
            len(other.keys)
            and (other.keys[0] > port.passed or (other.keys[0] == port.passed and self._may_repeat(number, at)))
            for at, other in enumerate(self.ports)
        )

    def _may_repeat(self, number: int, other: int) -> bool:
        """Whether a row of ``other`` waits for a port that may deliver the same key once more: timestamps repeat."""
        return not self.by_ordinal and (self.joins or number < other)

    def _without_late(
        self, block: PhysicalWindow, keys: NDArray[np.int64], in_time: NDArray[np.bool_]
    ) -> tuple[PhysicalWindow, NDArray[np.int64]]:
        """Drop what would make the result go back, and count it."""
        keep = in_time & (keys >= np.maximum.accumulate(keys))
        self.late += int(len(keys) - keep.sum())
        return block.select(keep).marked_as(block), keys[keep]

    def _rejoin(self, port: int, key: int) -> None:
        """A port that was left behind delivers again, from this key on."""
        self.ports[port].left_behind = False
        for gap in reversed(self.gaps):
            if gap["input"] == port and "until" not in gap:
                gap["until"] = key
                return

    def _release(self) -> Blocks:
        """Hand the rows that all ports have passed to `decide`."""
        bound = min(port.bound for port in self.ports)
        if bound == NEVER:
            return ()
        pieces = [port.take(count) for port, count in zip(self.ports, self._decided(bound), strict=True)]
        waiting = min((int(port.keys[0]) for port in self.ports if len(port.keys)), default=ALWAYS)
        mark = min(bound, waiting - 1) if bound != ALWAYS else self._done
        results = self.decide(pieces) if any(piece is not None for piece in pieces) else []
        results += self.passed(bound)
        return self._marked([block for block in results if len(block)], mark, self._passed_time(bound))

    def passed(self, bound: int) -> list[PhysicalWindow]:  # noqa: ARG002
        """Results that are complete because no row with a key below ``bound`` comes any more."""
        return []

    def held_since(self) -> int | None:
        """Timestamp of the earliest result that decided rows may still make; None if there is none."""
        return None

    def _passed_time(self, bound: int) -> int:
        """No result with a timestamp at or before this one comes any more."""
        if not self.by_ordinal:
            waiting = [int(port.keys[0]) for port in self.ports if len(port.keys)]
            time_mark = min((bound, *waiting)) - 1 if bound != ALWAYS else self._time_mark
        else:
            holding = [port.time_mark for port in self.ports if not (port.closed or port.left_behind)]
            time_mark = min(holding, default=self._time_mark)
            if time_mark > self._time_mark:
                waiting = [int(port.rows.ts.min()) for port in self.ports if port.rows is not None]
                time_mark = min(time_mark, *(ts - 1 for ts in waiting)) if waiting else time_mark
        since = self.held_since()
        return time_mark if since is None else min(time_mark, since - 1)

    def _decided(self, bound: int) -> list[int]:
        """How many rows of each port are decided when all have passed ``bound``.

        A mark says that nothing at or below it comes; a timestamp does not say that it will not come again. So rows
        with that very timestamp wait: in a merge for the lower ports, in a join for their counterparts.
        """
        if bound == ALWAYS:
            counts = [len(port.keys) for port in self.ports]
        else:
            counts = [int(np.searchsorted(port.keys, bound, "right")) for port in self.ports]
            if not self.by_ordinal:
                below = [int(np.searchsorted(port.keys, bound, "left")) for port in self.ports]
                open_at_bound = [number for number, port in enumerate(self.ports) if port.bound == bound]
                if self.joins:
                    equal = min(counts[number] - below[number] for number in open_at_bound)
                    counts = [min(count, under + equal) for count, under in zip(counts, below, strict=True)]
                else:
                    last = open_at_bound[0]
                    counts = counts[: last + 1] + below[last + 1 :]
        for port, count in zip(self.ports, counts, strict=True):
            if count:
                self._done = max(self._done, int(port.keys[count - 1]))
        for port in self.ports:
            if port.left_behind:
                port.missed = self._done
        return counts

    def _marked(self, results: list[PhysicalWindow], mark: int, time_mark: int) -> Blocks:
        """Results with the marks on the last of them, or marks alone if they moved and there is no result."""
        self._check_time(results)
        moved = (self.by_ordinal and mark > self._mark) or time_mark > self._time_mark
        self._time_mark = max(self._time_mark, time_mark)
        if self.by_ordinal:
            self._mark = max(self._mark, mark)
        if not results:
            return (PhysicalWindow.empty(self.output_type, self._mark, time_mark=self._time_mark),) if moved else ()
        own = [block.stamped(time_mark=NO_TIME_MARK) for block in results[:-1]]  # not those of the ports
        last = results[-1].stamped(mark=self._mark if self.by_ordinal else None, time_mark=self._time_mark)
        return [*own, last]

    def _check_time(self, results: list[PhysicalWindow]) -> None:
        """Functions that combine windows are the user's."""
        if not self.calls_functions or self._time_mark == NO_TIME_MARK:
            return
        for block in results:
            earliest = int(block.ts.min())
            if earliest <= self._time_mark:
                raise QueryError(
                    f"a combine function returned a window at {earliest} ns, but its stream has passed "
                    f"{self._time_mark} ns: give the result the timestamp of its latest part"
                )

    @property
    def output_type(self) -> Any:
        """Type of the result."""
        raise NotImplementedError

"""The execute operator: applies a stream query function to its input streams (thesis 6.1.2).

It fills the views that the window functions read, calls the function as long as there are enough windows, moves the
cursors, checks what the function returned, and places the results: a result takes the ordinal of the window at
the cursor. Errors in user code come out as `FunctionError`, with the vertex, the function and the cause.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gsdm_grid.errors import FlowError, FunctionError
from gsdm_grid.functions import (
    NeedMore,
    StreamFunction,
    StreamView,
    function_value,
    is_library,
    raised_by_user_code,
    trace_in_user_code,
)
from gsdm_grid.model import NO_MARK, NO_TIME_MARK, LogicalWindow, PhysicalWindow, StreamType, as_array, cut
from gsdm_grid.operators import Blocks, Kept, Snapshot, StreamOperator


def user_call(vertex: str, function: StreamFunction, *args: Any, **kwargs: Any) -> Any:
    """Call user code; what it raises becomes a `FunctionError` that names the place. Generators run to their end."""

    def call() -> Any:
        result = function.code(*args, **kwargs)
        return list(result) if isinstance(result, Iterator) else result

    try:
        return guarded(vertex, function.name, call)
    except FunctionError as error:
        if is_library(function) and isinstance(error.__cause__, FlowError):  # windows that do not fit the query
            raise FlowError(f"vertex {vertex!r}", str(error.__cause__)) from error.__cause__
        raise


def load(vertex: str, function: StreamFunction) -> None:
    """Import what a function will import, before its first window waits for it."""
    for module in function.imports:
        guarded(vertex, function.name, lambda module=module: importlib.import_module(module))  # type: ignore[misc]


def guarded(vertex: str, name: str, call: Callable[[], Any]) -> Any:
    """Run a piece of user code under its name."""
    try:
        return call()
    except BaseException as error:
        if not raised_by_user_code(error):
            raise
        cause = f"{type(error).__name__}: {error}"
        raise FunctionError(vertex, name, cause, trace_in_user_code(error)) from error


class Execute(StreamOperator):
    """A function at work: transforming and partitioning functions read one view, combining ones several."""

    def __init__(
        self,
        vertex: str,
        function: StreamFunction,
        params: Mapping[str, Any],
        input_types: Sequence[StreamType],
        output_type: StreamType,
    ) -> None:
        self._vertex = vertex
        self._function = function
        self._params = dict(params) | {
            name: function_value(params[name]) for name in function.functions if params.get(name) is not None
        }
        self._output = output_type
        single_for = None if function.uses_neighbours else function.name
        self._views = [StreamView(given, function.whole, single_for) for given in input_types]
        self._marks = [NO_MARK] * len(input_types)
        self._mark = NO_MARK
        self._time_marks: list[int] = [NO_TIME_MARK] * len(input_types)
        self._time_mark: int = NO_TIME_MARK
        self._short: StreamView | None = None
        self._combining = function.kind == "combining"
        self._stateful = function.init is not None
        declared = function.traits.keeps_time
        self._keeps_time = not self._stateful if declared is None else declared
        self._looks_back = declared is None
        self._may_break_time = self._keeps_time and not is_library(function)
        self.executions = 0
        load(vertex, function)
        if function.init is not None:
            self._params["state"] = guarded(vertex, function.name, lambda: function.init(**self._params))  # type: ignore[misc]

    def wants(self, port: int) -> bool:
        """See `StreamOperator`: a combining function is fed where it lacks windows."""
        if not self._combining:
            return True
        view = self._views[port]
        return view.at >= len(view.block) or view is self._short

    def push(self, port: int, block: PhysicalWindow) -> Blocks:
        """See `StreamOperator`."""
        self._views[port].feed(block)
        self._marks[port] = max(self._marks[port], block.mark)
        self._time_marks[port] = max(self._time_marks[port], block.time_mark)
        results = self._execute_whole() if self._function.whole and not self._combining else self._execute_each()
        for view in self._views:
            view.forget()
        return self._with_mark(results)

    def waiting(self, port: int) -> Blocks:
        """See `StreamOperator`."""
        view = self._views[port]
        return (view.kept()[1],) if len(view.block) else ()

    def snapshot(self) -> Snapshot:
        """See `StreamOperator`."""
        progress = {
            "marks": list(self._marks),
            "mark": self._mark,
            "time_marks": list(self._time_marks),
            "time_mark": self._time_mark,
            "history_ns": [view.history_ns for view in self._views],
            "short": None if self._short is None else self._views.index(self._short),
        }
        kept = tuple(Kept(*view.kept()) for view in self._views)
        return Snapshot(kept, self._params["state"] if self._stateful else None, progress)

    def restore(self, snapshot: Snapshot) -> None:
        """See `StreamOperator`."""
        if self._stateful and snapshot.memory is not None:
            self._params["state"] = snapshot.memory
        for view, kept in zip(self._views, snapshot.kept, strict=False):
            if kept is not None:
                view.keep(kept.at, kept.windows)
        if (progress := snapshot.progress) is not None:
            self._marks, self._mark = list(progress["marks"]), progress["mark"]
            self._time_marks, self._time_mark = list(progress["time_marks"]), progress["time_mark"]
            self._short = None if progress["short"] is None else self._views[progress["short"]]
            for view, history_ns in zip(self._views, progress["history_ns"], strict=True):
                view.history_ns = history_ns

    def dispose(self) -> None:
        """See `StreamOperator`."""
        if self._stateful and self._function.cleanup is not None:
            cleanup = self._function.cleanup
            guarded(self._vertex, self._function.name, lambda: cleanup(self._params["state"]))

    def _call(self, argument: Any) -> Any:
        try:
            return user_call(self._vertex, self._function, argument, **self._params)
        finally:
            for view in self._views:
                if view.refused is not None:  # even if the function has caught the error
                    raise FunctionError(self._vertex, self._function.name, view.refused)

    def _execute_whole(self) -> list[PhysicalWindow]:
        view = self._views[0]
        blocks: list[PhysicalWindow] = []
        while view.at < len(view.block):
            given = view.block if view.at == 0 else cut(view.block, view.at)
            try:
                result = self._call(view)
            except NeedMore:
                break
            self.executions += 1
            if view.step is None:  # it did not look: nothing of this block is of use to it
                view.step = len(given)
            if result is not None:
                blocks.append(self._placed(result, given))
            view.advance()
        return blocks

    def _placed(self, result: Any, given: PhysicalWindow) -> PhysicalWindow:
        if not isinstance(result, PhysicalWindow):
            self._refuse(f"a block of {self._output.name!r}", result)
        block: PhysicalWindow = self._checked(result)
        if self._checks_time and (block.placed or len(block) == len(given)):
            self._check_times(block, given)
        if block.placed:
            return block
        if len(block) != len(given):
            raise FunctionError(
                self._vertex,
                self._function.name,
                f"returned {len(block)} new windows for {len(given)}: derive them with select(), replace() or "
                "as_type(), so that they keep their places in the stream",
            )
        return block.stamped(ordinals=given.ordinals)

    def _execute_each(self) -> list[PhysicalWindow]:
        """Call the function as often as there are windows for it; single windows are packed in the end."""
        views = self._views
        argument: Any = views if self._combining else views[0]
        blocks: list[PhysicalWindow] = []
        windows: list[LogicalWindow] = []
        ordinals: list[int] = []
        while views[0].at < len(views[0].block):  # a result takes its place from the window at this cursor
            try:
                result = self._call(argument)
            except NeedMore as need:
                self._short = need.view
                break
            self.executions += 1
            ordinal = views[0].ordinal
            earliest_ns = self._earliest_ns() if self._checks_time else None
            for window in self._windows(result):
                if earliest_ns is not None:
                    self._check_time(int(np.min(window.ts)), earliest_ns)
                if isinstance(window, PhysicalWindow):
                    self._pack(blocks, windows, ordinals)
                    blocks.append(window.stamped(ordinals=np.full(len(window), ordinal, np.int64), mark=NO_MARK))
                else:
                    windows.append(window)
                    ordinals.append(ordinal)
            for view in views:
                view.advance()
        else:
            self._short = views[0]
        self._pack(blocks, windows, ordinals)
        return blocks

    def _pack(self, blocks: list[PhysicalWindow], windows: list[LogicalWindow], ordinals: list[int]) -> None:
        if windows:
            blocks.append(PhysicalWindow.pack(self._output, windows, _compact(ordinals)))
            windows.clear()
            ordinals.clear()

    def _windows(self, result: Any) -> Iterable[LogicalWindow | PhysicalWindow]:
        if result is None:
            return
        if isinstance(result, LogicalWindow):
            yield self._checked(result)
        elif isinstance(result, PhysicalWindow):
            if len(result):
                yield self._checked(result)
        elif isinstance(result, Iterable) and not isinstance(result, str | bytes | Mapping):
            for item in result:
                if not isinstance(item, LogicalWindow):
                    self._refuse(f"windows of {self._output.name!r}", item)
                yield self._checked(item)
        else:
            self._refuse(f"windows of {self._output.name!r}", result)

    def _checked(self, made: Any) -> Any:
        if made.type == self._output:
            return made
        if made.type.is_under(self._output):
            return made.as_type(self._output)
        cause = f"promised windows of {self._output.name!r}, returned windows of {made.type.name!r}"
        raise FunctionError(self._vertex, self._function.name, cause)

    def _refuse(self, expected: str, got: Any) -> Any:
        cause = f"promised {expected}, returned {type(got).__name__}"
        raise FunctionError(self._vertex, self._function.name, cause)

    def _with_mark(self, blocks: list[PhysicalWindow]) -> Blocks:
        """Put the marks on the last result, or send them alone if they moved and there is no result.

        What is still to be executed holds them back.
        """
        mark = min(
            (int(view.block.ordinals[view.at]) - 1 if view.at < len(view.block) else seen)
            for view, seen in zip(self._views, self._marks, strict=True)
        )
        time_mark = min(map(self._passed_time, self._views, self._time_marks))
        moved = mark > self._mark or time_mark > self._time_mark
        self._mark, self._time_mark = max(self._mark, mark), max(self._time_mark, time_mark)
        if moved and not (blocks and len(blocks[-1])):
            blocks.append(PhysicalWindow.empty(self._output))
        last = len(blocks) - 1
        for number, block in enumerate(blocks):  # they still have the marks of the blocks that they were derived from
            if moved and number == last:
                blocks[number] = block.stamped(mark=self._mark, time_mark=self._time_mark)
            elif block.time_mark != NO_TIME_MARK:
                blocks[number] = block.stamped(time_mark=NO_TIME_MARK)
        return [block for block in blocks if block.tells]

    def _passed_time(self, view: StreamView, time_mark: int) -> int:
        if time_mark == NO_TIME_MARK or not self._keeps_time:
            return NO_TIME_MARK
        return view.passed_ns(time_mark, self._looks_back)

    @property
    def _checks_time(self) -> bool:
        """Whether results of this execution might break what has been, or will be, said about their time."""
        return self._may_break_time and max(self._time_marks) != NO_TIME_MARK

    def _earliest_ns(self) -> int:
        """Time of the window at the cursor; results must not be earlier."""
        return min(int(view.block.ts[view.at]) for view in self._views if view.at < len(view.block))

    def _check_time(self, ts: int, earliest_ns: int) -> None:
        """Refuse a result that is earlier than the window at the cursor, unless the function has read its time."""
        if ts >= earliest_ns:
            return
        if self._function.uses_neighbours:
            read = (view.earliest_ns(self._looks_back) for view in self._views if view.at < len(view.block))
            if ts >= min(read):
                return
        raise FunctionError(
            self._vertex,
            self._function.name,
            f"returned a window at {ts} ns for the one at {earliest_ns} ns: results are not earlier than the windows "
            "that they are made of, so that others need not wait for them; for a function to which that does not apply "
            "write @sqf(…, traits=Traits(keeps_time=False))",
        )

    def _check_times(self, block: PhysicalWindow, given: PhysicalWindow) -> None:
        """The same for results of a function that takes whole blocks: each has its own window at the cursor."""
        ts, given_ts = block.ts, given.ts
        if ts is given_ts or not len(ts):
            return
        if len(ts) != len(given_ts):
            rows = np.searchsorted(as_array(given.ordinals), as_array(block.ordinals))
            given_ts = given_ts[np.minimum(rows, len(given_ts) - 1)]
        earlier = np.flatnonzero(ts < given_ts)
        if len(earlier):
            self._check_time(int(ts[earlier[0]]), int(given_ts[earlier[0]]))


def _compact(ordinals: list[int]) -> Any:
    first, last, count = ordinals[0], ordinals[-1], len(ordinals)
    if count == 1:
        return range(first, first + 1)
    step = ordinals[1] - first
    if (
        step > 0
        and last - first == step * (count - 1)
        and all(ordinals[k] - ordinals[k - 1] == step for k in range(1, count))
    ):
        return range(first, last + 1, step)
    return np.array(ordinals, np.int64)

"""The working node: executes one site of a plan, wherever it is hosted.

It keeps installed and active operators, runs them in scheduling periods, and obeys the control protocol: `install`,
`activate`, `deactivate`, `attach`, `detach`, `statistics`, `redirect`, `drop`. It does no waiting of its own: `runner`
calls `period` and waits in between. One thread owns a node and everything in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from gsdm_grid.channels import ChannelLimits, DataPlane, End
from gsdm_grid.engine.buffers import (
    ChannelOutput,
    ChannelStream,
    InputStream,
    MemoryOutput,
    OutputStream,
    SinkOutput,
    SourceStream,
)
from gsdm_grid.engine.catalogue import make_operator
from gsdm_grid.engine.execute import Execute
from gsdm_grid.engine.snapshots import packed, unpacked
from gsdm_grid.engine.statistics import CpuTimer, NodeStatistics, OperatorStatistics
from gsdm_grid.errors import InternalError
from gsdm_grid.interfaces import (
    InterfaceContext,
    StreamInterface,
    Tap,
    Taps,
    TapSource,
    interfaces,
)
from gsdm_grid.model import Clock, PhysicalWindow, SystemClock
from gsdm_grid.operators import Blocks, Snapshot, StreamOperator
from gsdm_grid.plan import PlanOperator, PlanStream

PUSHES_PER_PERIOD = 64


@dataclass(frozen=True)
class Schedule:
    """How a node schedules (thesis 6.3): variable-length periods and greedy execution unless told otherwise.

    With ``period_s`` periods have a fixed length, and sources deliver at most ``repetition`` windows in each: that
    holds an input rate.
    """

    period_s: float | None = None
    repetition: int | None = None


@dataclass
class ActiveOperator:
    """An installed operator with its streams."""

    planned: PlanOperator
    logic: StreamOperator
    inputs: list[InputStream]
    outputs: list[OutputStream]
    statistics: OperatorStatistics
    ends: list[End | None] = field(default_factory=list)
    done: bool = True
    ended: bool = False
    numbered: int = 0

    @cached_property
    def by_number(self) -> list[list[OutputStream]]:
        """Outputs by the result stream that they carry, for an operator with several; else empty."""
        made: list[list[OutputStream]] = [[] for _ in range(max(self.planned.carries, default=-1) + 1)]
        for number, output in zip(self.planned.carries, self.outputs, strict=False):
            made[number].append(output)
        return made

    def begin(self) -> None:
        """A run begins: inputs that ended for good stay ended."""
        self.ends = [end if end is not None and end.final else None for end in self.ends or [None] * len(self.inputs)]
        self.done = False
        self.logic.resume()

    @property
    def stopping(self) -> bool:
        """Whether an input stopped and may go on later: then the others flow in, wanted or not, to where they stop."""
        return any(end is not None and not end.final for end in self.ends)

    def ready(self) -> bool:
        """Whether all outputs can take more."""
        return all(output.ready() for output in self.outputs)

    def snapshot(self) -> Snapshot:
        """What it remembers."""
        return replace(self.logic.snapshot(), numbered=self.numbered)


class WorkingNode:
    """One site at work. ``live`` holds interfaces of this process by stream name."""

    def __init__(
        self,
        name: str,
        plane: DataPlane,
        context: InterfaceContext,
        live: Mapping[str, StreamInterface] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.plane = plane
        self.active = False
        self.dropped = False
        self._context = context
        self._live = dict(live or {})
        self._clock = clock or SystemClock()
        self.statistics = self._new_statistics()
        self._schedule = Schedule()
        self._inputs: dict[str, InputStream] = {}
        self._outputs: dict[str, OutputStream] = {}
        self._operators: dict[str, ActiveOperator] = {}
        self._readers: dict[str, list[tuple[StreamOperator, int]]] = {}  # by input stream: who reads it, at which port
        self._stop_time_s: float | None = None
        self._budgets: dict[str, int] = {}
        self._reported = True
        self._held = False

    # -- the control protocol -------------------------------------------------------------------------------------

    def handle(self, command: Mapping[str, Any]) -> Any:
        """Carry out one command of the coordinator; errors go back to it."""
        action = command["do"]
        handler: Callable[..., Any] | None = getattr(self, f"_do_{action}", None)
        if handler is None:
            raise InternalError(f"working node {self.name!r} does not know the command {action!r}")
        return handler(**{key: value for key, value in command.items() if key not in ("do", "id")})

    def _do_batch(self, commands: list[Mapping[str, Any]]) -> None:
        for command in commands:
            self.handle(command)

    def _do_install_stream(self, stream: Mapping[str, Any], site: str, settings: Mapping[str, Any]) -> None:
        planned = PlanStream.from_json(stream)
        self._context.flush_s = settings["flush_s"]
        if planned.kind in ("source", "sink") and planned.name in {**self._inputs, **self._outputs}:
            return  # kept when the site was cleared
        if planned.kind == "source":
            source = SourceStream(
                planned.name,
                self._interface(planned),
                settings["block_bytes"],
                settings.get("start_at", 0),
                planned.order,
            )
            self._inputs[planned.name] = source
        elif planned.kind == "sink":
            self._outputs[planned.name] = SinkOutput(planned.name, self._interface(planned))
        elif planned.kind == "memory":
            buffer = InputStream(planned.name)
            self._inputs[planned.name] = buffer
            self._outputs[planned.name] = MemoryOutput(planned.name, buffer)
        elif planned.to_site == site:
            channel = ChannelStream(planned.name)
            channel.inlet = self.plane.inlet(settings["channel"], planned.type, channel.append)
            self._inputs[planned.name] = channel
        else:
            limits = ChannelLimits(settings["channel_blocks"], settings["channel_bytes"])
            outlet = self.plane.outlet(
                settings["channel"], settings["endpoint"], limits, settings["shared"], settings["epoch"]
            )
            self._outputs[planned.name] = ChannelOutput(planned.name, outlet)

    def _interface(self, planned: PlanStream) -> StreamInterface:
        if planned.live:
            if planned.name not in self._live:
                raise InternalError(f"stream {planned.name!r} lives in another process")
            return self._live[planned.name]
        return interfaces.get(str(planned.interface))(planned.type, planned.options)

    def _do_install_sqf(
        self,
        operator: Mapping[str, Any],
        types: list[Mapping[str, Any]],
        snapshot: Mapping[str, Any] | None = None,
    ) -> None:
        """``snapshot`` is what the operator is to remember, packed (see `gsdm_grid.engine.snapshots`)."""
        from gsdm_grid.model import StreamType

        planned = PlanOperator.from_json(operator)
        logic = make_operator(planned, [StreamType.from_json(given) for given in types])
        restored = Snapshot() if snapshot is None else unpacked(snapshot)
        if snapshot is not None:
            logic.restore(restored)
        inputs = [self._inputs[name] for name in planned.inputs]
        made = ActiveOperator(
            planned, logic, inputs, [self._outputs[name] for name in planned.outputs], OperatorStatistics()
        )
        for port, stream in enumerate(inputs):
            stream.cursors[f"{planned.id}:{port}"] = stream.consumed
            self._readers.setdefault(stream.name, []).append((logic, port))
        made.numbered = restored.numbered
        self._operators[planned.id] = made
        self.statistics.operators[planned.id] = made.statistics

    def _do_install_stop(self, kind: str, value: float) -> None:
        """Stop condition of the next run: ``count`` windows of each input stream, ``time`` seconds, or ``none``.

        ``position`` counts from the start of the streams instead of from where they are.
        """
        sources = [stream for stream in self._inputs.values() if isinstance(stream, SourceStream)]
        self._stop_time_s = None
        for source in sources:
            base = {"count": source.position, "position": 0}.get(kind)
            source.stop_at = None if base is None else base + int(value)
        if kind == "time":
            self._stop_time_s = self._clock.monotonic_s() + value

    def _do_activate(self, schedule: Mapping[str, Any] | None = None) -> None:
        self._schedule = Schedule(**(schedule or {}))
        for output in self._outputs.values():
            output.open(self._context)
        for stream in self._inputs.values():
            stream.open(self._context)
        for operator in self._operators.values():
            operator.begin()
        self.active = True
        self._held = False
        self._reported = False

    def _do_deactivate(self) -> None:
        """Stop reading input streams; what was read flows out, and the end mark after it."""
        for stream in self._inputs.values():
            if isinstance(stream, SourceStream):
                stream.stop()

    def _do_hold(self) -> None:
        """As deactivate, but input streams stay open: the query goes on in a moment, with other sites."""
        self._held = True
        for stream in self._inputs.values():
            if isinstance(stream, SourceStream):
                stream.stop(held=True)

    def _do_clear(self) -> dict[str, Any]:
        """Forget operators and channels, keep input and result streams: the site is about to be installed anew.

        All that it counts begins anew, as in the sites that come to it.
        Returns, by operator, what it remembers, packed.
        """
        snapshots = {name: packed(operator.snapshot()) for name, operator in self._operators.items()}
        self._operators.clear()
        self._readers.clear()
        self.statistics = self._new_statistics()
        ends = [s.inlet for s in self._inputs.values() if isinstance(s, ChannelStream)]
        channels = [end.stream for end in (*ends, *(o.outlet for o in self._channel_outputs())) if end is not None]
        sources = {name: stream for name, stream in self._inputs.items() if isinstance(stream, SourceStream)}
        sinks = {name: output for name, output in self._outputs.items() if isinstance(output, SinkOutput)}
        for source in sources.values():
            source.rewire()
        for sink in sinks.values():
            sink.rewire()
        self._inputs, self._outputs = {**sources}, {**sinks}
        self.plane.forget(channels)
        return snapshots

    def _do_listen(self, stream: str, channel: str, replayable: bool) -> None:
        """Which tap of another query an input stream reads in the next run."""
        source = self._inputs[stream]
        if not isinstance(source, SourceStream) or not isinstance(source.interface, TapSource):
            raise InternalError(f"stream {stream!r} reads no tap")
        source.interface.listen(channel, replayable)

    def _do_attach(
        self,
        stream: str,
        channel: str,
        endpoint: str,
        shared: bool,
        epoch: int,
        limits: Mapping[str, int],
        options: Mapping[str, Any],
    ) -> int:
        """Lend a result stream to another query, from the next block on; gives the ordinal that comes next."""
        outlet = self.plane.outlet(channel, endpoint, ChannelLimits(**limits), shared, epoch)
        return self._taps(stream).attach(channel, Tap(outlet, options, partial(self.plane.forget, [channel])))

    def _do_detach(self, stream: str, channel: str) -> dict[str, Any]:
        """Take it back; gives what was counted for that query."""
        return self._taps(stream).detach(channel)

    def _taps(self, stream: str) -> Taps:
        output = self._outputs[stream]
        if not isinstance(output, SinkOutput) or not isinstance(output.interface, Taps):
            raise InternalError(f"stream {stream!r} has no taps")
        return output.interface

    def _do_redirect(self, stream: str, endpoint: str) -> None:
        output = self._outputs[stream]
        if not isinstance(output, ChannelOutput):
            raise InternalError(f"stream {stream!r} is no channel")
        output.outlet.redirect(endpoint)

    def _do_statistics(self) -> dict[str, Any]:
        return self.report()

    def _do_drop(self) -> None:
        self.drop()

    def drop(self) -> None:
        """Let go of everything. Errors in clean-up are reported after all of it was tried."""
        self.active, self.dropped = False, True
        errors: list[BaseException] = []
        closers: list[Callable[[], None]] = [operator.logic.dispose for operator in self._operators.values()]
        closers += [stream.close for stream in self._inputs.values()]
        closers += [output.close for output in self._outputs.values()]
        for close in closers:
            try:
                close()
            except BaseException as error:
                errors.append(error)
        self._operators.clear()
        self._readers.clear()
        self._inputs.clear()
        self._outputs.clear()
        if errors:
            raise errors[0]

    # -- scheduling -----------------------------------------------------------------------------------------------

    def period(self, ready: Collection[Any] | None = None) -> bool:
        """One scheduling period: communication, operators, system tasks. Says whether anything was done.

        ``ready`` holds the sockets that have something; None: ask them all.
        """
        timer = CpuTimer()
        received = self.plane.receive(ready)
        self.statistics.communication_s += timer.lap()
        if not self.active:
            return received > 0
        now_s = self._clock.monotonic_s()
        self._budgets = dict.fromkeys(self._inputs, self._schedule.repetition or 0) if self._schedule.period_s else {}
        if self._stop_time_s is not None and now_s >= self._stop_time_s:
            self._stop_time_s = None
            self._do_deactivate()
        worked = False
        for operator in self._operators.values():
            if not operator.done:
                worked |= self._run(operator, now_s, timer)
        self._settle(idle=not worked)
        self.plane.beat(now_s)
        self.statistics.periods += 1
        self.statistics.system_s += timer.lap()
        return worked or received > 0

    def wait_s(self) -> float:
        """How long the runner may wait for messages if a period did nothing."""
        deadlines = [op.logic.deadline_s() for op in self._operators.values() if not op.done]
        deadlines += [s.interface.due_s() for s in self._inputs.values() if isinstance(s, SourceStream) and not s.ended]
        deadlines += [s.inlet.due_s for s in self._inputs.values() if isinstance(s, ChannelStream) and s.inlet]
        known = [deadline for deadline in deadlines if deadline is not None]
        if self._stop_time_s is not None and self.active:
            known.append(self._stop_time_s)
        wait = 0.25 if not known else min(known) - self._clock.monotonic_s()
        return min(max(wait, 0.0), 0.25)

    @property
    def fixed_period_s(self) -> float | None:
        """Length of scheduling periods, if fixed."""
        return self._schedule.period_s if self.active else None

    def finished(self) -> dict[str, bool] | None:
        """Told once per run, when all operators are done: whether the streams ended for good."""
        if self._reported or not self.active or not all(operator.done for operator in self._operators.values()):
            return None
        if any(output.outlet.next > output.outlet.consumed for output in self._channel_outputs()):
            return None  # not before what was sent has been consumed
        self._reported = True
        self._settle(idle=True)  # producers wait for the last acknowledgement
        final = all(end is not None and end.final for operator in self._operators.values() for end in operator.ends)
        if not final:
            self.active = False
            for stream in self._inputs.values() if not self._held else ():
                stream.close()
        return {"final": final}

    def _run(self, operator: ActiveOperator, now_s: float, timer: CpuTimer) -> bool:
        """Execute one operator greedily: as long as it has input and its outputs have room."""
        worked = False
        self._emit(operator, operator.logic.tick(now_s))
        for _ in range(PUSHES_PER_PERIOD):
            if not operator.ready() or not self._step(operator, timer):
                break
            worked = True
        if all(end is not None for end in operator.ends):
            final = all(end is not None and end.final for end in operator.ends)
            operator.done = True
            worked = True
            for output in operator.outputs:
                if not operator.ended or isinstance(output, SinkOutput):  # consumers were told once for good
                    output.put(
                        End(final, held=not final and any(end is not None and end.held for end in operator.ends))
                    )
            operator.ended = final
        return worked

    def _step(self, operator: ActiveOperator, timer: CpuTimer) -> bool:
        """Push one block into the first port that has and wants one."""
        for port, stream in enumerate(operator.inputs):
            if operator.ends[port] is not None or not (operator.stopping or operator.logic.wants(port)):
                continue
            reader = f"{operator.planned.id}:{port}"
            item = stream.peek(reader)
            if item is None and self._refill(stream):
                item = stream.peek(reader)
                if item is None:
                    return True  # what came has to wait for its turn
            if item is None:
                continue
            self.statistics.communication_s += timer.lap()
            results: Blocks
            if isinstance(item, End):
                operator.ends[port] = item
                results = operator.logic.close(port) if item.final else ()
            else:
                results = operator.logic.push(port, item)
                operator.statistics.windows_in += len(item)
                operator.statistics.bytes_in += item.nbytes
            spent = timer.lap()
            operator.statistics.processing_s += spent
            self.statistics.processing_s += spent
            logic = operator.logic
            operator.statistics.executions = (
                logic.executions if isinstance(logic, Execute) else operator.statistics.executions + 1
            )
            self._emit(operator, results)
            stream.advance(reader)
            self.statistics.communication_s += timer.lap()
            return True
        return False

    def _refill(self, stream: InputStream) -> bool:
        if not isinstance(stream, SourceStream):
            return False
        before = stream.statistics.windows
        came = stream.refill(self._budgets.get(stream.name))
        if self._budgets:
            self._budgets[stream.name] -= stream.statistics.windows - before
        return came

    def _emit(self, operator: ActiveOperator, blocks: Blocks) -> None:
        if operator.by_number:
            for block, outputs in zip(blocks, operator.by_number, strict=False):
                if block.tells:
                    self._put(operator, block, outputs)
            return
        for block in blocks:
            out: PhysicalWindow = block
            if operator.planned.renumber:
                end = operator.numbered + len(block)
                out = block.stamped(ordinals=range(operator.numbered, end), mark=end - 1)
                operator.numbered = end
            self._put(operator, out, operator.outputs)

    @staticmethod
    def _put(operator: ActiveOperator, block: PhysicalWindow, outputs: Sequence[OutputStream]) -> None:
        operator.statistics.windows_out += len(block)
        operator.statistics.bytes_out += block.nbytes
        for output in outputs:
            output.put(block)

    def _settle(self, idle: bool) -> None:
        """Acknowledge what has been dealt with (see `ChannelStream.settle`)."""
        if idle:
            for output in self._channel_outputs():
                output.flush()
        outlets = [output.outlet for output in self._channel_outputs()]
        drained = all(stream.waiting == 0 for stream in self._inputs.values() if type(stream) is InputStream)
        for stream in self._inputs.values():
            if isinstance(stream, ChannelStream):
                stream.settle(self._floor(stream), outlets, drained, idle)

    def _floor(self, stream: InputStream) -> int | None:
        """Smallest ordinal of the stream that an operator still holds."""
        held = [logic.floor(port) for logic, port in self._readers.get(stream.name, ())]
        return min((floor for floor in held if floor is not None), default=None)

    def _channel_outputs(self) -> list[ChannelOutput]:
        return [output for output in self._outputs.values() if isinstance(output, ChannelOutput)]

    # -- reporting ------------------------------------------------------------------------------------------------

    def _new_statistics(self) -> NodeStatistics:
        return NodeStatistics(since_s=self._clock.now_ns() / 1e9)

    def report(self) -> dict[str, Any]:
        """All statistics, as plain JSON."""
        for name, stream in self._inputs.items():
            stream.statistics.buffered_blocks = stream.waiting
            self.statistics.streams[name] = stream.statistics
        for name, output in self._outputs.items():
            if not isinstance(output, MemoryOutput):
                self.statistics.streams[name] = output.statistics
        told = self.statistics.to_json()
        for name, operator in self._operators.items():
            told["operators"][name] |= operator.logic.statistics()
        for name, side in (*self._inputs.items(), *self._outputs.items()):
            if isinstance(side, SourceStream | SinkOutput):
                told["streams"][name] |= side.interface.statistics()
            if isinstance(side, SinkOutput) and isinstance(side.interface, Taps):
                told["streams"][name]["readers"] = side.interface.readers()
            if isinstance(side, SourceStream):
                order = side.time_order
                told["streams"][name] |= {
                    "position": side.position,
                    "dropped_late": order.late,
                    "held": order.held,
                }
            if isinstance(side, ChannelStream) and side.inlet is not None:
                told["streams"][name]["duplicates"] = side.inlet.duplicates
            if isinstance(side, ChannelOutput):
                told["streams"][name] |= {
                    "shared": side.outlet.sent_shared,
                    "passed_on": side.outlet.sent_on,
                    "sent_again": side.outlet.sent_again,
                }
        told["refused_messages"] = self.plane.refused
        return told

"""Triggers: waiting for the coordinator in Airflow's triggerer, where a thousand waits need one process."""

from __future__ import annotations

import asyncio
import importlib
import time
from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from gsdm_grid.airflow.hooks import GsdmHook

if TYPE_CHECKING:
    from gsdm_grid.client import AsyncClient

POLL_S, PATIENCE_S = 1.0, 300.0


class CoordinatorTrigger(BaseTrigger):
    """Asks until something is so. A coordinator that is away is waited for, for ``patience_s`` seconds.

    Its event has ``problem``, a text, if there is nothing more to wait for.
    """

    def __init__(
        self,
        gsdm_conn_id: str = GsdmHook.default_conn_name,
        poll_s: float = POLL_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        super().__init__()
        self.gsdm_conn_id = gsdm_conn_id
        self.poll_s = poll_s
        self.patience_s = patience_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments, with which it is made again in the triggerer."""
        how = {"gsdm_conn_id": self.gsdm_conn_id, "poll_s": self.poll_s, "patience_s": self.patience_s}
        return f"{type(self).__module__}.{type(self).__qualname__}", {**self._what(), **how}

    @abstractmethod
    def _what(self) -> dict[str, Any]:
        """What is waited for: arguments of the class."""

    @abstractmethod
    async def _look(self, client: AsyncClient) -> dict[str, Any] | None:
        """The event, if it is time for it."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait; one event, and it is over."""
        client_room = await asyncio.to_thread(importlib.import_module, "gsdm_grid.client")  # takes seconds; others wait
        self.log.info("waiting for %s", ", ".join(f"{name} {value}" for name, value in self._what().items()))
        seen_s = time.monotonic()
        event: dict[str, Any] | None = None
        while event is None:
            try:
                async with await self._client() as client:  # found anew: a coordinator that starts again may move
                    while event is None:
                        event = await self._look(client)
                        seen_s = time.monotonic()
                        if event is None:
                            await asyncio.sleep(self.poll_s)
            except client_room.NoCoordinator as error:
                away_s = time.monotonic() - seen_s
                if away_s >= self.patience_s:
                    event = {"problem": f"waited {away_s:.0f} s: {error}"}
                else:
                    self.log.warning("%s; waiting for it", error)
                    await asyncio.sleep(self.poll_s)
            except client_room.ApiProblem as problem:
                event = {"problem": f"{problem.kind}: {problem}"}
        yield TriggerEvent(event)

    async def _client(self) -> AsyncClient:
        return await GsdmHook(self.gsdm_conn_id).aget_conn()


class TrialTrigger(CoordinatorTrigger):
    """Waits until a trial is over; its event names the trial. A user who kills the task cancels the trial."""

    def __init__(self, trial: str, **how: Any) -> None:
        super().__init__(**how)
        self.trial = trial

    def _what(self) -> dict[str, Any]:
        return {"trial": self.trial}

    async def _look(self, client: AsyncClient) -> dict[str, Any] | None:
        return {"trial": self.trial} if (await client.trial(self.trial)).over else None

    async def on_kill(self) -> None:
        """Cancel the trial."""
        async with await self._client() as client:
            await client.remove_trial(self.trial)
        self.log.info("cancelled trial %s", self.trial)


class QueryTrigger(CoordinatorTrigger):
    """Waits until a query is in one of some states, or has failed; its event names the state."""

    def __init__(self, query: str, states: list[str], **how: Any) -> None:
        super().__init__(**how)
        self.query = query
        self.states = states

    def _what(self) -> dict[str, Any]:
        return {"query": self.query, "states": self.states}

    async def _look(self, client: AsyncClient) -> dict[str, Any] | None:
        found = await client.query(self.query)
        if found.state in self.states:
            return {"state": found.state}
        return {"problem": f"query {self.query} has failed: {found.error}"} if found.state == "failed" else None

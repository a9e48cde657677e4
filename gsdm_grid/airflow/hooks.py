"""The hook: how tasks get from an Airflow connection to a client of the coordinator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException

if TYPE_CHECKING:
    from gsdm_grid.client import Address, AsyncClient, Client

_MAY_PASS = (409, 429)
"""Refusals that another try may not meet; all others stay what they are."""


class GsdmHook(BaseHook):
    """Asks the coordinator of a connection. Made anew by each task and trigger.

    The connection's host is the coordinator's address (``https://grid.example:8642``, or a name with port and schema),
    its password a token of an operator. Without a host, the coordinator whose home is in the extra field ``home`` is
    asked, or else the one that this machine knows: it is looked for each time, so that it may start later or move.
    """

    conn_name_attr = "gsdm_conn_id"
    default_conn_name = "gsdm_default"
    conn_type = "gsdm"
    hook_name = "GSDM-grid coordinator"

    def __init__(self, gsdm_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.gsdm_conn_id = gsdm_conn_id

    @staticmethod
    def get_ui_field_behaviour() -> dict[str, Any]:
        """What the form of such a connection shows."""
        return {
            "hidden_fields": ["login"],
            "relabeling": {"host": "Coordinator", "password": "Token", "schema": "Scheme"},
            "placeholders": {
                "host": "https://grid.example:8642",
                "schema": "http or https, if the coordinator's address has none",
                "extra": json.dumps({"home": "folder of a coordinator on this machine, if there is no address"}),
            },
        }

    def address(self) -> Address:
        """Where the coordinator is now, and with which token it is asked."""
        return address_of(self.get_connection(self.gsdm_conn_id))

    def get_conn(self) -> Client:
        """A client of the coordinator; close it."""
        from gsdm_grid.client import Client

        found = self.address()
        return Client(found.url, found.token)

    async def aget_conn(self) -> AsyncClient:
        """As `get_conn`, for triggers."""
        from gsdm_grid.client import AsyncClient

        found = address_of(await self.aget_connection(self.gsdm_conn_id))
        return AsyncClient(found.url, found.token)

    def test_connection(self) -> tuple[bool, str]:
        """Whether a coordinator answers and takes the token; for Airflow's form of connections."""
        from gsdm_grid.errors import GsdmError

        try:
            with self.get_conn() as client:
                known = sum(1 for _ in client.queries())
                return True, f"the coordinator at {client.address.url} answers; it knows {known} queries"
        except GsdmError as error:
            return False, str(error)

    @contextmanager
    def asking(self) -> Iterator[Client]:
        """A client for the time of a ``with`` statement. What the coordinator refuses for good fails the task for good;
        what may pass (it is away, or busy) is tried again as the task's ``retries`` say.
        """
        from gsdm_grid.client import ApiProblem
        from gsdm_grid.errors import GsdmError

        try:
            with self.get_conn() as client:
                yield client
        except ApiProblem as problem:
            for_good = problem.status < 500 and problem.status not in _MAY_PASS
            raise (AirflowFailException if for_good else AirflowException)(f"{problem.kind}: {problem}") from problem
        except GsdmError as error:
            raise AirflowException(str(error)) from error


def address_of(connection: Any) -> Address:
    """The coordinator's address and token that an Airflow connection tells of."""
    from gsdm_grid.client import resolve

    home = (connection.extra_dejson or {}).get("home")
    return resolve(_url(connection), connection.password or None, Path(home) if home else None)


def _url(connection: Any) -> str | None:
    host = connection.host
    if not host or "://" in host:
        return host or None
    port = f":{connection.port}" if connection.port else ""
    return f"{connection.schema or 'http'}://{host}{port}"

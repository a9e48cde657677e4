"""The Python client of a coordinator: `Client`, and `AsyncClient` for ``async`` programs.

What requests look like, what answers mean, when a request is repeated and where a broken result stream goes on are pure
functions and generators (`calls`, `conversations`, `result_streams`), shared by both clients; these only do the I/O.
What the coordinator does with a request is in `api`.

>>> from gsdm_grid.client import Client
>>> with Client() as grid:                                                                    # doctest: +SKIP
...     grid.submit("examples/fft3.yaml")
...     grid.run("fft3")
...     for block in grid.result_blocks("fft3"):
...         print(block.ts[0], abs(block.x[0]).argmax())
"""

from gsdm_grid.client.address import Address, default_home, resolve
from gsdm_grid.client.async_client import AsyncClient
from gsdm_grid.client.blocking_client import Client
from gsdm_grid.client.documents import (
    Bundle,
    Document,
    Operation,
    Optimization,
    Query,
    RecordedSegment,
    ResultEvent,
    SiteCost,
    Token,
    Trial,
    TrialRequest,
    TrialResult,
)
from gsdm_grid.client.problems import ApiProblem, NoCoordinator
from gsdm_grid.client.result_streams import NumberedBlock
from gsdm_grid.client.retries import RetryPolicy

__all__ = [
    "Address",
    "ApiProblem",
    "AsyncClient",
    "Bundle",
    "Client",
    "Document",
    "NoCoordinator",
    "NumberedBlock",
    "Operation",
    "Optimization",
    "Query",
    "RecordedSegment",
    "ResultEvent",
    "RetryPolicy",
    "SiteCost",
    "Token",
    "Trial",
    "TrialRequest",
    "TrialResult",
    "default_home",
    "resolve",
]

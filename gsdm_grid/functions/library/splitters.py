"""What splitstream plans are made of: the splitter and the window router. Operators of the same name do their work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gsdm_grid.functions import Routing, StreamView, Traits, same_lengths, sqf
from gsdm_grid.model import STREAM, StreamType


def split_routing(stream_type: StreamType, params: Mapping[str, Any], vertex: str = "split") -> Routing:
    """The routing and broadcasting function of a splitter, checked against the type of its input."""
    return Routing(
        params["rfn"], params["bfn"], stream_type, params["total"] or params["w"], params["below"], params["w"], vertex
    )


def _split_type(inputs: Sequence[StreamType], params: Mapping[str, Any]) -> StreamType:
    split_routing(inputs[0], params)
    return inputs[0]


@sqf(
    STREAM,
    returns=_split_type,
    kind="partitioning",
    builtin="split",
    results="w",
    lengths=same_lengths,
    traits=Traits(routes_by=("rfn", "bfn")),
)
def split(s: StreamView, w: int, rfn: Any = None, bfn: Any = None, total: int | None = None, below: int = 1) -> Any:
    """Split a stream into ``w`` streams: ``rfn`` routes each tuple to one, ``bfn`` says what goes to all of them.

    In a tree ``total`` is the number of outputs of the whole tree and ``below`` the cumulative fanout of the levels
    above: the tuple goes to output (rfn / below) mod w.
    """
    raise NotImplementedError("executed by the operator of the same name")


@sqf(
    STREAM,
    kind="partitioning",
    builtin="route",
    results="w",
    lengths=same_lengths,
    traits=Traits(routes_blocks=True),
)
def route(s: StreamView, w: int, below: int = 1) -> Any:
    """Whole physical windows to ``w`` streams, at random and evenly, without looking inside (the window router).

    In a tree of routers ``below`` is the number of ways that the levels above have already chosen among.
    """
    raise NotImplementedError("executed by the operator of the same name")

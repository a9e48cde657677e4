"""Splitstream templates: data flows that split one stream into many, by routing and broadcasting functions.

After "Scalable splitting of massive data streams" and "Parasplit". ``fsplit`` splits in one place; ``splittree`` in a
tree, whose nodes share a multi-level hash of what the routing function says; ``exptree`` and ``maxtree`` are trees of
certain shapes, ``autosplit`` chooses by a rule; ``parasplit`` routes whole physical windows to window splitters. Each
gives, output by output, the same streams, whatever the functions (see `gsdm_grid.functions.routing`). What they
cost, and which is best, is the business of `gsdm_grid.splitting`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from gsdm_grid.errors import FlowError, UnknownName
from gsdm_grid.flow.graph import DataFlow, Site, Vertex, fresh_id, json_value, renamed
from gsdm_grid.flow.split_shapes import autosplit_choice, cumulative_fanouts, exptree_fanouts, maxtree_fanouts
from gsdm_grid.flow.template_registry import TEMPLATES
from gsdm_grid.flow.templates import Fun, Params, central, check_degree, check_size, expanded, parallel
from gsdm_grid.functions import Route, function_reference, route_value

BROADCAST_SHARE = 0.005
"""What maxtree assumes to be broadcast unless told: the account balance queries of Linear Road."""


def fsplit(w: int, rfn: Route, bfn: Route = None) -> DataFlow:
    """Split one stream into ``w`` in one place.

    >>> fsplit(64, "xway if kind == 0 else None", "kind == 2").width
    64
    """
    check_degree(w, "fsplit")
    vertex, site = _splitter(w, _functions(rfn, bfn, "fsplit"), 0)
    return renamed(DataFlow(1, vertex.streams, (vertex,), (site,), f"fsplit({w})"))


def splittree(fanouts: Sequence[int], w: int, rfn: Route, bfn: Route = None) -> DataFlow:
    """Split in a tree with these fanouts, level by level, cut to ``w`` outputs.

    A node of level ℓ sends a tuple to (rfn / λ) mod fanout, λ being the cumulative fanout above it (equations 2 and 3):
    any routing function works unchanged. Broadcast tuples go to all outputs of every node. A node that would have a
    single output is left out.
    """
    return _tree(fanouts, w, _functions(rfn, bfn, "splittree"), f"splittree({list(fanouts)}, {w})")


def exptree(w: int, rfn: Route, bfn: Route = None) -> DataFlow:
    """A splitstream tree with fanouts 2, 4, 8, …: nearly as good as `maxtree`, with nothing known about the stream."""
    check_degree(w, "exptree")
    return _tree(exptree_fanouts(w), w, _functions(rfn, bfn, "exptree"), f"exptree({w})")


def maxtree(w: int, rfn: Route, bfn: Route = None, b: float = BROADCAST_SHARE, a: float = 1.0) -> DataFlow:
    """The splitstream tree of the greatest throughput (equation 9), if a share ``b`` is broadcast.

    ``a`` is cc / (cp + ce), the cost of reading a tuple in proportion to that of processing and sending it.
    """
    check_degree(w, "maxtree")
    return _tree(maxtree_fanouts(w, b, a), w, _functions(rfn, bfn, "maxtree"), f"maxtree({w})")


def autosplit(w: int, rfn: Route, bfn: Route = None) -> DataFlow:
    """`exptree` if there is a broadcasting function, else `fsplit`, which costs less and is as fast then."""
    return replace(PLANS[autosplit_choice(bfn is not None)](w, rfn, bfn), template=f"autosplit({w})")


def splitstream(w: int, rfn: Route, bfn: Route = None, plan: str = "autosplit", **options: Any) -> DataFlow:
    """Split one stream into ``w`` by a plan with its options: fsplit, exptree, maxtree, autosplit or parasplit."""
    if plan not in PLANS:
        raise UnknownName("split plan", str(plan)[:80], PLANS)
    try:
        return PLANS[plan](w, rfn, bfn, **options)
    except TypeError as error:
        raise FlowError(f"splitstream, plan {plan!r}", str(error).replace("()", "")) from None


def parasplit(
    p: int,
    q: int,
    rfn: Route,
    bfn: Route = None,
    fun: Fun | None = None,
    params: Params = None,
    routers: Sequence[int] = (),
    sites: int | None = None,
) -> DataFlow:
    """A window router, ``p`` window splitters and ``q`` query processors, which merge what the splitters send them.

    ``fun`` is the function of the query processors, on the site of their merge. ``routers`` are the fanouts of a tree
    of routers, from its root, if one router is not enough: their product must be ``p``. The processors have a site
    each, or share ``sites`` of them.
    """
    check_degree(p, "parasplit")
    check_degree(q, "parasplit")
    check_size(p + q * (1 if fun is None else 2), f"parasplit({p}, {q})")
    functions = _functions(rfn, bfn, "parasplit")
    vertices, placed, streams = _routers(p, routers or (p,))
    split = []
    for stream in streams:
        vertex, site = _splitter(q, functions, stream)
        vertices.append(vertex)
        placed.append(site)
        split.append(vertex.streams)
    outputs: list[str] = []
    shared = _compute_sites(q, sites, "parasplit")
    for number in range(q):
        inner, output = _processor(tuple(one[number] for one in split), fun, params, shared[number % len(shared)].id)
        vertices += inner
        check_size(len(vertices), f"parasplit({p}, {q})")
        outputs.append(output)
    return renamed(DataFlow(1, tuple(outputs), tuple(vertices), (*placed, *shared), f"parasplit({p}, {q})"))


def mapstream(fun: Fun, params: Params = None, w: int = 2, sites: int | None = None) -> DataFlow:
    """The same function on each of ``w`` streams; ``"#"`` in the parameters is the number of the stream.

    Each has a site (or sites) of its own, or they share ``sites`` of them.
    """
    flow = replace(parallel(w, fun, params), template=f"mapstream({w})")
    if sites is None:
        return flow
    shared = _compute_sites(w, sites, "mapstream")
    branch = {site.id: shared[number * w // len(flow.sites) % len(shared)].id for number, site in enumerate(flow.sites)}
    vertices = tuple(replace(vertex, site=branch[vertex.site]) for vertex in flow.vertices)
    return renamed(replace(flow, vertices=vertices, sites=tuple(shared)))


def mergestream(w: int, kind: str = "ordered", **params: Any) -> DataFlow:
    """``w`` streams into one.

    ``ordered``: in the order of the stream they come from, or by timestamp if they come from several. ``union``: as
    they arrive, without waiting for each other. ``join``: one window for each value of ``key`` that all streams have.
    ``aggregate``: one window for each time and value of ``key``. The parameters are those of the functions ``S-Merge``,
    ``union``, ``key_join`` and ``key_aggregate``.
    """
    if kind not in MERGES:
        raise UnknownName("kind of mergestream", str(kind)[:80], MERGES)
    return replace(central(MERGES[kind], params, w), template=f"mergestream({w}, {kind})")


MERGES: Mapping[str, str] = {
    "ordered": "S-Merge",
    "union": "union",
    "join": "key_join",
    "aggregate": "key_aggregate",
}


def _parasplit_plan(w: int, rfn: Route, bfn: Route = None, p: int = 2, **options: Any) -> DataFlow:
    return parasplit(p, w, rfn, bfn, **options)


PLANS: Mapping[str, Callable[..., DataFlow]] = {
    "fsplit": fsplit,
    "exptree": exptree,
    "maxtree": maxtree,
    "autosplit": autosplit,
    "parasplit": _parasplit_plan,
}


TEMPLATES.add_builtin(splitstream, fsplit, splittree, exptree, maxtree, autosplit, parasplit, mapstream, mergestream)


def _functions(rfn: Route, bfn: Route, place: str) -> dict[str, Any]:
    """Parameters of splitters, as plain JSON."""
    if rfn is None and bfn is None:
        raise FlowError(place, "needs a routing function rfn, a broadcasting function bfn, or both")
    return {name: json_value(route_value(given, name), place) for name, given in (("rfn", rfn), ("bfn", bfn))}


def _vertex(function: str, w: int, params: Mapping[str, Any], source: int | str) -> tuple[Vertex, Site]:
    site = Site(fresh_id("partition"), "partition")
    vertex = Vertex(fresh_id(function), function_reference(function), {"w": w, **params}, (source,), site.id, w)
    return vertex, site


def _splitter(
    w: int, functions: Mapping[str, Any], source: int | str, total: int | None = None, below: int = 1
) -> tuple[Vertex, Site]:
    return _vertex("split", w, {**functions, "total": total, "below": below}, source)


def _tree(fanouts: Sequence[int], w: int, functions: Mapping[str, Any], template: str) -> DataFlow:
    check_degree(w, template)
    for fanout in fanouts:
        check_degree(fanout, f"{template}, fanouts")
    levels = cumulative_fanouts(fanouts)
    if levels[-1] < w:
        raise FlowError(template, f"has {levels[-1]} outputs, fewer than {w}")
    check_size(sum(levels[:-1]), template)
    vertices: list[Vertex] = []
    sites: list[Site] = []
    streams: dict[int, int | str] = {0: 0}  # by rfn mod λ, for the level at hand
    for below, fanout in zip(levels, fanouts, strict=False):
        reached: dict[int, int | str] = {}
        for place, stream in streams.items():
            leaves = range(place, min(w, below * fanout), below)  # outputs, or what they are modulo the next λ
            if len(leaves) == 1 and w > 1:
                reached[place] = stream
                continue
            vertex, site = _splitter(len(leaves), functions, stream, w, below)
            vertices.append(vertex)
            sites.append(site)
            reached |= zip(leaves, vertex.streams, strict=True)
        streams = reached
    outputs = tuple(str(streams[number]) for number in range(w))
    return renamed(DataFlow(1, outputs, tuple(vertices), tuple(sites), template))


def _routers(p: int, fanouts: Sequence[int]) -> tuple[list[Vertex], list[Site], list[int | str]]:
    """A tree of window routers, and its ``p`` streams."""
    for fanout in fanouts:
        check_degree(fanout, "parasplit, routers")
    if prod(fanouts) != p:
        raise FlowError("parasplit, routers", f"fanouts {list(fanouts)} give {prod(fanouts)} streams, not p = {p}")
    vertices: list[Vertex] = []
    sites: list[Site] = []
    streams: list[int | str] = [0]
    for below, fanout in zip(cumulative_fanouts(fanouts), fanouts, strict=False):
        reached: list[int | str] = []
        for stream in streams:
            vertex, site = _vertex("route", fanout, {"below": below}, stream)
            vertices.append(vertex)
            sites.append(site)
            reached += vertex.streams
        streams = reached
    return vertices, sites, streams


def _compute_sites(processors: int, sites: int | None, place: str) -> list[Site]:
    if sites is not None:
        check_degree(sites, f"{place}, sites")
    return [Site(fresh_id("compute"), "compute") for _ in range(min(sites or processors, processors))]


def _processor(streams: tuple[str, ...], fun: Fun | None, params: Params, site: str) -> tuple[list[Vertex], str]:
    """A query processor: the merge of what the splitters send it, and the function; and its result stream."""
    merge = Vertex(fresh_id("S-Merge"), function_reference("S-Merge"), {"timeout": None}, streams, site)
    if fun is None:
        return [merge], merge.id
    query = expanded(fun, params, 1, "parasplit, fun")
    if query.arity != 1 or query.width != 1:
        raise FlowError("parasplit, fun", f"needs arity 1 and width 1, has {query.arity} and {query.width}")
    inner = [
        replace(v, inputs=tuple(s if isinstance(s, str) else merge.id for s in v.inputs), site=site)
        for v in query.vertices
    ]
    return [merge, *inner], query.outputs[0]

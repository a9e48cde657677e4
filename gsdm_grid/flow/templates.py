"""Distribution templates: constructors of data flows (thesis 3.4, algorithms 1–8).

``central``, ``partition``, ``parallel``, ``pipe``, ``lpipe`` and ``PCC`` (partition–compute–combine); those of the
splitstream family are in `splitting`. Wherever a
template takes a function it also takes a data flow, or the name of another template with its arguments as the
parameters: ``PCC(2, "RRpart", "PCC", [2, "RRpart", "fft3", {}, "S-Merge"], "S-Merge")`` is a tree. `build` does the
same from JSON. Names of templates, also of people's own, are in `template_registry`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from gsdm_grid.errors import FlowError, UnknownName
from gsdm_grid.flow.graph import (
    DataFlow,
    Site,
    SiteRole,
    Vertex,
    copied,
    fresh_id,
    renamed,
    vertex_params,
    with_references,
)
from gsdm_grid.flow.template_registry import TEMPLATES, Template
from gsdm_grid.functions import StreamFunction, functions, reference, undeclared

Fun = str | StreamFunction | Template | DataFlow
Params = Any
BRANCH = "#"
MAX_VERTICES = 10_000
_limit: ContextVar[int] = ContextVar("_limit", default=MAX_VERTICES)


def central(fun: Fun, params: Params = None, inputs: int = 1) -> DataFlow:
    """One function on one site."""
    return renamed(expanded(fun, params, inputs, "central"))


def partition(n: int, fun: Fun, params: Params = None) -> DataFlow:
    """Split one stream in ``n`` by a partitioning function, all on one site."""
    check_degree(n, "partition")
    site = Site(fresh_id("partition"), "partition")
    parts = []
    for i in range(n):
        part = expanded(fun, _partition_params(fun, n, i, params), 1, f"partition({n}), part {i}")
        check_size(n * len(part.vertices), f"partition({n})")
        parts.append(part)
    moved = [replace(part, sites=(site,), vertices=_moved(part, site.id)) for part in parts]
    merged = _side_by_side(moved, shared=True)
    return renamed(replace(merged, template=f"partition({n}, {_name(fun)})"))


def parallel(n: int, fun: Fun, params: Params = None) -> DataFlow:
    """The same function on ``n`` streams, each on a site of its own; ``"#"`` in the parameters is the branch number.

    Where templates nest, it is the branch of the innermost `parallel`, however the nested one is written.
    """
    check_degree(n, "parallel")
    branches = []
    for i in range(n):
        nested = TEMPLATES.find(fun) is not None  # fills in its own branch numbers first
        branch = expanded(fun, params if nested else _substituted(params, i), 1, f"parallel({n}), branch {i}")
        check_size(n * len(branch.vertices), f"parallel({n})")
        branch = copied(branch, lambda value, i=i: _substituted(value, i))  # type: ignore[misc]
        if branch.arity != 1 or branch.width != 1:
            raise FlowError(
                f"parallel({n}), branch {i}",
                f"a branch needs arity 1 and width 1, {_name(fun)} has arity {branch.arity} and width {branch.width}",
            )
        branches.append(branch)
    return renamed(replace(_side_by_side(branches), template=f"parallel({n}, {_name(fun)})"))


def pipe(*stages: Any) -> DataFlow:
    """Stages one after the other, each on its own site(s): functions (with parameters behind them) or data flows.

    ``pipe("fft3", {}, "polarize", {})`` and ``pipe(central("fft3"), "polarize")`` are the same.
    """
    return renamed(_chained(_stages(stages, "pipe"), "pipe"))


def lpipe(*stages: Any) -> DataFlow:
    """As `pipe`, but everything on one site: windows pass through memory."""
    flow = _chained(_stages(stages, "lpipe"), "lpipe")
    site = Site(fresh_id("compute"), "compute")
    return renamed(replace(flow, sites=(site,), vertices=_moved(flow, site.id), template="lpipe"))


def PCC(
    n: int,
    partfun: Fun | tuple[Fun, Params],
    fun: Fun,
    params: Params,
    combfun: Fun,
    combparams: Params = None,
) -> DataFlow:
    """Partition, compute in parallel, combine (thesis 3.4.5).

    The partitioning function may come with parameters of its own: ``("hashpart", {"key": "id"})``.
    """
    check_degree(n, "PCC")
    check_size(2 * n + 1, f"PCC({n})")  # at least: said before all of them are built
    part, part_params = partfun if isinstance(partfun, tuple) else (partfun, None)
    stages = [partition(n, part, part_params), parallel(n, fun, params), central(combfun, combparams, n)]
    template = f"PCC({n}, {_name(part)}, {_name(fun)}, {_name(combfun)})"
    return renamed(replace(_chained(stages, f"PCC({n})"), template=template))


def parallelize(fun: str | StreamFunction, params: Params, strategy: str, n: int) -> DataFlow:
    """The PCC of a function by one of its registered strategies, such as ``window_distribute``."""
    function = functions.get(fun)
    chosen = function.strategy(strategy)
    if chosen is None:
        raise undeclared(function, strategy)
    if chosen.degrees is not None and n not in chosen.degrees:
        raise FlowError(f"{strategy} of {function.name!r}", f"degree {n} is not valid; valid: {list(chosen.degrees)}")
    part_params, comb_params = chosen.resolve(function.bind(params))
    return PCC(n, (chosen.partition, part_params), function, params, chosen.combine, comb_params)


TEMPLATES.add_builtin(central, partition, parallel, pipe, lpipe, PCC, parallelize)


def build(spec: Any) -> DataFlow:
    """A data flow from its specification in JSON: a function name, ``{"template": …, "args": […]}``, or a full graph.

    Arguments may themselves be specifications; keyword arguments stand beside ``template``:

    >>> print(build({"template": "PCC", "args": [2, "RRpart", "fft3", {}, "S-Merge"]}).width)
    1
    """
    if isinstance(spec, str):
        return central(spec)
    if not isinstance(spec, Mapping):
        got = type(spec).__name__
        raise FlowError("data flow", f"expected a function name or a mapping with 'template', got {got}")
    if "vertices" in spec:
        if isinstance(spec["vertices"], Sequence):
            check_size(len(spec["vertices"]), "data flow")
        return with_references(DataFlow.from_json(spec))
    name = str(spec.get("template"))
    args = [_built(value) for value in spec.get("args", [])]
    named = {key: _built(value) for key, value in spec.items() if key not in ("template", "args")}
    return TEMPLATES[name].build(args, named)


def _built(value: Any) -> Any:
    return build(value) if isinstance(value, Mapping) and ("template" in value or "vertices" in value) else value


def _name(fun: Any) -> str:
    return fun if isinstance(fun, str) else fun.template or "flow" if isinstance(fun, DataFlow) else fun.name


def check_degree(n: Any, template: str) -> None:
    """Refuse what is no degree of parallelism."""
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise FlowError(template, f"the degree must be a whole number of at least 1, got {n!r}")
    check_size(n, template)


def check_size(vertices: int, template: str) -> None:
    """Refuse what nobody means before it fills the memory."""
    if vertices > _limit.get():
        raise FlowError(template, f"would have {vertices} vertices; at most {_limit.get()} are allowed")


@contextmanager
def at_most(vertices: int) -> Iterator[None]:
    """While it lasts, templates refuse to build data flows of more vertices."""
    token = _limit.set(vertices)
    try:
        yield
    finally:
        _limit.reset(token)


def expanded(fun: Any, params: Params, arity: int, place: str) -> DataFlow:
    """A function as a flow of one vertex; a template name applied to ``params``; a flow as it is (algorithm 3)."""
    if isinstance(fun, DataFlow):
        if params:
            raise FlowError(place, "a data flow takes no parameters: give them where it is built")
        return copied(fun)
    if (template := TEMPLATES.find(fun)) is not None:
        return copied(template.build(*_arguments(params), place))
    if not isinstance(fun, str | StreamFunction):
        raise FlowError(place, f"expected a function, a template or a data flow, got {type(fun).__name__}")
    try:
        function = functions.get(fun)
    except UnknownName as error:
        raise error.at(place) from None
    bound = vertex_params(function, function.bind(params, place), place)
    _check_arity(function, arity, place)
    site = Site(fresh_id(_role(function)), _role(function))
    width = function.width(bound)
    vertex = Vertex(fresh_id(function.name), reference(function), bound, tuple(range(arity)), site.id, width)
    return DataFlow(arity, vertex.streams, (vertex,), (site,), f"central({function.name})")


def _arguments(params: Params) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Arguments of a nested template: in order, by name, or one alone."""
    if params is None:
        return (), {}
    if isinstance(params, Mapping):
        return (), params
    if isinstance(params, list | tuple | set | frozenset):
        return tuple(params), {}
    return (params,), {}


def _check_arity(function: StreamFunction, arity: int, place: str) -> None:
    if function.kind in ("combine", "routing"):
        user = {"combine": "OS-Join", "routing": "splitstream"}[function.kind]
        raise FlowError(place, f"{function.name!r} is about windows, not streams: it is a parameter of {user}")
    if function.kind != "combining" and arity != 1:
        raise FlowError(place, f"{function.name!r} is a {function.kind} function of one stream, but gets {arity}")


def _role(function: StreamFunction) -> SiteRole:
    roles: dict[str, SiteRole] = {"partitioning": "partition", "combining": "combine"}
    return roles.get(function.kind, "compute")


def _partition_params(fun: Fun, n: int, i: int, params: Params) -> Params:
    if isinstance(fun, DataFlow):
        return None
    if isinstance(fun, Template) or fun in TEMPLATES:
        return [n, i, *(params or [])]
    try:
        function = functions.get(fun)
    except UnknownName as error:
        raise error.at(f"partition({n})") from None
    names = [parameter.name for parameter in function.parameters]
    if names[:2] != ["n", "i"]:
        they = ", ".join(names[:2]) or "none"
        raise FlowError(
            f"partition({n})",
            f"{function.name!r} is no partitioning function: its first parameters must be 'n' and 'i', they are {they}",
        )
    if params is None or isinstance(params, Mapping):
        return {"n": n, "i": i, **(params or {})}
    return [n, i, *(params if isinstance(params, list | tuple) else [params])]


def _substituted(value: Any, branch: int) -> Any:
    """The value with every ``"#"`` replaced by the branch number."""
    if isinstance(value, str):
        return branch if value == BRANCH else value
    if isinstance(value, Mapping):
        return {key: _substituted(item, branch) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_substituted(item, branch) for item in value]
    return value


def _stages(given: Sequence[Any], place: str) -> list[DataFlow]:
    stages: list[DataFlow] = []
    vertices = 0
    rest = deque(given)
    while rest:
        fun = rest.popleft()
        params = None
        if rest and not isinstance(rest[0], str | StreamFunction | Template | DataFlow):
            params = rest.popleft()
        arity = stages[-1].width if stages else 1
        stages.append(expanded(fun, params, arity, f"{place}, stage {len(stages)}"))
        vertices += len(stages[-1].vertices)
        check_size(vertices, place)
    if len(stages) < 2:
        raise FlowError(place, f"needs at least two stages, got {len(stages)}")
    return stages


def _chained(stages: Sequence[DataFlow], place: str) -> DataFlow:
    """Outputs of each stage become the inputs of the next (algorithm 7)."""
    first = copied(stages[0])
    vertices, sites, outputs = list(first.vertices), list(first.sites), first.outputs
    for number, stage in enumerate(stages[1:], 1):
        if len(outputs) != stage.arity:
            raise FlowError(f"{place}, stage {number}", f"takes {stage.arity} streams, but gets {len(outputs)}")
        following = copied(stage)
        for vertex in following.vertices:
            inputs = tuple(source if isinstance(source, str) else outputs[source] for source in vertex.inputs)
            vertices.append(replace(vertex, inputs=inputs))
        sites += following.sites
        outputs = following.outputs
    return DataFlow(first.arity, outputs, tuple(vertices), tuple(sites), place)


def _side_by_side(flows: Sequence[DataFlow], shared: bool = False) -> DataFlow:
    """Flows beside each other, each with an input of its own, or all sharing input 0."""
    vertices: list[Vertex] = []
    sites: dict[Site, None] = {}
    outputs: list[str] = []
    for number, flow in enumerate(flows):
        shift = 0 if shared else number
        vertices += [
            replace(v, inputs=tuple(s if isinstance(s, str) else s + shift for s in v.inputs)) for v in flow.vertices
        ]
        sites |= dict.fromkeys(flow.sites)
        outputs += flow.outputs
    return DataFlow(1 if shared else len(flows), tuple(outputs), tuple(vertices), tuple(sites))


def _moved(flow: DataFlow, site: str) -> tuple[Vertex, ...]:
    return tuple(replace(vertex, site=site) for vertex in flow.vertices)

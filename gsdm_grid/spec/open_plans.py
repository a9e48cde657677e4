"""The plan of a query's document, where it is left open: what there is to plan, and the document with another plan.

Documents are changed as they were written, and stay documents: nothing that they name is looked at but functions and
templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gsdm_grid.errors import FlowError
from gsdm_grid.flow import TEMPLATES
from gsdm_grid.functions import functions
from gsdm_grid.optimizer import Stage, Work, stages_of
from gsdm_grid.spec.document_model import checked

MAX_DEPTH = 64


def work_of(document: Mapping[str, Any]) -> Work | None:
    """The functions whose plan a document leaves open: one, or those of a pipe; None if its flow says all."""
    if document.get("function") is not None:
        refuse_code(document.get("params"), "params")
        return (Stage.of(checked(str, document["function"], "function"), document.get("params")),)
    flow = document.get("flow")
    if isinstance(flow, str):
        return (Stage.of(flow),)
    if (
        not isinstance(flow, Mapping)
        or flow.get("template") not in ("pipe", "lpipe")
        or set(flow) - {"template", "args"}
    ):
        return None
    refuse_code(flow, "flow")
    stages: list[Stage] = []
    for part in checked(list[Any], flow.get("args"), "flow.args"):
        if isinstance(part, str):
            stages.append(Stage.of(part))
        elif stages and stages[-1].params is None and not (isinstance(part, Mapping) and "template" in part):
            stages[-1] = Stage(stages[-1].function, part)
        else:
            return None
    return tuple(stages) if len(stages) > 1 else None


def with_degree(document: Mapping[str, Any], degree: int) -> dict[str, Any]:
    """The document of the same query with another degree of parallelism, of its outermost template that has one."""
    if document.get("function") is not None:
        plan = document.get("plan", "central")
        strategy = plan.get("strategy") if isinstance(plan, Mapping) else None
        if strategy is None:
            strategies = functions.get(checked(str, document["function"], "function")).strategies
            if not strategies:
                raise FlowError("function", f"{document['function']!r} has no valid parallel strategy")
            strategy = strategies[0].name
        return {**document, "plan": {"strategy": strategy, "degree": degree}}
    return {**document, "flow": _with_degree(document.get("flow"), degree)}


def with_plan(document: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The document of the same query with another plan and size of physical windows."""
    return {**without_plan(document), **{name: value for name, value in chosen.items() if value is not None}}


def without_plan(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document of the same query with its plan left open; a `FlowError` says why that cannot be done."""
    open_document = {name: value for name, value in document.items() if name != "plan"}
    if work_of(document) is not None:
        return open_document
    flow = open_document.pop("flow", None)
    refuse_code(flow, "flow")
    stages = stages_of(flow)
    if len(stages) == 1:
        function = {"function": stages[0].function.name, "params": stages[0].params or None}
        return {**open_document, **{name: value for name, value in function.items() if value is not None}}
    args = [part for stage in stages for part in (stage.function.name, stage.params or {})]
    return {**open_document, "flow": {"template": "pipe", "args": args}}


def _with_degree(flow: Any, degree: int) -> dict[str, Any]:
    """The degree of parasplit is the number of its window splitters, also where it is a stage of a pipe; that of a
    person's template is its parameter ``n``.
    """
    template = flow.get("template") if isinstance(flow, Mapping) else None
    places = {"PCC": ("n", 0), "parallelize": ("n", 3), "parasplit": ("p", 0)} | _own_degree(template)
    if template == "pipe":
        stages = list(flow.get("args", []))
        for number, stage in enumerate(stages):
            if isinstance(stage, Mapping) and stage.get("template") == "parasplit":
                return {**flow, "args": [*stages[:number], _with_degree(stage, degree), *stages[number + 1 :]]}
    if template not in places:
        got = f"template {template!r}" if template else "a plain function or graph"
        raise FlowError("flow", f"has no degree of parallelism: it is {got}, not {' or '.join(places)}")
    name, place = places[template]
    args = list(flow.get("args", []))
    if len(args) > place:
        args[place] = degree
        return {**flow, "args": args}
    return {**flow, name: degree}


def _own_degree(name: Any) -> dict[str, tuple[str, int]]:
    """By the name of a person's template, the parameter that is its degree, and its place."""
    template = TEMPLATES.find(name)
    parameters = [] if template is None or template.is_builtin else list(template.signature.parameters)
    return {str(name): ("n", parameters.index("n"))} if "n" in parameters else {}


def refuse_code(value: Any, place: str, depth: int = 0) -> None:
    """Function code comes from installed packages and uploaded bundles, never inside a specification."""
    if depth > MAX_DEPTH:
        raise FlowError(place, f"is nested more than {MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        if "code" in value:
            raise FlowError(place, "must not carry code: upload it as a bundle, and name its function")
        for key, item in value.items():
            refuse_code(item, f"{place}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            refuse_code(item, f"{place}[{number}]", depth + 1)

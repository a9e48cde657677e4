"""Bodies of requests as plain documents, from JSON or YAML. Whatever comes, the answer is a document or a problem.

YAML is taken as JSON in a friendlier form: mappings with text as keys, lists, text, numbers, booleans and null. It is
built from the parser's events, so that nothing in a document can make an object, and anchors, aliases and tags, which
make small documents large or mean something else than they show, are refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, TypeVar, get_args

import yaml
from anyio import to_thread
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from api.errors import Problem
from api.services import services_of
from gsdm_grid.spec import OUR_ERRORS, reason_of, steps_of

JSON_TYPES = ("application/json",)
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml")
MAX_VALUES = 100_000
"""Values in one document."""
_LARGEST = 2**63 - 1
_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_A_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}

Model = TypeVar("Model", bound=BaseModel)


async def parse_body(request: Request) -> dict[str, Any]:
    """The body of a request as a document."""
    media_type = media_type_of(request, (*JSON_TYPES, *YAML_TYPES))
    depth = services_of(request).settings.limits.depth
    content = await request.body()
    return await to_thread.run_sync(parse, content, media_type, depth)


async def parse_body_as(request: Request, model: type[Model]) -> Model:
    """The body of a request as a document of a known form."""
    document = await parse_body(request)
    try:
        return model.model_validate(document, strict=True)
    except ValidationError as error:
        listed = error.errors(include_url=False)[:20]
        found = [{"path": ".".join(map(str, steps_of(one))), "reason": _reason(one, model)} for one in listed]
        detail = "; ".join(f"{one['path']}: {one['reason']}" for one in found[:3])
        raise Problem("invalid-request", detail, errors=found) from None


def _reason(one: ErrorDetails, model: type[BaseModel]) -> str:
    """What is wrong, in a sentence; of a member that nobody knows, which ones are allowed beside it."""
    if one["type"] in OUR_ERRORS:
        return reason_of(one)
    if one["type"] != "extra_forbidden":
        return one["msg"]
    shape: type[BaseModel] | None = model
    for step in one["loc"][:-1]:
        shape = _inside(shape, step)
    allowed = ", ".join(shape.model_fields) if shape is not None else ""
    return f"is no known member; allowed: {allowed or 'none'}"


def _inside(shape: type[BaseModel] | None, step: int | str) -> type[BaseModel] | None:
    """The model behind a step of a path: of a member, also where that is a list of them or may be missing."""
    if not isinstance(step, str):
        return shape
    if shape is None or step not in shape.model_fields:
        return None
    waiting: list[Any] = [shape.model_fields[step].annotation]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
        waiting += get_args(kind)
    return None


def request_body(model: type[BaseModel]) -> dict[str, Any]:
    """For OpenAPI (``openapi_extra``): the body of a route that uses `parse_body_as`.

    Parts of the model must be described elsewhere in the document.
    """
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    content = {media_type: {"schema": schema} for media_type in (JSON_TYPES[0], YAML_TYPES[0])}
    return {"requestBody": {"required": True, "content": content}}


def media_type_of(request: Request, allowed: tuple[str, ...]) -> str:
    """The media type of a request's body, or the problem ``unsupported-media-type``."""
    given, _, parameters = request.headers.get("content-type", "").partition(";")
    media_type = given.strip().lower()
    charset = next((p.partition("=")[2] for p in parameters.split(";") if p.strip().lower().startswith("charset")), "")
    if media_type not in allowed:
        detail = f"Content-Type must be one of {', '.join(allowed)}; got {media_type[:80] or 'none'!r}"
        raise Problem("unsupported-media-type", detail, allowed=list(allowed))
    if charset.strip(" \"'").lower() not in ("", "utf-8", "utf8", "us-ascii"):
        raise Problem("unsupported-media-type", "the body must be UTF-8", allowed=list(allowed))
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem("unsupported-media-type", "the body must not be compressed", allowed=list(allowed))
    return media_type


def parse(content: bytes, media_type: str, depth: int) -> dict[str, Any]:
    """A document from its text. Raises nothing but `Problem`."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _wrong(f"the body is not UTF-8: byte {error.start} cannot be read") from None
    document = _from_yaml(text, depth) if media_type in YAML_TYPES else _from_json(text, depth)
    if not isinstance(document, dict):
        raise _wrong(f"the body must be a mapping, got {_kind(document)}")
    return document


def _wrong(reason: str) -> Problem:
    return Problem("invalid-request", reason)


def _too_deep(depth: int) -> Problem:
    return _wrong(f"the document is nested more than {depth} deep")


# -- JSON -----------------------------------------------------------------------------------------------------------


def _from_json(text: str, depth: int) -> Any:
    try:
        document = json.loads(
            text,
            object_pairs_hook=_mapping,
            parse_constant=_refuse_number,
            parse_int=_integer,
            parse_float=_float,
        )
    except json.JSONDecodeError as error:
        raise _wrong(f"the body is not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise _too_deep(depth) from None
    _check(document, depth)
    return document


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _wrong(f"key {twice[:80]!a} stands twice in one mapping")
    return made


def _check(document: Any, depth: int) -> None:
    level = [document]
    count = 0
    for _ in range(depth + 1):
        count += len(level)
        if count > MAX_VALUES:
            raise _wrong(f"the document holds more than {MAX_VALUES} values")
        level = [inner for item in level for inner in _checked_parts(item)]
        if not level:
            return
    raise _too_deep(depth)


def _checked_parts(item: Any) -> Iterator[Any]:
    if isinstance(item, str):
        _text(item)
    elif isinstance(item, list):
        yield from item
    elif isinstance(item, dict):
        for key in item:
            _text(key)
        yield from item.values()


# -- YAML -----------------------------------------------------------------------------------------------------------


def _from_yaml(text: str, depth: int) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _build(yaml.parse(text, Loader=loader), depth)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise _wrong(f"the body is not YAML: {error.problem or error.context}{place}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise _wrong(f"the body is not YAML: {str(error).splitlines()[0][:200]}") from None
    except RecursionError:
        raise _too_deep(depth) from None


class _Open:
    """A list or mapping whose end has not come yet."""

    def __init__(self, made: list[Any] | dict[str, Any]) -> None:
        self.made = made
        self.key: str | None = None

    def add(self, value: Any, place: str) -> None:
        if isinstance(self.made, list):
            self.made.append(value)
        elif self.key is not None:
            self.made[self.key] = value
            self.key = None
        elif not isinstance(value, str):
            raise _wrong(f"keys must be text, got {_kind(value)}{place}")
        elif value in self.made:
            raise _wrong(f"key {value[:80]!a} stands twice in one mapping{place}")
        else:
            self.key = value


def _build(events: Iterator[Any], depth: int) -> Any:
    root: list[Any] = []
    stack = [_Open(root)]
    documents = count = 0
    for event in events:
        place = f" (line {event.start_mark.line + 1})" if event.start_mark else ""
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise _wrong(f"the body must be one YAML document{place}")
        elif isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _wrong(f"YAML anchors and aliases are not taken{place}")
        elif isinstance(event, yaml.NodeEvent):
            count += 1
            if count > 2 * MAX_VALUES:
                raise _wrong(f"the document holds more than {MAX_VALUES} values")
            if getattr(event, "tag", None) is not None:
                raise _wrong(f"YAML tags are not taken{place}")
            if isinstance(event, yaml.ScalarEvent):
                stack[-1].add(_scalar(event), place)
                continue
            opened = _Open([] if isinstance(event, yaml.SequenceStartEvent) else {})
            stack[-1].add(opened.made, place)
            stack.append(opened)
            if len(stack) > depth + 1:
                raise _too_deep(depth)
        elif isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
    return root[0] if root else None


def _scalar(event: yaml.ScalarEvent) -> Any:
    """The value of a scalar by the core schema of YAML 1.2: ``no`` is text, and so are dates."""
    value: str = event.value
    if not event.implicit[0]:  # quoted
        return _text(value)
    if value in _WORDS:
        return _WORDS[value]
    if _INTEGER.fullmatch(value):
        return _integer(value)
    if _FLOAT.fullmatch(value):
        return _float(value)
    if _NOT_A_NUMBER.fullmatch(value):
        return _refuse_number(value)
    return _text(value)


# -- values ---------------------------------------------------------------------------------------------------------


def _integer(digits: str) -> int:
    if len(digits) <= 20 and abs(number := int(digits)) <= _LARGEST:
        return number
    raise _wrong(f"the number {digits[:24]}… is too large: whole numbers go up to ±{_LARGEST}")


def _float(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse_number(digits[:24])


def _refuse_number(name: str) -> Any:
    raise _wrong(f"{name!r} is not a number that documents may hold")


def _text(value: str) -> str:
    if "\0" in value:
        raise _wrong("text must not hold the character NUL")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise _wrong(f"text must not hold half a surrogate pair: {value[:40]!a}") from None
    return value


def _kind(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "text", bool: "a boolean", type(None): "nothing"}
    return names.get(type(value), "a number")

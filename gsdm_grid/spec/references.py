"""What a query's document names: registered sources and sinks, stream types, interfaces, functions, templates. Pure.

Only places that name such a thing count: a label, a stream's own name or an option with the same text does not.
Documents need not be valid any more: what a stored query names is asked before that thing is removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

Kind = Literal["source", "sink", "type", "interface", "function"]


def names(document: Mapping[str, Any], kind: Kind) -> set[str]:
    """The names of this kind that a document uses.

    >>> query = {"inputs": ["antenna"], "function": "lib.f", "labels": {"place": "north"}}
    >>> names(query, "source"), names(query, "function"), names(query, "sink")
    ({'antenna'}, {'lib.f'}, set())
    """
    inputs, outputs = (_streams(document.get(key)) for key in ("inputs", "outputs"))
    if kind == "source":
        return set(_registered(inputs, "source"))
    if kind == "sink":
        return set(_registered(outputs, "sink"))
    if kind == "type":
        return {name for stream in (*inputs, *outputs) for name in _types(stream)}
    if kind == "interface":
        return set(_registered([stream for stream in (*inputs, *outputs) if isinstance(stream, Mapping)], kind))
    # functions and templates may be parameters of others, such as what combines parts
    return {text for key in ("function", "params", "flow") for text in _texts(document.get(key))}


def _streams(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []


def _registered(streams: list[Any], kind: str) -> Iterator[str]:
    for stream in streams:
        name = stream.get(kind) if isinstance(stream, Mapping) else stream
        if isinstance(name, str):
            yield name


def _types(stream: Any) -> Iterator[str]:
    given = stream.get("type") if isinstance(stream, Mapping) else None
    name = given.get("under") if isinstance(given, Mapping) else given  # a type of the query's own, under another
    if isinstance(name, str):
        yield name


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)

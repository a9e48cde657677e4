"""A coordinator's query as a document that stands by itself: what it names at the coordinator is written into it.

What this process knows, such as the built-in stream types, stays a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gsdm_grid.errors import QueryError
from gsdm_grid.model import stream_types

if TYPE_CHECKING:
    from gsdm_grid.client import Client

STREAM = ("type", "interface", "options")


def self_contained(specification: Mapping[str, Any], client: Client) -> dict[str, Any]:
    """A stored specification with its registered sources, sinks, segments and stream types in full."""
    inputs = [_input(one, client) for one in specification.get("inputs", [])]
    document = {**specification, "inputs": inputs}
    if specification.get("outputs") is not None:
        document["outputs"] = [_output(one, client) for one in specification["outputs"]]
    return document


def _input(given: Any, client: Client) -> Any:
    document = {"source": given} if isinstance(given, str) else dict(given)
    if (name := document.get("source")) is not None:
        document = {"name": document.get("name", name), **_stream(_named(client.sources(), "source", name))}
    elif (segment := document.get("segment")) is not None:  # the recording lies at the coordinator: read what it is of
        document = {**_stream(client.segment(segment).document["source"]), **_name_of(document)}
    return _with_type(document, client)


def _output(given: Any, client: Client) -> Any:
    document = {"sink": given} if isinstance(given, str) else dict(given)
    if (name := document.get("sink")) is not None:
        document = {"name": document.get("name", name), **_stream(_named(client.sinks(), "sink", name))}
    return _with_type(document, client)


def _name_of(document: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": document["name"]} if "name" in document else {}


def _stream(registered: Mapping[str, Any]) -> dict[str, Any]:
    return {key: registered[key] for key in STREAM if registered.get(key) is not None}


def _named(listed: Any, kind: str, name: str) -> Mapping[str, Any]:
    for one in listed:
        if one["name"] == name:
            return dict(one)
    raise QueryError(f"the coordinator has no {kind} {name!r}")


def _with_type(document: dict[str, Any], client: Client) -> dict[str, Any]:
    name = document.get("type")
    if not isinstance(name, str) or name in stream_types.names():
        return document
    registered = {one["name"]: one for one in client.types()}
    return {**document, "type": type_document(name, registered, stream_types.names())}


def type_document(name: str, registered: Mapping[str, Mapping[str, Any]], known: Any) -> dict[str, Any]:
    """A registered type as a document under a type that is known here, with all attributes that it adds to that one.

    >>> car = {"name": "Car", "under": "Stream", "attributes": {"vid": "int32"}}
    >>> taxi = {"name": "Taxi", "under": "Car", "attributes": {"fare": "float64"}}
    >>> type_document("Taxi", {"Car": car, "Taxi": taxi}, ["Stream"])
    {'name': 'Taxi', 'under': 'Stream', 'attributes': {'vid': 'int32', 'fare': 'float64'}}
    """
    attributes: dict[str, str] = {}
    under: str | None = name
    while under is not None and under not in known:
        if under not in registered:
            raise QueryError(f"the coordinator has no stream type {under!r}")
        attributes = {**registered[under]["attributes"], **attributes}
        under = registered[under]["under"]
    return {"name": name, "under": under or "Stream", "attributes": attributes}

"""What models of documents have in common: what they take, and what they say of the rest."""

from typing import Annotated

import numpy as np
import pytest
from pydantic import Field

from gsdm_grid.errors import FlowError, UnknownName
from gsdm_grid.spec import DocumentModel, QuerySpecification, checked, query_options
from gsdm_grid.spec.document_model import COMPOSED, PLAIN, NameOf, Reason, plain_unless

Share = Annotated[float, Field(gt=0, lt=1), Reason("must be a share between 0 and 1")]


class Pool(DocumentModel):
    """Something to be described."""

    name: str
    hosts: Annotated[int, Field(ge=1, le=8), Reason("must be a whole number")] = 1
    share: Share | None = None
    kind: Annotated[str, NameOf("kind of host", ("ray", "spark"))] = "ray"


class Pools(DocumentModel):
    """Something that has parts."""

    pools: list[Pool] = Field(default_factory=list)
    by_role: dict[str, Annotated[Annotated[str, PLAIN] | Annotated[Pool, COMPOSED], plain_unless()]] = Field(
        default_factory=dict
    )
    on: bool = False


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (3, "pools: expected a mapping, got int"),
        (None, "pools: expected a mapping, got nothing"),
        ({3: 4}, "pools: keys must be text, got 3"),
        ({"pool": []}, "pools: has no member 'pool'; allowed: pools, by_role, on"),
        ({"pools": {}}, "pools: expected a list, got dict"),
        ({"on": 1}, "on: expected true or false, got int"),
        ({"pools": [{}]}, "pools[0].name: expected text, got nothing"),
        ({"pools": [{"name": "a"}, {"name": 3}]}, "pools[1].name: expected text, got int"),
        ({"pools": [{"name": "a", "hosts": 9}]}, "pools[0].hosts: must be a whole number from 1 to 8, got 9"),
        ({"pools": [{"name": "a", "hosts": True}]}, "pools[0].hosts: must be a whole number from 1 to 8, got True"),
        ({"pools": [{"name": "a", "share": 1}]}, "pools[0].share: must be a share between 0 and 1, got 1"),
        ({"pools": [{"name": "a", "kind": 3}]}, "pools[0].kind: expected text, got int"),
        ({"by_role": {"source": {"name": "a", "host": 1}}}, "by_role.source: has no member 'host'; allowed: name, "),
        ({"by_role": {"a.b": {"name": 1}}}, "by_role.a.b.name: expected text, got int"),
        ({"by_role": {"source": 3}}, "by_role.source: expected text, got int"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_what_came_and_what_is_allowed(document, error):
    with pytest.raises(FlowError) as refused:
        checked(Pools, document, whole="pools")
    assert str(refused.value).startswith(error)


def test_a_place_in_front_is_the_beginning_of_the_path():
    with pytest.raises(FlowError, match=r"^resources\.pools\[0\]\.hosts: must be"):
        checked(Pools, {"pools": [{"name": "a", "hosts": 0}]}, "resources")
    with pytest.raises(FlowError, match=r"^resources: has no member"):
        checked(Pools, {"x": 1}, "resources")


def test_an_unknown_name_says_what_is_similar_and_known():
    with pytest.raises(UnknownName) as refused:
        checked(Pools, {"pools": [{"name": "a", "kind": "sparc"}]})
    assert refused.value.place == "pools[0].kind"
    assert refused.value.similar == ("spark",)
    assert "did you mean 'spark'? known: ray, spark" in str(refused.value)


def test_large_bounds_are_said_as_people_write_them():
    count = Annotated[int, Field(ge=1, lt=2**62), Reason("must be a whole number")]
    with pytest.raises(FlowError, match=r"from 1 to 2\*\*62 - 1, got 0"):
        checked(count, 0, "count")
    seconds = Annotated[float, Field(ge=0.001, le=1e9), Reason("must be a number")]
    with pytest.raises(FlowError, match=r"from 0\.001 to 1e9, got nan"):
        checked(seconds, float("nan"), "time_s")


@pytest.mark.parametrize(("given", "taken"), [(1e6, 1_000_000), (5000.5, 5000), (np.int64(8192), 8192), (4096, 4096)])
def test_a_size_of_physical_windows_is_taken_as_a_whole_number(given, taken):
    assert query_options(block_bytes=given).block_bytes == taken


@pytest.mark.parametrize("given", [True, "8192", float("nan"), float("inf"), 2**70, 1e300, 4095.9])
def test_what_is_no_size_of_physical_windows_is_refused(given):
    with pytest.raises(FlowError, match="block_bytes: must be a whole number from 4096 to 268435456, got"):
        query_options(block_bytes=given)


def test_openapi_has_the_bounds_that_are_checked():
    schema = QuerySpecification.model_json_schema()
    parts, members = schema["$defs"], schema["properties"]
    assert schema["required"] == ["name", "inputs"]
    assert schema["additionalProperties"] is False
    assert members["block_bytes"]["anyOf"][0] == {"type": "integer", "minimum": 4096, "maximum": 1 << 28}
    assert members["placement"]["anyOf"][0]["enum"] == ["grid", "processes", "ray", "spark", "threads"]
    assert parts["Stop"]["properties"]["count"]["anyOf"][0]["exclusiveMaximum"] == 2**62
    assert parts["NeedsDocument"]["properties"]["cpus"]["maximum"] == 1e9
    assert members["inputs"]["items"]["anyOf"] == [{"type": "string"}, {"$ref": "#/$defs/InputDocument"}]

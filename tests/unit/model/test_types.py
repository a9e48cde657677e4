import json
import pickle

import numpy as np
import pytest

from gsdm_grid.errors import SchemaError, UnknownAttribute, UnknownName
from gsdm_grid.model import (
    STREAM,
    AttributeType,
    LogicalWindow,
    PhysicalWindow,
    StreamType,
    create_stream_type,
    seconds,
    stream_types,
)


@pytest.mark.parametrize(
    ("text", "dtype", "shape"),
    [
        ("bool", "bool", ()),
        ("int", "int64", ()),
        ("integer", "int64", ()),
        ("uint8", "uint8", ()),
        ("uint64", "uint64", ()),
        ("float", "float64", ()),
        ("real", "float64", ()),
        ("f4", "float32", ()),
        ("complex", "complex128", ()),
        (" complex64 ", "complex64", ()),
        ("timestamp", "timestamp", ()),
        ("string", "string", ()),
        ("vector of float32", "float32", None),
        ("vector  of  timestamp", "timestamp", None),
        ("vector[8192] of complex64", "complex64", (8192,)),
        ("vector[2, 3] of int16", "int16", (2, 3)),
        ("vector[4,] of bool", "bool", (4,)),
    ],
)
def test_attribute_type_is_read_from_text(text, dtype, shape):
    assert AttributeType.parse(text) == AttributeType(dtype, shape)


@pytest.mark.parametrize("name", [*["bool", "int8", "uint64", "float16", "complex128", "timestamp"]])
@pytest.mark.parametrize("form", ["{}", "vector of {}", "vector[7] of {}", "vector[2,3] of {}"])
def test_attribute_type_written_as_text_reads_back(name, form):
    kind = AttributeType.parse(form.format(name))
    assert str(kind) == form.format(name)
    assert AttributeType.parse(str(kind)) == kind
    assert pickle.loads(pickle.dumps(kind)) == kind


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "float128",
        "longdouble",
        "object",
        "S5",
        "f4,i4",
        "[",
        "é",
        "datetime64[ns]",
        "vector of string",
        "vector of",
        "vector[0] of int8",
        "vector[1 2] of int8",
        "vector[,] of int8",
        "vector[-1] of int8",
        "vector[99999999999999999999] of int8",
        "vector of vector of int8",
    ],
)
def test_attribute_type_that_makes_no_sense_is_refused(text):
    with pytest.raises(SchemaError) as caught:
        AttributeType.parse(text)
    assert repr(text) in str(caught.value)


def test_attribute_type_knows_how_its_values_vary():
    scalar, text, fixed, varying = map(AttributeType.parse, ["int8", "string", "vector[3] of int8", "vector of int8"])
    assert [kind.varies for kind in (scalar, text, fixed, varying)] == [False, True, False, True]
    assert [kind.is_scalar for kind in (scalar, text, fixed, varying)] == [True, False, False, False]
    assert [kind.is_string for kind in (scalar, text, fixed, varying)] == [False, True, False, False]


def test_stored_dtype_of_times_is_int64_and_of_strings_bytes():
    assert AttributeType("timestamp").numpy == np.int64
    assert AttributeType("string").numpy == np.uint8


def test_root_type_has_a_timestamp_only():
    assert dict(STREAM.attributes) == {"ts": AttributeType("timestamp")}
    assert stream_types.get("Stream") is STREAM


def test_subtype_inherits_attributes_before_its_own(registry):
    parent = create_stream_type("P", {"a": "int8"}, registry=registry)
    child = create_stream_type("C", {"b": "int8"}, under="P", registry=registry)
    assert list(child.attributes) == ["ts", "a", "b"]
    assert child.is_under(parent)
    assert child.is_under(STREAM)
    assert child.is_under(child)
    assert not parent.is_under(child)


def test_subtype_may_repeat_but_not_change_an_inherited_attribute(registry):
    parent = create_stream_type("P", {"a": "int8"}, registry=registry)
    assert list(create_stream_type("C", {"a": "int8"}, parent, registry).attributes) == ["ts", "a"]
    with pytest.raises(SchemaError, match=r"stream type 'D', attribute 'a': expected int8.*'P', got float32"):
        create_stream_type("D", {"a": "float32"}, parent, registry)


def test_attribute_kinds_can_be_given_as_numpy_dtypes_and_python_types(registry):
    made = create_stream_type(
        "T",
        {"a": np.float32, "b": int, "c": np.dtype("u2"), "d": str, "e": AttributeType("bool")},
        registry=registry,
    )
    assert [str(kind) for kind in made.attributes.values()] == [
        *("timestamp", "float32", "int64", "uint16", "string", "bool")
    ]


@pytest.mark.parametrize("kind", ["float33", "vector of string", None, object(), object, 3, "vector[1 2] of int8"])
def test_error_about_an_attribute_kind_names_type_and_attribute(registry, kind):
    with pytest.raises(SchemaError) as caught:
        create_stream_type("T", {"a": kind}, registry=registry)
    assert str(caught.value).startswith("stream type 'T', attribute 'a': expected ")
    assert str(caught.value).endswith(f"got {kind!r}")


@pytest.mark.parametrize("name", ["", "1a", "a b", "a-b", "class", "_hidden", "__len__"])
def test_attribute_name_must_be_a_public_identifier(registry, name):
    with pytest.raises(SchemaError, match="stream type 'T'"):
        create_stream_type("T", {name: "int8"}, registry=registry)


@pytest.mark.parametrize("name", ["", "1a", "a b", "a-b"])
def test_type_name_must_be_an_identifier(registry, name):
    with pytest.raises(SchemaError, match="letters, digits and underscores"):
        create_stream_type(name, {}, registry=registry)


def test_everything_that_windows_have_beside_attributes_is_reserved(registry):
    public = {name for kind in (LogicalWindow, PhysicalWindow) for name in dir(kind) if not name.startswith("_")}
    for name in public:
        with pytest.raises(SchemaError, match="not reserved"):
            create_stream_type("T", {name: "int8"}, registry=registry)


def test_name_can_be_registered_again_only_with_the_same_structure(registry):
    first = create_stream_type("T", {"a": "int8"}, registry=registry)
    assert create_stream_type("T", {"a": "int8"}, registry=registry) == first
    with pytest.raises(SchemaError, match="registered before"):
        create_stream_type("T", {"a": "int16"}, registry=registry)
    assert registry.names() == ["Stream", "T"]


def test_types_that_differ_in_the_order_of_attributes_differ():
    kind = AttributeType("int8")
    one = StreamType("T", {"ts": AttributeType("timestamp"), "a": kind, "b": kind}, STREAM)
    other = StreamType("T", {"ts": AttributeType("timestamp"), "b": kind, "a": kind}, STREAM)
    assert one != other
    assert one == StreamType("T", dict(one.attributes), STREAM)
    assert hash(one) == hash(StreamType("T", dict(one.attributes), STREAM))
    assert one != "T"


def test_unknown_type_and_attribute_say_what_is_known(registry):
    made = create_stream_type("T", {"a": "int8"}, registry=registry)
    with pytest.raises(UnknownName, match=r"unknown stream type 'U'; known: Stream, T"):
        registry.get("U")
    with pytest.raises(UnknownAttribute, match=r"unknown attribute 'b' of stream type 'T'; known: a, ts"):
        made.attribute("b")
    assert registry.get(made) is made


def test_types_cannot_be_changed(registry):
    made = create_stream_type("T", {"a": "int8"}, registry=registry)
    with pytest.raises(AttributeError):
        made.name = "U"
    with pytest.raises(TypeError):
        made.attributes["b"] = AttributeType("int8")


def test_type_survives_pickling_and_json(everything):
    copy = pickle.loads(pickle.dumps(everything))
    assert copy == everything
    assert hash(copy) == hash(everything)
    assert StreamType.from_json(json.loads(json.dumps(everything.to_json()))) == everything
    assert StreamType.from_json(STREAM.to_json()) is STREAM


def test_parents_survive_json_and_nothing_is_registered(registry):
    parent = create_stream_type("JsonParent", {"a": "int8"}, registry=registry)
    child = create_stream_type("JsonChild", {"b": "vector of int8"}, parent, registry)
    again = StreamType.from_json(child.to_json())
    assert again == child
    assert again.is_under(parent)
    assert "JsonChild" not in stream_types.names()


@pytest.mark.parametrize("data", [{}, {"name": "T"}, {"name": "T", "attributes": 3}, [], {"name": 3, "attributes": {}}])
def test_malformed_json_of_a_type_is_a_schema_error(data):
    with pytest.raises(SchemaError):
        StreamType.from_json(data)


def test_constructor_arguments_are_matched_with_attributes(registry):
    made = create_stream_type("T", {"a": "int8", "b": "int8"}, registry=registry)
    assert made.window(1, 2, b=3).values() == {"ts": 1, "a": 2, "b": 3}
    with pytest.raises(SchemaError, match=r"at most 3 values \(ts, a, b\), got 4"):
        made.window(1, 2, 3, 4)
    with pytest.raises(SchemaError, match="attribute 'ts': expected one value, got two"):
        made.window(1, ts=2)
    with pytest.raises(SchemaError, match="attribute 'b': expected int8, got nothing"):
        made.window(1, 2)
    with pytest.raises(UnknownAttribute, match="'c'"):
        made.window(1, 2, 3, c=4)


def test_seconds_are_whole_nanoseconds():
    assert seconds(1.5) == 1_500_000_000
    assert seconds(1e-9) == 1
    assert type(seconds(0.1)) is int


def test_type_shows_its_attributes(registry):
    made = create_stream_type("T", {"a": "vector[2] of int8"}, registry=registry)
    assert repr(made) == "T(ts: timestamp, a: vector[2] of int8)"


def test_a_type_may_be_created_from_lists_of_names_and_types_as_in_the_thesis(registry):
    names = ["ts", "x", "y", "gain"]
    by_lists = create_stream_type(
        "RADIO", names, ["timeval", "vector of complex", "vector of complex", "Real"], registry=registry
    )
    mapping = {"x": "vector of complex128", "y": "vector of complex128", "gain": "float64"}
    assert by_lists == create_stream_type("RADIO", mapping, registry=registry)


def test_lists_of_names_and_types_also_take_a_parent(registry):
    parent = create_stream_type("P", {"a": "int8"}, registry=registry)
    assert list(create_stream_type("C", ("b",), ("int16",), parent, registry).attributes) == ["ts", "a", "b"]
    assert list(create_stream_type("D", ("b",), types=("int16",), under="P", registry=registry).attributes)[1] == "a"


@pytest.mark.parametrize(
    ("names", "types", "message"),
    [
        (["a", "b"], ["int8"], r"stream type 'T': expected as many types as attribute names, got 2 names and 1 type$"),
        (["a"], ["int8", "int8"], "got 1 name and 2 types"),
        (["a", "a"], ["int8", "int16"], "stream type 'T', attribute 'a': expected one type, got two"),
        (["a"], ["text"], "stream type 'T', attribute 'a'"),
        ("ab", ["int8", "int8"], "a mapping of attributes, or a list of their names and one of their types, got 'ab'"),
        (["a"], "int8", "a list of types, got 'int8'"),
        ([1], ["int8"], "attribute names that are text, got 1"),
        (["a"], None, "a list of types, got None"),
    ],
)
def test_lists_of_names_and_types_that_do_not_fit_are_refused(registry, names, types, message):
    with pytest.raises(SchemaError, match=message):
        create_stream_type("T", names, types, registry=registry)


def test_types_beside_a_mapping_are_refused(registry):
    with pytest.raises(SchemaError, match="a mapping says the types itself, got types beside it"):
        create_stream_type("T", {"a": "int8"}, types=["int8"], registry=registry)

import io

import numpy as np
import pyarrow as pa
import pytest

from gsdm_grid.errors import SchemaError
from gsdm_grid.model import PhysicalWindow, Ragged, create_stream_type
from gsdm_grid.model.arrow import stream_schema, to_stream_batch


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("count", [0, 1, 6])
def test_block_read_back_from_arrow_is_the_same(make_block, assert_same, count, ragged):
    block = make_block(count, ragged)
    regular, irregular = range(4, 4 + 2 * count, 2), np.arange(count) ** 2
    for each in (block, block.stamped(regular, 50, 1), block.stamped(irregular, 60), block[1:4], block[::2]):
        batch = each.to_arrow()
        batch.validate(full=True)
        assert_same(PhysicalWindow.from_arrow(batch), each)


@pytest.mark.parametrize("ragged", [False, True])
def test_block_survives_an_arrow_file(make_block, assert_same, ragged):
    block = make_block(5, ragged).stamped(np.array([1, 2, 3, 5, 8]), 9, 0)
    batch = block.to_arrow()
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    (read,) = pa.ipc.open_stream(sink.getvalue())
    assert_same(PhysicalWindow.from_arrow(read), block)


def addresses(array):
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    return {buffer.address for buffer in array.buffers() if buffer is not None}


DENSE = [
    *("int8", "uint16", "int64", "uint64", "float32", "float64", "complex64", "complex128"),
    *("vector of float32", "vector of complex64", "vector of complex128", "vector of timestamp"),
    *("vector[4] of uint8", "vector[2,3] of float64", "vector[2,3] of complex64", "timestamp"),
]


@pytest.mark.parametrize("text", DENSE)
def test_payload_of_dense_columns_is_not_copied_in_either_direction(registry, text):
    made = create_stream_type("T", {"a": text}, registry=registry)
    kind = made.attribute("a")
    array = np.ones((10, *((4,) if kind.shape is None else kind.shape)), kind.numpy)
    block = made.block(ts=np.arange(10), a=array)
    batch = block.to_arrow()
    assert array.ctypes.data in addresses(batch.column("a"))
    back = PhysicalWindow.from_arrow(batch)
    assert back.a.ctypes.data == array.ctypes.data
    assert np.shares_memory(back.a, array)
    assert np.shares_memory(back.ts, block.ts)
    assert not back.a.flags.writeable


@pytest.mark.parametrize("text", ["vector of float32", "vector of complex64", "string"])
def test_payload_of_ragged_columns_is_not_copied_in_either_direction(registry, text):
    made = create_stream_type("T", {"a": text}, registry=registry)
    values = ["a", "bcd", ""] if text == "string" else [[1, 2, 3], [4], []]
    block = made.block(ts=np.arange(3), a=values)
    back = PhysicalWindow.from_arrow(block.to_arrow())
    assert np.shares_memory(back.a.values, block.a.values)


def test_slice_of_a_block_is_not_copied_either(registry):
    made = create_stream_type("T", {"a": "vector of complex64"}, registry=registry)
    block = made.block(ts=np.arange(10), a=np.ones((10, 8), np.complex64)).stamped(range(10))
    back = PhysicalWindow.from_arrow(block[3:7].to_arrow())
    assert np.shares_memory(back.a, block.a)
    assert back.ordinals == range(3, 7)


def test_arrow_types_say_what_the_columns_are(registry):
    made = create_stream_type("T", {"v": "vector of float32", "c": "complex64", "n": "uint8"}, registry=registry)
    block = made.block(ts=[0, 1], v=np.zeros((2, 3), np.float32), c=[1j, 2], n=[1, 2])
    schema = block.to_arrow().schema
    assert schema.field("ts").type == pa.timestamp("ns")
    assert schema.field("v").type == pa.fixed_shape_tensor(pa.float32(), [3])
    assert schema.field("c").type == pa.fixed_shape_tensor(pa.float32(), [2])
    assert schema.field("c").metadata == {b"gsdm.dtype": b"complex64"}
    assert schema.field("n").type == pa.uint8()
    assert not any(field.nullable for field in schema)


@pytest.fixture
def foreign(registry):
    return create_stream_type(
        "Foreign",
        {
            "n": "int32",
            "name": "string",
            "v": "vector of float32",
            "f": "vector[2] of float32",
            "c": "vector of complex64",
        },
        registry=registry,
    )


def plain(**changes):
    columns = {
        "ts": pa.array([0, 1], pa.timestamp("us")),
        "n": pa.array([1, 2], pa.int64()),
        "name": pa.array(["a", "ö"]).dictionary_encode(),
        "v": pa.array([[1.0], [2.0, 3.0]]),
        "f": pa.array([[1.0, 2.0], [3.0, 4.0]]),
        "c": pa.array([[1.0, 2.0], [3.0, 4.0, 5.0, 6.0]]),
        "extra": pa.array([None, None]),
    }
    return pa.RecordBatch.from_pydict(columns | changes)


def test_batch_of_other_origin_is_taken_if_it_fits_the_type(foreign):
    block = PhysicalWindow.from_arrow(plain(), foreign)
    assert block.ts.tolist() == [0, 1000]
    assert block.n.dtype == np.int32
    assert list(block.name) == ["a", "ö"]
    assert isinstance(block.v, Ragged)
    assert [vector.tolist() for vector in block.v] == [[1], [2, 3]]
    assert block.f.tolist() == [[1, 2], [3, 4]]
    assert [vector.tolist() for vector in block.c] == [[1 + 2j], [3 + 4j, 5 + 6j]]
    assert block.c.values.dtype == np.complex64
    assert not block.placed


def test_part_of_a_batch_of_other_origin_is_that_part(foreign):
    part = PhysicalWindow.from_arrow(plain().slice(1), foreign)
    assert list(part.name) == ["ö"]
    assert [vector.tolist() for vector in part.v] == [[2, 3]]
    assert part.f.tolist() == [[3, 4]]
    assert len(PhysicalWindow.from_arrow(plain().slice(2), foreign)) == 0


def test_fixed_size_lists_of_other_origin_are_dense(foreign):
    pairs = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float64(), 2))
    block = PhysicalWindow.from_arrow(plain(v=pairs, f=pairs, c=pairs), foreign)
    assert block.v.tolist() == block.f.tolist() == [[1, 2], [3, 4]]
    assert block.c.tolist() == [[1 + 2j], [3 + 4j]]


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("ts", pa.array([0, None], pa.timestamp("ns"))),
        ("n", pa.array([1, None])),
        ("n", pa.array([1.5, 2.5])),
        ("n", pa.array(["a", "b"])),
        ("n", pa.array([1, 2**40])),
        ("name", pa.array(["a", None])),
        ("name", pa.array([[1], [2]])),
        ("v", pa.array([[1.0], None])),
        ("v", pa.array([[1.0], [None]])),
        ("v", pa.array([1.0, 2.0])),
        ("v", pa.array(["a", "b"])),
        ("v", pa.array([["a"], ["b"]])),
        ("f", pa.array([[1.0], [2.0, 3.0]])),
        ("f", pa.array([[1.0], [2.0]])),
        ("f", pa.array([[1.0], [2.0]], pa.list_(pa.float64(), 1))),
        ("c", pa.array([[1.0], [2.0, 3.0]])),
        ("c", pa.array([["a", "b"], ["c", "d"]])),
    ],
)
def test_batch_that_does_not_fit_the_type_names_the_attribute(foreign, name, array):
    with pytest.raises(SchemaError, match=f"stream type 'Foreign', attribute '{name}': expected "):
        PhysicalWindow.from_arrow(plain(**{name: array}), foreign)


def test_batch_without_an_attribute_of_the_type_is_refused(foreign):
    batch = plain().drop_columns(["n"])
    with pytest.raises(SchemaError, match="attribute 'n': expected int32, got nothing"):
        PhysicalWindow.from_arrow(batch, foreign)


def test_plain_batch_needs_a_stream_type():
    with pytest.raises(SchemaError, match="a batch that names one"):
        PhysicalWindow.from_arrow(plain())


def test_part_of_a_placed_batch_is_refused_because_its_ordinals_are_not_known(foreign):
    block = PhysicalWindow.from_arrow(plain(), foreign)
    with pytest.raises(SchemaError, match="expected all 2 windows of the block, got 1"):
        PhysicalWindow.from_arrow(block.to_arrow().slice(1))


@pytest.mark.parametrize("order", ["dense first", "ragged first"])
def test_blocks_of_any_shape_go_through_one_arrow_stream(everything, make_block, assert_same, order):
    dense, ragged = make_block(5).stamped(range(10, 15)), make_block(6, ragged=True).stamped(np.arange(6) ** 2 + 20)
    none = make_block(0).stamped(range(30, 30))
    blocks = [dense, none, ragged, dense[1:3], ragged[2:5], dense[::2]]
    blocks = blocks if order == "dense first" else blocks[::-1]
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, stream_schema(everything)) as writer:
        for block in blocks:
            batch = to_stream_batch(block, 7)
            batch.validate(full=True)
            writer.write_batch(batch)
    for read, block in zip(pa.ipc.open_stream(sink.getvalue()), blocks, strict=True):
        assert read.column("__seq__").to_pylist() == list(range(7, 7 + len(block)))
        back = PhysicalWindow.from_arrow(read)
        assert_same(back, PhysicalWindow(block.type, block.columns, back.ordinals))
        assert list(back.ordinals) == list(block.ordinals)


@pytest.mark.parametrize("text", ["vector of complex64", "vector[4] of complex64", "float64"])
def test_payload_is_not_copied_into_a_stream_batch(registry, text):
    made = create_stream_type("T", {"a": text}, registry=registry)
    kind = made.attribute("a")
    array = np.ones((10, *((4,) if kind.shape is None else kind.shape)), kind.numpy)
    batch = to_stream_batch(made.block(ts=np.arange(10), a=array), 0)
    column = batch.column("a")
    values = column.flatten() if pa.types.is_large_list(column.type) else column
    assert array.ctypes.data in addresses(values)

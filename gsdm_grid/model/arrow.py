"""Physical windows as Arrow record batches, without copying the payload.

Vectors of equal length become fixed-shape tensors, ragged ones large lists, complex numbers pairs of floats
(a trailing axis of 2) with the dtype in the field's metadata. The stream type, ordinals, mark and halo travel
in the schema's metadata, so a batch read back elsewhere is the same physical window.

All batches of one Arrow stream must have one schema, so there is a uniform form too: `stream_schema` and
`to_stream_batch`. There the places of windows are columns of their own (``__seq__``, counted by whoever keeps the
stream, and ``__ordinal__``), vectors of varying length are always large lists, and only the type is in the metadata.

Batches of other origin are taken too, if their columns fit the stream type: lists of equal length for vectors
of fixed shape, interleaved floats for complex numbers. Nulls never fit: a stream has no missing values.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa

from gsdm_grid.errors import SchemaError
from gsdm_grid.model.columns import Array, Column, Ragged, Text, as_ragged, check_column
from gsdm_grid.model.physical import Ordinals, PhysicalWindow, as_array
from gsdm_grid.model.types import AttributeType, StreamType

_TYPE, _PLACE, _ORDINALS = b"gsdm.type", b"gsdm.place", "__ordinal__"
SEQ = "__seq__"


def to_arrow(block: PhysicalWindow) -> pa.RecordBatch:
    """The block as one record batch."""
    fields, arrays = [], []
    for name, kind in block.type.attributes.items():
        array = _column_to_arrow(block.columns[name], kind)
        fields.append(pa.field(name, array.type, nullable=False, metadata={"gsdm.dtype": str(kind)}))
        arrays.append(array)
    place: dict[str, Any] = {"mark": block.mark, "halo": block.halo}
    if isinstance(block.ordinals, range):
        place["range"] = [block.ordinals.start, block.ordinals.stop, block.ordinals.step]
    else:
        fields.append(pa.field(_ORDINALS, pa.int64(), nullable=False))
        arrays.append(_lent(block.ordinals))
    metadata = {_TYPE: json.dumps(block.type.to_json()), _PLACE: json.dumps(place)}
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=metadata))


def stream_schema(stream_type: StreamType) -> pa.Schema:
    """The schema that all batches of a stream of this type have; see `to_stream_batch`."""
    fields = [pa.field(name, pa.int64(), nullable=False) for name in (SEQ, _ORDINALS)]
    for name, kind in stream_type.attributes.items():
        made = _stream_type_of(kind)
        fields.append(pa.field(name, made, nullable=False, metadata={"gsdm.dtype": str(kind)}))
    return pa.schema(fields, metadata={_TYPE: json.dumps(stream_type.to_json())})


def to_stream_batch(block: PhysicalWindow, seq: int, schema: pa.Schema | None = None) -> pa.RecordBatch:
    """The block as a batch of a stream whose schema is `stream_schema`; ``seq`` is that of its first window.

    Mark and halo are left behind: they matter between working nodes only.
    """
    arrays = [_lent(np.arange(seq, seq + len(block))), _lent(as_array(block.ordinals))]
    for name, kind in block.type.attributes.items():
        column = block.columns[name]
        arrays.append(_column_to_arrow(as_ragged(column) if kind.varies else column, kind))
    return pa.RecordBatch.from_arrays(arrays, schema=schema or stream_schema(block.type))


def from_arrow(batch: pa.RecordBatch, stream_type: StreamType | None = None) -> PhysicalWindow:
    """The block in a record batch: of its own type if it names one, else of the given type (checked)."""
    metadata = batch.schema.metadata or {}
    if _TYPE in metadata:
        stream_type = StreamType.from_json(json.loads(metadata[_TYPE]))
    if stream_type is None:
        raise SchemaError("?", None, "a stream type, or a batch that names one", "a plain record batch")
    made: dict[str, Column] = {}
    for name, kind in stream_type.attributes.items():
        if name not in batch.schema.names:
            raise SchemaError(stream_type.name, name, str(kind), "nothing")
        array = batch.column(name)
        try:
            column = _column_from_arrow(array, kind)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise SchemaError(stream_type.name, name, str(kind), f"{array.type} ({error})") from None
        made[name] = check_column(stream_type.name, name, kind, column)
    if _PLACE not in metadata:
        places = None
        if _TYPE in metadata and _ORDINALS in batch.schema.names:
            places = _viewed(batch.column(_ORDINALS))
        return PhysicalWindow(stream_type, made, places)
    place = json.loads(metadata[_PLACE])
    ordinals: Ordinals = range(*place["range"]) if "range" in place else _viewed(batch.column(_ORDINALS))
    if len(ordinals) != batch.num_rows:
        expected = f"all {len(ordinals)} windows of the block"
        raise SchemaError(stream_type.name, None, expected, f"{batch.num_rows}")
    return PhysicalWindow(stream_type, made, ordinals, place["mark"], place["halo"])


def _column_to_arrow(column: Column, kind: AttributeType) -> pa.Array:
    if isinstance(column, Ragged):
        flat = column.compact()
        if isinstance(flat, Text):
            return pa.LargeStringArray.from_buffers(
                len(flat), pa.py_buffer(flat.offsets), pa.py_buffer(np.ascontiguousarray(flat.values))
            )
        offsets = flat.offsets * _numbers_per_item(kind)
        return pa.LargeListArray.from_arrays(_lent(offsets), _flat_values(flat.values))
    values = _flat_values(column.reshape(-1))
    shape = [*column.shape[1:], *([2] if kind.numpy.kind == "c" else [])]
    if not shape:
        return values.view(pa.timestamp("ns")) if kind.dtype == "timestamp" else values
    tensor = pa.fixed_shape_tensor(values.type, shape)
    size = math.prod(shape)
    if size:
        storage = pa.FixedSizeListArray.from_arrays(values, size)
    else:
        storage = pa.array([[]] * len(column), tensor.storage_type)
    return pa.ExtensionArray.from_storage(tensor, storage)


def _stream_type_of(kind: AttributeType) -> pa.DataType:
    """Arrow type of an attribute that is the same for all blocks."""
    if kind.is_string:
        return pa.large_string()
    is_complex = kind.numpy.kind == "c"
    number = pa.from_numpy_dtype(kind.numpy.type(0).real.dtype if is_complex else kind.numpy)
    if kind.shape is None:
        return pa.large_list(number)
    shape = [*kind.shape, *([2] if is_complex else [])]
    if shape:
        return pa.fixed_shape_tensor(number, shape)
    return pa.timestamp("ns") if kind.dtype == "timestamp" else number


def _flat_values(values: Array) -> pa.Array:
    """Values without a copy; complex numbers become their interleaved real and imaginary parts."""
    values = np.ascontiguousarray(values)
    if values.dtype.kind == "c":
        values = values.view(values.real.dtype)
    return _lent(values)


def _column_from_arrow(array: pa.Array, kind: AttributeType) -> Column:
    if array.null_count:
        raise ValueError(f"with {array.null_count} nulls")
    if kind.is_string:
        return _text_from_arrow(array.cast(pa.large_string()))
    if isinstance(array, pa.ExtensionArray):
        inner = array.type.shape[:-1] if kind.numpy.kind == "c" else array.type.shape
        return _numbers(array.storage.flatten(), kind).reshape(len(array), *inner)
    if pa.types.is_large_list(array.type) or pa.types.is_list(array.type):
        offsets = _viewed(array.offsets).astype(np.int64, copy=False)
        starts = (offsets - offsets[0]) // _numbers_per_item(kind)
        ragged = Ragged(_numbers(array.flatten(), kind), starts)
        lengths = np.unique(np.diff(starts))
        if len(lengths) > 1 or (kind.shape is None and not len(lengths)):
            return ragged
        return ragged.values.reshape(len(array), *((int(lengths[0]),) if kind.shape is None else kind.shape))
    if pa.types.is_fixed_size_list(array.type):
        inner = (array.type.list_size // _numbers_per_item(kind),) if kind.shape is None else kind.shape
        return _numbers(array.flatten(), kind).reshape(len(array), *inner)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ns")).view(pa.int64())
    return _viewed(array)


def _text_from_arrow(strings: pa.LargeStringArray) -> Text:
    if not len(strings):
        return Text(np.empty(0, np.uint8), np.zeros(1, np.int64))
    _, offsets, data = strings.buffers()
    bounds = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    return Text(np.frombuffer(data or b"", np.uint8), bounds)


def _numbers(values: pa.Array, kind: AttributeType) -> Array:
    """Flat values of vectors; interleaved floats as the complex numbers that they are."""
    if values.null_count:
        raise ValueError(f"with {values.null_count} nulls in vectors")
    flat = _viewed(values)
    if kind.numpy.kind == "c":
        flat = flat.astype(kind.numpy.type(0).real.dtype, casting="same_kind", copy=False).view(kind.numpy)
    return flat


def _lent(values: Array) -> pa.Array:
    """Numbers as Arrow's, without a copy. ``pa.array`` would import pandas, which takes a second or more."""
    if values.dtype.kind not in "iuf":
        return pa.array(values)
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def _viewed(array: pa.Array) -> Array:
    """Arrow's numbers as NumPy's, without a copy. ``to_numpy`` would import pandas too."""
    plain = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
    viewed: Array = np.from_dlpack(array) if plain and not array.null_count else array.to_numpy(zero_copy_only=False)
    return viewed


def _numbers_per_item(kind: AttributeType) -> int:
    return 2 if kind.numpy.kind == "c" else 1

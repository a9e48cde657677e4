"""Physical windows as Arrow record batches, without copying the payload.

Vectors of equal length become fixed-shape tensors, ragged ones large lists, complex numbers pairs of floats
(a trailing axis of 2) with the dtype in the field's metadata. The stream type, ordinals, mark and halo travel in
the schema's metadata, so a batch read back elsewhere is the same physical window.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from gsdm_grid.errors import SchemaError
from gsdm_grid.model.columns import Column, Ragged, Text, check_column, read_only
from gsdm_grid.model.physical import PhysicalWindow, as_array
from gsdm_grid.model.types import AttributeType, StreamType

_TYPE, _PLACE, _ORDINALS = b"gsdm.type", b"gsdm.place", "__ordinal__"


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
        arrays.append(pa.array(as_array(block.ordinals)))
    metadata = {_TYPE: json.dumps(block.type.to_json()), _PLACE: json.dumps(place)}
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=metadata))


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
        made[name] = check_column(stream_type.name, name, kind, _column_from_arrow(batch.column(name), kind))
    if _PLACE not in metadata:
        return PhysicalWindow(stream_type, made)
    place = json.loads(metadata[_PLACE])
    ordinals = range(*place["range"]) if "range" in place else batch.column(_ORDINALS).to_numpy()
    return PhysicalWindow(stream_type, made, ordinals, place["mark"], place["halo"])


def _column_to_arrow(column: Column, kind: AttributeType) -> pa.Array:
    if isinstance(column, Text):
        flat = column.compact()
        return pa.LargeStringArray.from_buffers(len(flat), pa.py_buffer(flat.offsets), pa.py_buffer(flat.values))
    if isinstance(column, Ragged):
        flat = column.compact()
        return pa.LargeListArray.from_arrays(pa.array(flat.offsets * _floats_per_item(kind)), _flat_values(flat.values))
    if kind.dtype == "bool":
        values = pa.array(column.reshape(-1))
    else:
        values = _flat_values(np.ascontiguousarray(column).reshape(-1))
    shape = list(column.shape[1:]) + ([2] if kind.numpy.kind == "c" else [])
    if not shape:
        return values.view(pa.timestamp("ns")) if kind.dtype == "timestamp" else values
    tensor = pa.fixed_shape_tensor(values.type, shape)
    size = int(np.prod(shape))
    storage = pa.FixedSizeListArray.from_arrays(values, size) if size else pa.array([[]] * len(column), tensor.storage_type)
    return pa.ExtensionArray.from_storage(tensor, storage)


def _flat_values(values: np.ndarray[Any, Any]) -> pa.Array:
    """Values without a copy; complex numbers become their interleaved real and imaginary parts."""
    if values.dtype.kind == "c":
        values = values.view(np.float32 if values.dtype == np.complex64 else np.float64)
    return pa.array(values)


def _column_from_arrow(array: pa.Array, kind: AttributeType) -> Column:
    if kind.is_string:
        strings = array.cast(pa.large_string())
        _, offsets, data = strings.buffers()
        bounds = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1]
        return Text(np.frombuffer(data or b"", np.uint8), bounds)
    if isinstance(array, pa.ExtensionArray):
        shape = array.type.shape
        flat = array.storage.flatten().to_numpy(zero_copy_only=kind.dtype != "bool")
        dense = read_only(_complex(flat, kind))
        inner = shape[:-1] if kind.numpy.kind == "c" else shape
        return dense.reshape(len(array), *inner)
    if pa.types.is_large_list(array.type) or pa.types.is_list(array.type):
        array = array.cast(pa.large_list(array.type.value_type))
        offsets = array.offsets.to_numpy()
        values = _complex(array.flatten().to_numpy(zero_copy_only=False), kind)
        return Ragged(values, (offsets - offsets[0]) // _floats_per_item(kind))
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ns")).view(pa.int64())
    return array.to_numpy(zero_copy_only=False)


def _floats_per_item(kind: AttributeType) -> int:
    return 2 if kind.numpy.kind == "c" else 1


def _complex(values: np.ndarray[Any, Any], kind: AttributeType) -> np.ndarray[Any, Any]:
    return values.view(kind.numpy) if kind.numpy.kind == "c" and values.dtype.kind == "f" else values

"""The stream data model: stream types, logical and physical windows, clocks, the wire and Arrow forms.

What moves and how it lies in memory is here; what functions do with windows is in `gsdm_grid.functions`, how
they travel between working nodes in `gsdm_grid.channels`.
"""

from gsdm_grid.model.arrow import SEQ, stream_schema, to_stream_batch
from gsdm_grid.model.clock import Clock, SystemClock
from gsdm_grid.model.columns import Array, Column, Ragged, Text, as_dense, as_ragged, check_column, read_only, row_slice
from gsdm_grid.model.logical import LogicalWindow
from gsdm_grid.model.physical import (
    NO_MARK,
    NO_TIME_MARK,
    Ordinals,
    PhysicalWindow,
    as_array,
    cut,
    cut_at,
    join_ordinals,
    shifted,
    whole_ordinals,
)
from gsdm_grid.model.position import StreamPosition
from gsdm_grid.model.types import (
    NANOSECONDS,
    STREAM,
    AttributeType,
    StreamType,
    TypeRegistry,
    create_stream_type,
    seconds,
    stream_types,
)

__all__ = [
    "NANOSECONDS",
    "NO_MARK",
    "NO_TIME_MARK",
    "SEQ",
    "STREAM",
    "Array",
    "AttributeType",
    "Clock",
    "Column",
    "LogicalWindow",
    "Ordinals",
    "PhysicalWindow",
    "Ragged",
    "StreamPosition",
    "StreamType",
    "SystemClock",
    "Text",
    "TypeRegistry",
    "as_array",
    "as_dense",
    "as_ragged",
    "check_column",
    "create_stream_type",
    "cut",
    "cut_at",
    "join_ordinals",
    "read_only",
    "row_slice",
    "seconds",
    "shifted",
    "stream_schema",
    "stream_types",
    "to_stream_batch",
    "whole_ordinals",
]

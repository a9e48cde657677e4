"""What a query is, as people say it: its document (JSON or YAML), its streams, and what the document names.

Nothing here runs a query; that is the business of `gsdm_grid.coordination`.
"""

from gsdm_grid.spec.references import Kind
from gsdm_grid.spec.specification import (
    AUTO,
    KEPT,
    QuerySpecification,
    Stop,
    check_name,
    flow_of,
    parse,
    parse_stop,
    parse_stream,
    shared_unless_told,
    with_degree,
    with_plan,
    without_plan,
    work_of,
)
from gsdm_grid.spec.stream_registration import RegisteredStream, register_input_stream, register_result_stream

__all__ = [
    "AUTO",
    "KEPT",
    "Kind",
    "QuerySpecification",
    "RegisteredStream",
    "Stop",
    "check_name",
    "flow_of",
    "parse",
    "parse_stop",
    "parse_stream",
    "register_input_stream",
    "register_result_stream",
    "shared_unless_told",
    "with_degree",
    "with_plan",
    "without_plan",
    "work_of",
]

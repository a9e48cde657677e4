"""What a query is, as people say it: the model of its document (JSON or YAML), its streams, and what it names.

Nothing here runs a query; that is the business of `gsdm_grid.coordination`.
"""

from gsdm_grid.spec.criteria import CriteriaDocument, parse_criteria
from gsdm_grid.spec.document_model import (
    OUR_ERRORS,
    BlockBytes,
    Degree,
    DocumentModel,
    Name,
    checked,
    reason_of,
    steps_of,
)
from gsdm_grid.spec.open_plans import with_degree, with_plan, without_plan, work_of
from gsdm_grid.spec.plan_member import AUTO, Shape, parse_plan
from gsdm_grid.spec.references import Kind
from gsdm_grid.spec.resolution import KEPT, ResolvedQuery, flow_of, parse, parse_stream, shared_unless_told
from gsdm_grid.spec.resources import parse_demands
from gsdm_grid.spec.specification import (
    Autoscale,
    Placement,
    QueryOptions,
    QuerySpecification,
    Stop,
    parse_stop,
    query_options,
)
from gsdm_grid.spec.stream_members import OrderMember, parse_order
from gsdm_grid.spec.stream_registration import RegisteredStream, register_input_stream, register_result_stream

__all__ = [
    "AUTO",
    "KEPT",
    "OUR_ERRORS",
    "Autoscale",
    "BlockBytes",
    "CriteriaDocument",
    "Degree",
    "DocumentModel",
    "Kind",
    "Name",
    "OrderMember",
    "Placement",
    "QueryOptions",
    "QuerySpecification",
    "RegisteredStream",
    "ResolvedQuery",
    "Shape",
    "Stop",
    "checked",
    "flow_of",
    "parse",
    "parse_criteria",
    "parse_demands",
    "parse_order",
    "parse_plan",
    "parse_stop",
    "parse_stream",
    "query_options",
    "reason_of",
    "register_input_stream",
    "register_result_stream",
    "shared_unless_told",
    "steps_of",
    "with_degree",
    "with_plan",
    "without_plan",
    "work_of",
]

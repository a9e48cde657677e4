"""Routing and broadcasting functions: every way to give one, and what they may return."""

import math

import numpy as np
import pytest

from gsdm_grid import create_stream_type, sqf
from gsdm_grid.errors import FlowError, FunctionError, QueryError
from gsdm_grid.functions import OMIT, functions, per_tuple, route_value, routing
from gsdm_grid.model import TypeRegistry

Report = create_stream_type("RoutedReport", {"kind": "int8", "xway": "int32"}, registry=TypeRegistry())
Other = create_stream_type("OtherReport", {"kind": "int8"}, registry=TypeRegistry())


def reports(xway, kind=None):
    return Report.block(ts=range(len(xway)), kind=kind or [0] * len(xway), xway=xway).stamped(
        ordinals=range(100, 100 + len(xway))
    )


def decide(rfn, bfn=None, xway=(0, 1, 2, 3), kind=None, total=4, **node):
    """Where each tuple goes: a number, "all", or None."""
    decision = routing(rfn, bfn, Report, total, **node)(reports(list(xway), kind))
    broadcast = np.zeros(len(xway), bool) if decision.broadcast is None else decision.broadcast
    return [
        "all" if everywhere else None if output < 0 else int(output)
        for output, everywhere in zip(decision.outputs, broadcast, strict=True)
    ]


@sqf(Report, kind="routing", whole=True)
def in_areas(block, w, size=1):
    return block.xway // size % w


@pytest.fixture(autouse=True, scope="module")
def _forget_functions():
    yield
    functions.remove("in_areas")


@pytest.mark.parametrize(
    "rfn",
    [
        "xway",
        {"expression": "xway"},
        lambda block: block.xway,
        lambda block, w: block.xway % w,
        per_tuple(lambda one: one.xway),
        per_tuple(lambda one, w: int(one.xway) % w),
        in_areas,
        "in_areas",
        {"function": "in_areas"},
        {"function": in_areas, "params": {"size": 1}},
        lambda block: block.xway.astype(np.uint64),
        lambda block: block.xway.astype(np.float32),
        lambda block: block.xway.tolist(),
        lambda block: np.ma.masked_array(block.xway, mask=False),
    ],
)
def test_every_way_to_give_a_routing_function(rfn):
    assert decide(rfn) == [0, 1, 2, 3]


def test_parameters_reach_the_function():
    assert decide({"function": "in_areas", "params": {"size": 2}}) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "bfn",
    [
        "kind == 2",
        lambda block: block.kind == 2,
        per_tuple(lambda one: one.kind == 2),
        per_tuple(lambda one: True if one.kind == 2 else None),
        lambda block: np.ma.masked_array(np.ones(len(block), bool), mask=block.kind != 2),
        "True if kind == 2 else None",
    ],
)
def test_every_way_to_give_a_broadcasting_function(bfn):
    assert decide("xway", bfn, kind=[0, 2, 0, 2]) == [0, "all", 2, "all"]


@pytest.mark.parametrize(
    "rfn",
    [
        "xway if xway < 2 else None",
        per_tuple(lambda one: one.xway if one.xway < 2 else None),
        per_tuple(lambda one: one.xway if one.xway < 2 else math.nan),
        lambda block: np.where(block.xway < 2, block.xway, OMIT),
        lambda block: np.where(block.xway < 2, block.xway, np.nan),
        lambda block: np.ma.masked_array(block.xway, mask=block.xway >= 2),
        lambda block: [int(x) if x < 2 else None for x in block.xway],
    ],
)
def test_none_nan_masked_values_and_omit_mean_nowhere(rfn):
    assert decide(rfn) == [0, 1, None, None]
    assert decide(rfn, "kind == 2", kind=[0, 2, 2, 0]) == [0, "all", "all", None]


@pytest.mark.parametrize(
    ("rfn", "reason"),
    [
        ("xway + 2", "output 4 is outside 0…3"),
        ("xway - 3 if xway == 2 else 0", "output -1 is outside 0…3"),
        (lambda block: block.xway * 2, "output 4 is outside 0…3"),
        (
            lambda block: (block.xway == 2).astype(np.uint64) << np.uint64(63),
            "output 9223372036854775808 is outside 0…3",
        ),
        (lambda block: block.xway * 2 / 1.0, "output 4 is outside 0…3"),
        (lambda block: np.where(block.xway == 2, 0.5, 0), "returned np.float64(0.5), which is no output number"),
        (lambda block: np.where(block.xway == 2, np.inf, 0), "which is no output number"),
        (per_tuple(lambda one: 2.5 if one.xway == 2 else 1.0), "returned 2.5, which is no output number"),
        (per_tuple(lambda one: "x" if one.xway == 2 else 1), "returned 'x', which is no output number"),
        (per_tuple(lambda one: -1 if one.xway == 2 else 1), "output -1 is outside 0…3"),
        (per_tuple(lambda one: int(1 / int(one.xway - 2)) + 1), "ZeroDivisionError"),
        (per_tuple(lambda one: one.colour if one.xway == 2 else 0), "unknown attribute 'colour'"),
        ("abs(1 // (xway - 2)) * 0", "division by zero"),
    ],
)
def test_an_error_names_the_tuple_by_number_and_content(rfn, reason):
    with pytest.raises(FunctionError) as refused:
        decide(rfn, xway=[1, 1, 2, 2])
    told = str(refused.value)
    assert "tuple 102 RoutedReport(ts=2, kind=0, xway=2)" in told
    assert reason in told


def test_a_function_over_columns_that_raises_names_the_first_tuple_that_makes_it():
    def fussy(block):
        if (block.xway == 7).any():
            raise ValueError("seven")
        return block.xway

    with pytest.raises(FunctionError, match=r"tuple 105 .*xway=7.*ValueError: seven") as caught:
        decide(fussy, xway=[0, 1, 2, 3, 0, 7, 1, 7])
    assert caught.value.trace.endswith('in fussy\n    raise ValueError("seven")')

    def hates_company(block):
        if len(block) > 1:
            raise ValueError("too many")
        return block.xway

    with pytest.raises(FunctionError, match=r"tuples 100…10\d: ValueError: too many"):
        decide(hates_company)


def test_a_function_over_columns_must_return_a_value_for_each_tuple():
    with pytest.raises(FunctionError, match=r"shape \(3,\) for 4 tuples"):
        decide(lambda block: block.xway[1:])
    with pytest.raises(FunctionError, match=r"shape \(\) for 4 tuples"):
        decide(lambda block: 1)


@pytest.mark.parametrize("bfn", [lambda block: block.kind, per_tuple(lambda one: 1), lambda block: block.kind * 0.5])
def test_a_broadcasting_function_must_return_truth_values(bfn):
    with pytest.raises(FunctionError, match="truth value"):
        decide("xway", bfn)


def test_what_the_routing_function_says_of_broadcast_tuples_does_not_count():
    assert decide("xway", "kind == 2", xway=[0, -1, 99], kind=[0, 2, 2]) == [0, "all", "all"]
    seen = []

    def watched(one):
        seen.append(int(one.xway))
        return 0

    decide(per_tuple(watched), "kind == 2", xway=[5, 6, 7], kind=[0, 2, 0])
    assert seen == [5, 7]


def test_truth_values_route_to_two_outputs():
    assert decide("xway > 1", total=2) == [0, 0, 1, 1]


def test_only_broadcasting():
    assert decide(None, "xway > 1") == [None, None, "all", "all"]
    with pytest.raises(FlowError, match="needs a routing function"):
        routing(None, None, Report, 4)


def test_a_node_of_a_tree_takes_its_digit_of_the_output():
    outputs = list(range(12))
    first = decide("xway", xway=outputs, total=12, below=1, ways=2)
    second = decide("xway", xway=outputs, total=12, below=2, ways=3)
    third = decide("xway", xway=outputs, total=12, below=6, ways=2)
    assert [a + 2 * b + 6 * c for a, b, c in zip(first, second, third, strict=True)] == outputs
    assert decide("xway if xway > 0 else None", xway=[0, 5], total=12, below=2, ways=3) == [None, 2]


def test_functions_of_the_wrong_kind_type_or_result_are_refused():
    with pytest.raises(FlowError, match="expected a function of kind 'routing', got 'identity'"):
        route_value(functions.get("identity"), "rfn")
    with pytest.raises(FlowError, match="expected an expression, a function or its name, got int"):
        route_value(3, "rfn")
    with pytest.raises(FlowError, match=r"expected \{expression\} or \{function, params\}"):
        route_value({"fun": "x"}, "rfn")
    with pytest.raises(FlowError, match="no parameter 'sise'"):
        route_value({"function": "in_areas", "params": {"sise": 2}}, "rfn")
    with pytest.raises(QueryError, match="takes tuples of 'RoutedReport', not of 'OtherReport'"):
        routing("in_areas", None, Other, 4)
    with pytest.raises(FlowError, match=r"is a number, where a whole number is needed; take int\(…\) or //"):
        routing("xway / 2", None, Report, 4)
    with pytest.raises(FlowError, match=r"bfn 'xway'.*where a truth value is needed"):
        routing(None, "xway", Report, 4)
    with pytest.raises(FlowError, match="unknown attribute 'xwy'"):
        routing("xwy", None, Report, 4)


def test_functions_called_tuple_by_tuple_are_told():
    assert routing("xway", "kind == 2", Report, 4).slow == []
    assert routing("xway", per_tuple(lambda one: True), Report, 4).slow == ["<lambda>"]

"""Expressions: the same values as Python gives, errors that name the place, and nothing that Python would execute."""

import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from gsdm_grid import create_stream_type
from gsdm_grid.errors import FlowError
from gsdm_grid.expressions.expression import Expression, TupleFault
from gsdm_grid.model import TypeRegistry

Event = create_stream_type(
    "Event",
    {
        "kind": "int8",
        "xway": "int32",
        "big": "uint64",
        "speed": "float64",
        "fast": "bool",
        "plate": "string",
        "v": "vector of float32",
    },
    registry=TypeRegistry(),
)


def events(kind=(0, 2, 0, 3), xway=(0, 1, 2, 0), speed=(1.5, math.nan, -2.0, 1e300), plate=("a", "bb", "a", "")):
    count = len(kind)
    return Event.block(
        ts=range(count),
        kind=list(kind),
        xway=list(xway),
        big=[1 << 63] * count,
        speed=list(speed)[:count],
        fast=[True] * count,
        plate=list(plate)[:count],
        v=np.zeros((count, 2), np.float32),
    )


def value(text, block=None, **constants):
    """Values of an expression, None where it has none."""
    values, present = Expression(text).checked(Event, constants).evaluate(events() if block is None else block)
    return [
        one if there else None
        for one, there in zip(values.tolist(), [True] * len(values) if present is None else present)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("xway", [0, 1, 2, 0]),
        ("kind == 2", [False, True, False, False]),
        ("xway if kind == 0 else None", [0, None, 2, None]),
        ("None if kind == 3 else (xway if kind == 0 else w)", [0, 9, 2, None]),
        ("6 // xway if xway != 0 else -1", [-1, 6, 3, -1]),
        ("xway > 0 and 6 % xway == 0", [False, True, True, False]),
        ("xway == 0 or 6 // xway == 3", [True, False, True, True]),
        ("plate == 'a'", [True, False, True, False]),
        ("'bb' != plate", [True, False, True, True]),
        ("plate in ['bb', '']", [False, True, False, True]),
        ("kind not in (0, 3)", [False, True, False, False]),
        ("0 < xway <= 2", [False, True, True, False]),
        ("-xway + 3", [3, 2, 1, 3]),
        ("max(xway, kind, 1)", [1, 2, 2, 3]),
        ("min(xway, 1) + abs(-2)", [2, 3, 3, 2]),
        ("not fast", [False] * 4),
        ("int(speed) if kind == 0 else 0", [1, 0, -2, 0]),
        ("300 if kind == 0 else kind", [300, 2, 300, 3]),
        ("xway * 1000000000000", [0, 10**12, 2 * 10**12, 0]),
        ("speed > 0", [True, False, False, True]),
        ("7", [7, 7, 7, 7]),
        ("None", [None] * 4),
        ("fast", [True] * 4),
        ("ts // 2", [0, 0, 1, 1]),
        ("(1 if kind == 0 else 2) + xway", [1, 3, 3, 2]),
    ],
)
def test_values_are_those_of_python(text, expected):
    assert value(text, w=9) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("xwy", "unknown attribute 'xwy' of stream type 'Event'; known: ts, kind, xway"),
        ("xway + v", "'v': is vector of float32"),
        ("xway +", "invalid syntax (at its end)"),
        ("xway @@ 2", "at character"),
        ("plate + 1", "'plate': is a text, where a number is needed"),
        ("1 if xway else 2", "'xway': is a whole number; a condition must be a truth value"),
        ("xway and fast", "'xway': is a whole number"),
        ("__import__('os')", "no known function; known: abs, hash, int, max, min"),
        ("xway.real", "is not allowed; allowed: attributes"),
        ("xway[0]", "is not allowed"),
        ("[x for x in xway]", "is not allowed"),
        ("lambda: 1", "is not allowed"),
        ("f'{xway}'", "is not allowed"),
        ("(xway := 3)", "is not allowed"),
        ("xway ** 2", "this operator is not allowed; allowed: + - * / // %"),
        ("xway is None", "this comparison is not allowed"),
        ("None + 1", "None is only allowed as the result"),
        ("1 + (1 if fast else None)", "None and text are only allowed in the conditional that gives the result"),
        ("xway % 0", "divides by zero"),
        ("plate < 'a'", "text can be compared with text, by == and !="),
        ("plate == kind", "compares a text with a whole number"),
        ("plate == plate", "text can be compared with a constant only"),
        ("xway in kind", "'in' needs a list of constants"),
        ("xway in [1, kind]", "'in' needs a list of constants"),
        ("abs()", "abs takes one value, got 0"),
        ("max(1)", "max takes two values or more"),
        ("hash(xway, key=1)", "no known function"),
        ("'a' if fast else 1", "gives a text or a whole number"),
        ("99999999999999999999", "is too large"),
        ("1" + "+1" * 1500, "at most 2000"),
        ("xway\0", "null bytes"),
        ("(" * 300 + "xway" + ")" * 300, ""),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(text, reason):
    with pytest.raises(FlowError) as refused:
        Expression(text, "rfn").checked(Event)
    assert str(refused.value).startswith("rfn")
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("text", "row", "reason"),
    [
        ("6 // xway", 0, "division by zero"),
        ("1 if kind == 0 else 6 % xway", 3, "division by zero"),
        ("int(speed)", 1, "int(nan)"),
        ("int(speed) if kind == 3 else 0", 3, "no whole number of 64 bits"),
    ],
)
def test_what_cannot_be_computed_names_the_row(text, row, reason):
    with pytest.raises(TupleFault) as fault:
        value(text)
    assert fault.value.row == row
    assert reason in fault.value.reason


def test_an_attribute_hides_a_constant_of_its_name():
    assert value("kind + w", kind=100, w=1) == [1, 3, 1, 4]


def test_hashes_are_whole_never_negative_and_go_by_value():
    hashed = value("hash(plate)")
    assert hashed[0] == hashed[2] != hashed[1]
    assert all(isinstance(one, int) and one >= 0 for one in hashed + value("hash(speed)") + value("hash(big)"))
    assert value("hash(xway)") == value("hash(xway + 0)")


def test_large_unsigned_numbers_compare_exactly():
    assert value("big == 9223372036854775807") == [False] * 4
    assert value("big > xway") == [True] * 4


numbers = st.integers(-(2**31), 2**31 - 1)
leaves = st.sampled_from(["kind", "xway", "w"]) | st.integers(-20, 20).map(lambda n: f"({n})")


def _grown(inner):
    truths = (
        st.tuples(inner, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), inner).map(" ".join).map("({})".format)
    )
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(" ".join).map("({})".format),
        st.tuples(inner, truths, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        st.tuples(truths, st.sampled_from(["and", "or"]), truths, inner, inner).map(
            lambda t: f"({t[3]} if not ({t[0]} {t[1]} {t[2]}) else {t[4]})"
        ),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        inner.map("abs({})".format),
    )


def divides_by_a_constant_zero(text):
    return "// (0)" in text or "% (0)" in text


@settings(max_examples=300)
@example(text="(kind // ((0) + (0)))", kinds=[0])
@given(text=st.recursive(leaves, _grown, max_leaves=8), kinds=st.lists(st.integers(-128, 127), min_size=1, max_size=6))
def test_any_arithmetic_gives_what_python_gives_tuple_by_tuple(text, kinds):
    block = events(
        kind=kinds, xway=[k * 7919 % 23 - 11 for k in kinds], speed=[0.0] * len(kinds), plate=[""] * len(kinds)
    )
    expected = []
    for window in block:
        try:
            expected.append(eval(text, {"kind": int(window.kind), "xway": int(window.xway), "w": 5}))
        except ZeroDivisionError:
            expected.append(ZeroDivisionError)
    assume(all(one is ZeroDivisionError or abs(one) < 2**63 for one in expected))
    if divides_by_a_constant_zero(text):
        with pytest.raises(FlowError, match="divides by zero"):
            Expression(text).checked(Event, {"w": 5})
        return
    checked = Expression(text).checked(Event, {"w": 5})
    if ZeroDivisionError in expected:
        with pytest.raises(TupleFault) as fault:
            checked.evaluate(block)
        assert expected[fault.value.row] is ZeroDivisionError
        return
    values, present = checked.evaluate(block)
    assert values.tolist() == expected
    assert present is None or present.all()

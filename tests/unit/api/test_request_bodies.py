import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from api.errors import Problem
from api.http import request_bodies
from api.http.request_bodies import MAX_VALUES, parse

JSON, YAML = "application/json", "application/yaml"
DEPTH = 8


def refusal(content, media_type):
    content = content if isinstance(content, bytes) else content.encode()
    with pytest.raises(Problem) as caught:
        parse(content, media_type, DEPTH)
    assert caught.value.kind == "invalid-request"
    return caught.value.detail


def test_json_and_yaml_give_the_same_document():
    document = {"a": [1, 2.5, True, None, "x"], "b": {"c": "é", "d": []}}
    assert parse(json.dumps(document).encode(), JSON, DEPTH) == document
    assert parse(yaml.safe_dump(document).encode(), YAML, DEPTH) == document


def test_yaml_means_what_it_shows():
    text = "a: no\nb: 2026-01-01\nc: 1:30\nd: '1'\ne: 0x10\nf: ~\ng:\nh: 1e3\ni: |\n  two\n  lines\n"
    assert parse(text.encode(), YAML, DEPTH) == {
        "a": "no",
        "b": "2026-01-01",
        "c": "1:30",
        "d": "1",
        "e": "0x10",
        "f": None,
        "g": None,
        "h": 1000.0,
        "i": "two\nlines\n",
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not JSON"),
        ("{", "line 1"),
        ("[]", "must be a mapping"),
        ("3", "must be a mapping"),
        (b"\xff{}", "not UTF-8"),
        ('{"a": NaN}', "'NaN' is not a number"),
        ('{"a": -Infinity}', "not a number"),
        ('{"a": 1e999}', "not a number"),
        ('{"a": 9223372036854775808}', "too large"),
        ('{"a": ' + "9" * 100_000 + "}", "too large"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"a": {"b": 1, "b": 2}}', "twice"),
        (r'{"a": "\ud800"}', "surrogate"),
        (r'{"\ud800": 1}', "surrogate"),
        (r'{"a": ["\u0000"]}', "NUL"),
        ('{"a": ' + "[" * 9 + "]" * 9 + "}", "nested more than 8 deep"),
        ('{"a": ' + "[" * 200_000, "nested more than 8 deep"),
        ('{"a": [' + "0," * MAX_VALUES + "0]}", "more than"),
    ],
    ids=range(18),
)
def test_wrong_json_is_refused(content, reason):
    assert reason in refusal(content, JSON)


BOMB = "a: &a [x, x]\n" + "".join(f"{n}: &{n} [*{p}, *{p}]\n" for p, n in zip("abcdefgh", "bcdefghi", strict=True))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (BOMB, "anchors and aliases are not taken (line 1)"),
        ("a: &x 1", "anchors"),
        ("a: *x", "anchors"),
        ("a: &x [*x]", "anchors"),
        ("a: !!python/object/apply:os.system [ls]", "tags"),
        ("a: !!binary aGk=", "tags"),
        ("a: 1\na: 2", "twice"),
        ("a: 1\n---\nb: 2", "one YAML document"),
        ("1: 2", "keys must be text"),
        ("? [a]\n: 1", "keys must be text"),
        ("? {a: 1}\n: 1", "keys must be text"),
        ("a: .inf", "not a number"),
        ("a: .NaN", "not a number"),
        ("a: 1e999", "not a number"),
        ("a: " + "9" * 5000, "too large"),
        ("a: [", "not YAML"),
        ("a: \x01", "not YAML"),
        ('a: "\\0"', "NUL"),
        ("", "must be a mapping, got nothing"),
        ("- a", "must be a mapping, got a list"),
        ("{a: " + "[" * 200_000, "nested more than 8 deep"),
        ("- " * 100_000, "nested more than 8 deep"),
        ("? " * 100_000, "keys must be text"),
        ("a: [" + "0," * 2 * MAX_VALUES + "]", "more than"),
        (b"\xfe\xff\x00a", "not UTF-8"),
    ],
    ids=range(25),
)
def test_wrong_yaml_is_refused(content, reason):
    assert reason in refusal(content, YAML)


def test_numbers_with_colons_are_no_work():
    text = "a: 1" + ":59" * 300_000
    assert parse(text.encode(), YAML, DEPTH) == {"a": text.removeprefix("a: ")}


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]))  # YAML breaks lines elsewhere
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=30,
)
TEXTS = st.text(st.sampled_from("{}[]:,-?&*!|>'\"#%@` \n\tab01.~é\ud7ff\\u0"), max_size=60)


@given(st.binary(max_size=200) | TEXTS.map(str.encode), st.sampled_from([JSON, YAML]))
def test_whatever_comes_is_a_document_or_a_problem(content, media_type):
    try:
        told = parse(content, media_type, DEPTH)
    except Problem as problem:
        told = {"kind": problem.kind, "detail": problem.detail}
    json.dumps(told, allow_nan=False, ensure_ascii=False).encode()


@given(st.dictionaries(WORDS, PLAIN, max_size=5))
def test_json_is_yaml_of_the_same_meaning(document):
    text = json.dumps(document, ensure_ascii=False).encode()
    assert parse(text, JSON, 64) == parse(text, YAML, 64) == document


class _Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    least: int = 1
    most: int = 8


class _Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = ""
    bounds: list[_Inner] | None = None


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"nam": "q"}, "is no known member; allowed: name, bounds"),
        ({"bounds": [{"larges": 3}]}, "is no known member; allowed: least, most"),
    ],
)
def test_an_unknown_member_is_refused_with_what_is_allowed(document, expected):
    with pytest.raises(ValidationError) as refused:
        _Outer.model_validate(document)
    assert request_bodies._reason(refused.value.errors()[0], _Outer) == expected

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.errors import Problem
from api.registry import requirements

INLINE = """# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "roman>=4",
#   "toolz[extra]==1.2; python_version > '3'",
# ]
# ///
import roman
"""


def test_comments_blanks_and_continued_lines_are_no_requirements():
    text = b"\xef\xbb\xbf# what we need\n\nroman >= 4   # numerals\ntoolz\\\n  <2\r\nroman>=4\n"
    assert requirements.in_file(text) == ["roman>=4", "toolz<2"]


def test_a_module_says_it_inline():
    assert requirements.in_module(INLINE.encode()) == ["roman>=4", 'toolz[extra]==1.2; python_version > "3"']
    assert requirements.in_module(b"import roman\n# dependencies = ['x']\n") == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--index-url example.org", "options of pip"),
        ("-r other.txt", "options of pip"),
        ("-e .", "options of pip"),
        ("roman==5.2 --hash=sha256:00", "options of pip"),
        ("roman @ https://example.org/roman.whl", "names an address"),
        ("git+https://example.org/roman", "requirements such as 'roman>=4'"),
        ("./roman.whl", "requirements such as 'roman>=4'"),
        ("roman=>4", "requirements such as 'roman>=4'"),
    ],
)
def test_what_is_no_plain_requirement_is_refused_with_its_line(line, reason):
    with pytest.raises(Problem, match=r"requirements\.txt, line 2: ") as caught:
        requirements.in_file(f"toolz\n{line}\n".encode())
    assert reason in caught.value.detail
    assert caught.value.kind == "invalid-request"
    assert caught.value.extras["requirement"] == line


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("# dependencies = [", "is not TOML"),
        ("# dependencies = 'roman'", "must be a list of texts"),
        ("# dependencies = ['-r x']", "options of pip"),
    ],
)
def test_inline_metadata_that_is_wrong_is_refused(block, reason):
    with pytest.raises(Problem, match=reason):
        requirements.in_module(f"# /// script\n{block}\n# ///\n".encode())


def test_there_is_a_limit():
    with pytest.raises(Problem, match="at most 100"):
        requirements.in_file("\n".join(f"p{number}" for number in range(101)).encode())


def kind_of_answer(read, content):
    try:
        return "requirements" if all(isinstance(one, str) for one in read(content)) else "something else"
    except Problem as problem:
        return problem.kind


@given(st.binary() | st.text().map(str.encode))
def test_whatever_comes_the_answer_is_requirements_or_a_problem(content):
    for read in (requirements.in_file, requirements.in_module):
        assert kind_of_answer(read, content) in ("requirements", "invalid-request")

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.errors import Problem
from api.http.paging import page


@given(st.sets(st.text(st.characters(codec="utf-8"), max_size=5)), st.integers(1, 5))
def test_pages_give_everything_once_and_in_order(names, limit):
    got, cursor = [], None
    while True:
        found = page(names, str, limit, cursor)
        got += found["items"]
        cursor = found["next"]
        if cursor is None:
            break
    assert got == sorted(names)


@pytest.mark.parametrize("cursor", ["!", "a", "_w", "é", "AA==="])
def test_a_cursor_that_was_not_made_here_is_refused(cursor):
    with pytest.raises(Problem, match="cursor"):
        page(["a"], str, 1, cursor)

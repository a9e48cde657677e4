"""What is shipped for people's own tests."""

import pytest

from gsdm_grid.testing import eventually


def test_what_is_there_at_once_is_given_at_once():
    assert eventually(lambda: "here", timeout_s=0.0) == "here"


def test_what_never_holds_is_told_with_what_was_found_last():
    with pytest.raises(AssertionError, match="not within 0 s; last found: 3"):
        eventually(lambda: 3, lambda found: found > 3, timeout_s=0.0)

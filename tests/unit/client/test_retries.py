import httpx
import pytest

from gsdm_grid.client import RetryPolicy
from gsdm_grid.client.retries import repeatable


def test_pauses_grow_to_a_limit_and_are_shortened_at_random():
    longest, shortest = RetryPolicy(random=lambda: 0.0), RetryPolicy(random=lambda: 1.0)
    assert [longest.pause_s(n) for n in range(3)] == [0.1, 0.2, 0.4]
    assert [shortest.pause_s(n) for n in range(3)] == [0.05, 0.1, 0.2]
    assert longest.pause_s(1000) == 10.0


@pytest.mark.parametrize(("asked", "pause_s"), [("2", 2.0), ("0", 0.1), ("1000", 10.0), ("Wed, 21 Oct 2026", 0.1)])
def test_what_the_server_asks_for_is_heeded_within_limits(asked, pause_s):
    assert RetryPolicy(random=lambda: 0.0).pause_s(0, asked) == pause_s


def test_only_what_does_no_harm_is_repeated():
    broken, refused = httpx.ReadError(""), httpx.ConnectError("")
    assert repeatable("GET", False, broken)
    assert repeatable("POST", True, broken)
    assert not repeatable("DELETE", False, broken)
    assert repeatable("DELETE", False, refused)

"""Waiting, for tests of processes."""

import time

import pytest


@pytest.fixture
def wait_until():
    """Wait until something holds."""

    def wait(holds, timeout_s=30.0):
        deadline_s = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < deadline_s
            time.sleep(0.01)

    return wait

"""Airflow is imported as a library here: it must not set up its home, its logging or a database in this process."""

import os
import tempfile
import time

import pytest

os.environ["_AIRFLOW__AS_LIBRARY"] = "1"
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="gsdm-airflow-"))


@pytest.fixture
def wait_until():
    """Wait until something holds."""

    def wait(holds, timeout_s=30.0):
        deadline_s = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < deadline_s
            time.sleep(0.01)

    return wait

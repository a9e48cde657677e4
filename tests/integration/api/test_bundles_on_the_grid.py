"""Uploaded functions reach Ray actors and Spark tasks that have never seen them, by version."""

import numpy as np
import pytest

from gsdm_grid.client import Client

BUNDLE = """
from gsdm_grid import Radio, current_window, sqf

FACTOR = {factor}


def constant(x):
    "Used by the function: it travels with it."
    return 0 * x + FACTOR


@sqf(Radio, whole=True)
def level(s):
    "A constant instead of x."
    v = current_window(s)
    return v.replace(x=constant(v.x))
"""


@pytest.mark.slow
def test_a_running_query_keeps_the_version_it_was_compiled_with(own_service):
    service = own_service("--placement", "grid").start()
    source = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "rate": 200}}
    spec = {"inputs": [source], "flow": {"template": "PCC", "args": [2, "RRpart", "mylib.level", {}, "S-Merge"]}}
    with Client(service.url, service.token) as client:

        def latest(name):
            block = next(iter(client.result_blocks(name, start="latest")))
            return set(np.unique(block.x.real).tolist())

        client.upload_bundle("mylib", BUNDLE.format(factor=1).encode())
        client.submit({"name": "first", **spec})
        client.run("first", timeout_s=180)
        assert latest("first") == {1.0}
        client.upload_bundle("mylib", BUNDLE.format(factor=2).encode())
        client.submit({"name": "second", **spec})
        client.run("second", timeout_s=180)
        assert latest("second") == {2.0}
        assert latest("first") == {1.0}
        sites = {site["host"] for site in client.sites()}
        assert {"ray", "spark"} <= sites

"""Uploaded functions and packages that they require reach Ray actors and Spark tasks new to them, by version."""

import numpy as np
import pytest

from gsdm_grid.client import ApiProblem, Client

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


SPLIT = """
from gsdm_grid import Radio, current_window, sqf
from gsdm_grid.functions import window_split


@sqf(Radio, whole=True, kind="partitioning")
def part(s, n, i):
    "Every n-th sample."
    v = current_window(s)
    return v.replace(**{c: v[c][..., i::n] for c in "xyz"})


@sqf(Radio, whole=True, strategies=(window_split("part", "fcombine"),))
def f(s):
    "Twice the samples."
    v = current_window(s)
    return v.replace(**{c: 2 * v[c] for c in "xyz"})


@sqf(Radio, whole=True, kind="combine")
def fcombine(parts):
    "Interleave the samples."
    import numpy as np

    return parts[0].replace(**{c: np.stack([p[c] for p in parts], -1).reshape(len(parts[0]), -1) for c in "xyz"})
"""
SPLIT_FLOWS = {
    "named": {
        "flow": {"template": "PCC", "args": [2, "lib.part", "lib.f", {}, "OS-Join", {"combine": "lib.fcombine"}]}
    },
    "declared": {"function": "lib.f", "plan": {"strategy": "window_split", "degree": 2}},
}


def split_results(service, how, placement):
    source = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64}}
    with Client(service.url, service.token) as client:
        client.upload_bundle("lib", SPLIT.encode())
        blocks = []
        for name, work in (("whole", {"function": "lib.f"}), ("split", SPLIT_FLOWS[how])):
            client.submit({"name": name, "inputs": [source], "placement": placement, "stop": {"count": 20}, **work})
            client.run(name, timeout_s=180)
            blocks.append(np.concatenate([block.x for block in client.result_blocks(name)]))
            client.drop(name)
        client.remove_bundle("lib")
        return blocks


@pytest.mark.parametrize("how", SPLIT_FLOWS)
def test_a_bundle_splits_windows_by_functions_of_its_own_on_threads(service, how):
    whole, split = split_results(service, how, "threads")
    assert np.array_equal(whole, split)


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["grid", "ray"])
def test_a_combine_function_that_a_parameter_names_reaches_all_hosts(grid_service, placement):
    whole, split = split_results(grid_service, "named", placement)
    assert np.array_equal(whole, split)


@pytest.mark.slow
def test_a_running_query_keeps_the_version_it_was_compiled_with(grid_service):
    source = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "rate": 200}}
    spec = {"inputs": [source], "flow": {"template": "PCC", "args": [2, "RRpart", "mylib.level", {}, "S-Merge"]}}
    with Client(grid_service.url, grid_service.token) as client:

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
        for name in ("first", "second"):
            client.drop(name)


WITH_PACKAGES = """
# /// script
# dependencies = ["gsdm_test_factor=={version}"]
# ///
import gsdm_test_factor
from gsdm_grid import Radio, current_window, sqf


@sqf(Radio, whole=True)
def level(s):
    "A constant from a package, and another from one that is imported late."
    from gsdm_test_offset import OFFSET

    v = current_window(s)
    return v.replace(x=0 * v.x + gsdm_test_factor.FACTOR + OFFSET)
"""


@pytest.mark.slow
def test_packages_that_a_bundle_requires_reach_all_hosts_by_version(grid_service, make_wheel):
    for factor in (1, 2):
        requires = [f"gsdm_test_offset=={factor}"]
        make_wheel(grid_service.wheels, "gsdm_test_factor", str(factor), f"FACTOR = {factor}\n", requires)
        make_wheel(grid_service.wheels, "gsdm_test_offset", str(factor), f"OFFSET = {factor * 10}\n")
    source = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "rate": 200}}
    spec = {"inputs": [source], "flow": {"template": "PCC", "args": [2, "RRpart", "packed.level", {}, "S-Merge"]}}
    with Client(grid_service.url, grid_service.token) as client:

        def latest(name):
            block = next(iter(client.result_blocks(name, start="latest")))
            return set(np.unique(block.x.real).tolist())

        for version, expected in ((1, {11.0}), (2, {22.0})):
            made = client.upload_bundle("packed", WITH_PACKAGES.format(version=version).encode())
            assert made.packages == (f"gsdm-test-factor=={version}", f"gsdm-test-offset=={version}")
            for placement in ("grid", "ray"):
                name = f"{placement}{version}"
                client.submit({"name": name, "placement": placement, **spec})
                client.run(name, timeout_s=180)
                assert latest(name) == expected
        assert [latest(name) for name in ("grid1", "ray1")] == [{11.0}, {11.0}]
        assert {"ray", "spark"} <= {site["host"] for site in client.sites()}
        kept = {path.name for path in (grid_service.cache / "gsdm" / "packages").glob("*[!k]")}
        assert kept == {path.stem for path in (grid_service.home / "packages").glob("*.zip")}

        client.scale("grid1", 3, timeout_s=120)  # new working nodes, compiled anew
        assert latest("grid1") == {11.0}
        client.drop("grid1")
        client.submit({"name": "after", **spec})  # its Spark tasks find Python workers that the dropped query left
        client.run("after", timeout_s=120)
        assert latest("after") == {22.0}
        with pytest.raises(ApiProblem, match="threads of the coordinator cannot have"):
            client.submit({"name": "threads", "placement": "threads", **spec})
        for name in ("after", "grid2", "ray1", "ray2"):
            client.drop(name)

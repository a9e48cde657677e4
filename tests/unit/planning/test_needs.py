"""What hosts must have, and which sites belong together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid import Radio
from gsdm_grid.compiler import compile_flow
from gsdm_grid.errors import FlowError
from gsdm_grid.flow import PCC, build
from gsdm_grid.plan import (
    GRID,
    RAY,
    Demands,
    Needs,
    StreamSpec,
    check_sites,
    site_groups,
)
from gsdm_grid.spec import parse_demands


def plan(flow=None, policy=RAY, live=False):
    flow = flow or PCC(3, "RRpart", "fft3", {}, "S-Merge")
    return compile_flow("q", flow, [StreamSpec("in", "tcp", Radio)], [StreamSpec("out", "tcp", live=live)], policy)


def test_a_site_has_the_needs_of_its_role_unless_something_is_said_of_the_site_itself():
    demands = parse_demands({"sites": {"compute": {"cpus": 2}, "compute.1": {"cpus": 0.5, "near": "antenna-3"}}})
    made = plan()
    assert demands.of(made.site("compute.0")) == Needs(2.0)
    assert demands.of(made.site("compute.1")) == Needs(0.5, labels={"near": "antenna-3"})
    assert demands.of(made.site("partition.0")) == Needs()


def test_the_pool_of_the_query_is_the_pool_of_sites_that_name_none():
    demands = parse_demands({"pool": "home", "sites": {"source": {"pool": "field"}}})
    made = plan(policy=GRID, flow=build("fft3"))
    assert demands.of(made.site("source.0")).pool == "field"
    assert demands.of(made.site("compute.0")).pool == "home"


def test_relays_belong_to_the_sites_they_serve_and_compute_sites_stand_alone():
    made = plan(flow=build({"template": "PCC", "args": [2, "RRpart", "fft3", {}, "S-Merge"]}), policy=GRID)
    found = site_groups(made, [site for site in made.sites if site.host == "ray"], Demands())
    assert [bundle.sites for bundle in found] == [("partition.0",), ("combine.0",)]
    found = site_groups(plan(), plan().sites, Demands())
    assert {bundle.sites for bundle in found if bundle.apart} == {("compute.0",), ("compute.1",), ("compute.2",)}


@given(st.integers(1, 6), st.sampled_from([RAY, GRID]), st.booleans())
def test_every_site_is_in_exactly_one_bundle_and_nothing_is_asked_for_twice(degree, policy, live):
    made = plan(PCC(degree, "RRpart", "fft3", {}, "S-Merge"), policy, live)
    found = site_groups(made, made.sites, Demands())
    assert sorted(site for bundle in found for site in bundle.sites) == sorted(site.id for site in made.sites)
    assert sum(bundle.needs.cpus for bundle in found) == len(made.sites)


def test_sites_with_other_labels_are_not_put_together():
    made = plan(policy=RAY, live=True)
    demands = parse_demands({"sites": {"combine": {"near": "a"}, "sink": {"near": "b"}}})
    found = site_groups(made, made.sites, demands)
    assert all(len(bundle.sites) == 1 for bundle in found)


@pytest.mark.parametrize(
    ("given_", "text"),
    [
        (3, "resources: expected a mapping, got int"),
        ({"polo": 1}, "has no member 'polo'; allowed: pool, deadline_s, sites"),
        ({"deadline_s": -1}, "resources.deadline_s: expected a number from 0 to 1e9, got -1"),
        ({"sites": {"compute": {"cpu": 1}}}, "resources.sites.compute: has no member 'cpu'; allowed: cpus, memory_mb"),
        ({"sites": {"compute": {"cpus": True}}}, "resources.sites.compute.cpus: expected a number"),
        ({"sites": {"compute": {"near": 3}}}, "resources.sites.compute.near: expected a text, got 3"),
        ({"sites": {"compute": {"resources": {"gpu": "x"}}}}, "resources.sites.compute.resources.gpu"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(given_, text):
    with pytest.raises(FlowError, match=text.replace("[", r"\[")):
        parse_demands(given_)


def test_a_site_that_does_not_exist_is_refused():
    with pytest.raises(FlowError, match=r"no site or role 'compute.9'; there are: source, partition"):
        check_sites(parse_demands({"sites": {"compute.9": {}}}), plan())

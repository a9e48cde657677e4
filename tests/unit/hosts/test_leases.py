"""What a cluster can never host, told in advance."""

from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid.hosts.leases import Machine, described, obstacle
from gsdm_grid.plan import Needs, SiteGroup

SMALL = Machine({"CPU": 4.0, "memory": 8e9}, {"near": "antenna-3"})


def bundle(name="q/partition", **needs):
    return SiteGroup((name,), Needs(**needs))


def test_what_fits_has_no_obstacle():
    assert obstacle([bundle(cpus=4)], [SMALL]) is None
    assert obstacle([bundle(cpus=1, labels={"near": "antenna-3"})], [SMALL]) is None


def test_a_bundle_that_fits_no_machine_is_named_with_what_it_asks_for():
    assert obstacle([bundle(cpus=5)], [SMALL, SMALL]) == "no machine has 5 CPUs for q/partition"
    told = obstacle([bundle(labels={"near": "pluto"})], [SMALL])
    assert told == "no machine has 1 CPUs on a machine labelled near=pluto for q/partition"
    assert obstacle([bundle(memory_mb=9000)], [SMALL]) == "no machine has 1 CPUs, 9000 MB of memory for q/partition"


def test_more_than_all_machines_have_is_refused_in_all():
    told = obstacle([bundle(f"q/{i}", cpus=3) for i in range(3)], [SMALL, SMALL])
    assert told == "it asks for 9 CPUs in all, and there are 8 CPUs"


def test_with_an_autoscaler_machines_may_come_that_nobody_knows_yet_up_to_a_limit():
    assert obstacle([bundle(f"q/{i}", cpus=3, labels={"near": "x"}) for i in range(3)], [], 10) is None
    told = obstacle([bundle(f"q/{i}", cpus=4) for i in range(11)], [SMALL], 40)
    assert told == "it asks for 44 CPUs, and there are 40 at most"


@given(st.lists(st.floats(0.1, 8), min_size=1, max_size=8), st.integers(1, 4))
def test_no_obstacle_means_that_every_bundle_fits_a_machine_and_all_fit_in_sum(cpus, machines):
    found = obstacle([bundle(f"q/{i}", cpus=amount) for i, amount in enumerate(cpus)], [SMALL] * machines)
    assert (found is None) == (max(cpus) <= 4 and sum(cpus) <= 4 * machines)


def test_amounts_are_told_without_what_only_names_a_machine():
    assert described({"CPU": 2.0, "node:10.0.0.1": 1.0, "memory": 5e6}) == "2 CPUs, 5 MB of memory"
    assert described({}) == "nothing"

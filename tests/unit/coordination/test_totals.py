"""What a query has counted in all, while its sites begin to count anew."""

from gsdm_grid import Radio
from gsdm_grid.coordination.totals import Totals
from gsdm_grid.plan import PlanStream

STREAMS = [PlanStream("s", "source", Radio), PlanStream("a→b", "channel", Radio), PlanStream("out", "sink", Radio)]


def source(windows, **more):
    return {"streams": {"s": {"windows": windows, "bytes": 8 * windows, **more}}, "operators": {}}


def merge(windows, late=0, incomplete=0):
    operators = {"S-Merge.0": {"late": late}, "OS-Join.0": {"incomplete": incomplete, "late": 0}}
    return {"streams": {"out": {"windows": windows, "bytes": windows}}, "operators": operators}


def test_before_anything_has_been_told_all_totals_are_zero():
    document = Totals().document(STREAMS, {})
    assert document == {
        "read": {"s": {"windows": 0, "bytes": 0, "dropped": {}}},
        "delivered": {"out": {"windows": 0, "bytes": 0, "dropped": {}}},
        "dropped": {},
    }


def test_sites_that_count_anew_and_sites_that_have_gone_are_in_the_totals():
    totals = Totals()
    totals.add(source(100))
    totals.add(merge(90, late=3, incomplete=7))
    document = totals.document(STREAMS, {"partition.0": source(10), "combine.0": merge(8, late=2)})
    assert document["read"]["s"]["windows"] == 110
    assert document["delivered"]["out"]["windows"] == 98
    assert document["dropped"] == {"late": 5, "incomplete": 7}


def test_an_interface_counts_on_so_what_it_dropped_is_not_counted_twice():
    totals = Totals()
    totals.add(source(100, dropped_oldest=4, dropped_malformed=0))
    document = totals.document(STREAMS, {"partition.0": source(10, dropped_oldest=5, dropped_oldest_samples=320)})
    assert document["read"]["s"]["dropped"] == {"oldest": 5}


def test_interfaces_that_begin_anew_count_from_zero_and_what_those_before_dropped_is_kept():
    totals = Totals()
    before = totals.end_interfaces(source(100, dropped_oldest=4, dropped_oldest_samples=320))
    assert totals.document(STREAMS, {"partition.0": before})["read"]["s"]["dropped"] == {"oldest": 4}
    totals.add(before)
    after = totals.end_interfaces(source(10, dropped_oldest=1, dropped_late=2))
    totals.add(after)
    document = totals.document(STREAMS, {"partition.0": source(1, dropped_oldest=5)})
    assert document["read"]["s"] == {"windows": 111, "bytes": 888, "dropped": {"oldest": 10, "late": 2}}

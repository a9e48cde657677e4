"""Plans are plain data."""

import json

from gsdm_grid import PCC, Radio
from gsdm_grid.compiler import compile_flow
from gsdm_grid.plan import GRID, Plan, StreamSpec


def test_a_plan_round_trips_through_json_and_finds_its_parts():
    flow = PCC(2, ("RRpart", {"run": 3}), "xmagn", {"threshold": 1.5}, "S-Merge", 0.1)
    source = StreamSpec("in", "udp", Radio, {"address": "127.0.0.1:0", "nested": {"a": [1, 2]}})
    plan = compile_flow("q", flow, [source], [StreamSpec("out", "result", live=True)], GRID)
    back = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert back == plan
    assert back.stream("in").options == {"address": "127.0.0.1:0", "nested": {"a": [1, 2]}}
    assert back.site("compute.1").operators[0].params == {"threshold": 1.5}
    assert {stream.name for stream in back.streams_of("partition.0")} == {
        "in",
        "RRpart.0→compute.0",
        "RRpart.1→compute.1",
    }

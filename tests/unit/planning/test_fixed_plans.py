"""Flows with a fixed plan: which functions they run, and which of them cannot be optimized."""

import pytest

from gsdm_grid.errors import FlowError
from gsdm_grid.optimizer.fixed_plans import stages_of


def pcc(*args):
    return {"template": "PCC", "args": list(args)}


FFT3_SPLIT = pcc(2, "fft3part", "fft3", {}, "OS-Join", {"combine": "fft3combine"})
OPEN = {
    "window distribute": (pcc(2, "RRpart", "fft3", {}, "S-Merge"), [("fft3", {})]),
    "several windows in turn": (pcc(4, ["RRpart", {"run": 8}], "fft3", {}, "S-Merge"), [("fft3", {})]),
    "window split": (FFT3_SPLIT, [("fft3", {})]),
    "arguments by name": (
        {"template": "PCC", "n": 2, "partfun": "RRpart", "fun": "fft3", "params": None, "combfun": "S-Merge"},
        [("fft3", None)],
    ),
    "a tree": (pcc(2, "RRpart", FFT3_SPLIT, None, "S-Merge"), [("fft3", {})]),
    "a tree by name": (
        pcc(2, "RRpart", "PCC", [2, "RRpart", "fft3", {}, "S-Merge"], "S-Merge"),
        [("fft3", {})],
    ),
    "a strategy by name": ({"template": "parallelize", "args": ["fft3", {}, "window_split", 2]}, [("fft3", {})]),
    "a pipe of both": (
        {"template": "pipe", "args": [pcc(2, "RRpart", "fft3", {}, "S-Merge"), "polarize", {}]},
        [("fft3", {}), ("polarize", {})],
    ),
    "fused stages": (
        pcc(2, "RRpart", {"template": "lpipe", "args": ["fft3", "polarize"]}, None, "S-Merge"),
        [("fft3", None), ("polarize", None)],
    ),
}


@pytest.mark.parametrize("case", OPEN)
def test_the_functions_of_a_fixed_plan_are_known(case):
    flow, expected = OPEN[case]
    assert [(stage.function.name, stage.params) for stage in stages_of(flow)] == expected


FIXED = {
    "no strategy of the function": (
        pcc(2, "RRpart", "fft3", {}, "OS-Join", {"combine": "fft3combine"}),
        "'RRpart' and 'OS-Join', which is not a strategy that 'fft3' declares",
    ),
    "another combine function": (
        pcc(2, "fft3part", "fft3", {}, "OS-Join", {"combine": "polarize"}),
        "not a strategy that 'fft3' declares",
    ),
    "branches that differ": (pcc(2, "RRpart", "aggregate", {"size": "#"}, "S-Merge"), "depend on the branch"),
    "a splitstream plan": ({"template": "fsplit", "args": [2, "route"]}, "'fsplit' leaves nothing to choose"),
    "a whole graph": ({"vertices": []}, "is a whole graph"),
}


@pytest.mark.parametrize("case", FIXED)
def test_what_cannot_be_optimized_says_why(case):
    flow, reason = FIXED[case]
    with pytest.raises(FlowError, match=reason):
        stages_of(flow)

"""What splitting costs is measured by running plans."""

import json
import math

import pytest
from typer.testing import CliRunner

from gsdm_grid import cli
from gsdm_grid.trials.split_trials import ATTRIBUTES, BFN, RFN
from gsdm_grid.tuning.split_profile import kept_profile
from gsdm_grid.tuning.window_size import memory_file

W = 64
DOCUMENT = {
    "name": "roads",
    "inputs": [
        {
            "type": {"name": "SplitTuple", "attributes": dict.fromkeys(ATTRIBUTES, "int32")},
            "interface": "generator",
            "options": {
                "function": "gsdm_grid.trials.split_trials:tuple_stream",
                "params": {"n": 5000, "w": W, "b": 0.01, "o": 0.2},
            },
        }
    ],
    "flow": {
        "template": "pipe",
        "args": [
            {"template": "splitstream", "w": W, "rfn": RFN, "bfn": BFN},
            {"template": "mapstream", "fun": "identity", "params": {}, "w": W},
        ],
    },
    "outputs": [{"name": f"out{number}", "interface": "null"} for number in range(W)],
    "placement": "threads",
}


@pytest.fixture
def gsdm(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GSDM_HOME", str(tmp_path / "home"))
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments, **more: runner.invoke(cli.app, list(arguments), **more)


@pytest.mark.slow
def test_splitting_is_profiled_and_kept(gsdm):
    shown = gsdm("profile", "split", "--quick", "--json")
    assert shown.exit_code == 0, shown.output
    kept = kept_profile("threads")
    assert kept is not None
    found = kept.coefficients  # which of them a short run on a busy machine tells apart is a matter of luck
    assert all(math.isfinite(value) and value >= 0 for value in found.to_json().values())
    assert found.cc + found.cp + found.ce + found.crW + found.ceW > 1e-9
    assert found.router + found.cr + found.cm + found.cmW > 1e-9
    assert not memory_file().exists()  # the choice of `gsdm tune` is not touched
    assert gsdm("explain", json.dumps(DOCUMENT)).exit_code == 0

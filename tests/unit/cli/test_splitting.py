"""`gsdm explain` and `gsdm profile split` at the terminal."""

import json
import re

import pytest
import yaml
from typer.testing import CliRunner

from gsdm_grid import cli
from gsdm_grid.splitting.split_choice import PLANS
from gsdm_grid.splitting.split_cost import Coefficients
from gsdm_grid.trials.split_trials import (
    ATTRIBUTES,
    BFN,
    RFN,
    TUPLE_BYTES,
)
from gsdm_grid.tuning.split_profile import SplitProfile, keep_profile

COEFFICIENTS = Coefficients(
    cc=5e-9, cp=2e-8, ce=1e-9, crW=2e-5, ceW=1e-5, cr=1e-9, cm=2e-8, cmW=3e-5, cpoll=1e-6, router=5e-5
)
PROFILE = SplitProfile("threads", COEFFICIENTS, TUPLE_BYTES, 2 << 20, 3e-9, 0.0, 0.05, "2026-01-01T00:00:00+00:00")


@pytest.fixture
def gsdm(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GSDM_HOME", str(tmp_path / "home"))
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments, **more: runner.invoke(cli.app, list(arguments), **more)


def document(b=0.01, o=0.2, w=64, **split):
    split = {"template": "splitstream", "w": w, "rfn": RFN, "bfn": BFN, **split}
    return {
        "name": "roads",
        "inputs": [
            {
                "type": {"name": "SplitTuple", "attributes": dict.fromkeys(ATTRIBUTES, "int32")},
                "interface": "generator",
                "options": {
                    "function": "gsdm_grid.trials.split_trials:tuple_stream",
                    "params": {"n": 5000, "w": w, "b": b, "o": o},
                },
            }
        ],
        "flow": {
            "template": "pipe",
            "args": [split, {"template": "mapstream", "fun": "identity", "params": {}, "w": w}],
        },
        "outputs": [{"name": f"out{number}", "interface": "null"} for number in range(w)],
        "placement": "threads",
    }


def test_explain_shows_every_plan_and_why_one_is_taken(gsdm):
    keep_profile(PROFILE)
    shown = gsdm("explain", json.dumps(document()), "--rate", "1e8")
    assert shown.exit_code == 0, shown.output
    for plan in PLANS:
        assert re.search(rf"│ {plan}\b", shown.output)
    assert "take parasplit: it costs least CPU of the plans that reach 100,000,000 tuples/s" in shown.output
    assert "too slow: fsplit, exptree, maxtree" in shown.output
    assert "by equation 3 for 1e+08 tuples/s" in shown.output


def test_explain_measures_what_becomes_of_the_tuples(gsdm):
    keep_profile(PROFILE)
    told = json.loads(gsdm("explain", json.dumps(document(b=0.02, o=0.3)), "--json", "--sample", "20000").output)
    assert told["sample"]["tuples"] == 20_000
    assert told["sample"]["o"] == pytest.approx(0.3, abs=0.02)
    assert 0.27 < told["shares"]["o"] < told["sample"]["o"]
    assert told["sample"]["b"] < told["shares"]["b"] < 0.03
    assert told["sample"]["deciding_s"] > 0
    assert [one["plan"] for one in told["plans"]] == list(PLANS)
    assert told["chosen"] in PLANS


def test_a_query_without_broadcast_lets_autosplit_be_fsplit(gsdm):
    keep_profile(PROFILE)
    told = json.loads(gsdm("explain", json.dumps(document(b=0.0, bfn=None)), "--json").output)
    autosplit = next(one for one in told["plans"] if one["plan"] == "autosplit")
    assert autosplit["is"] == "fsplit"
    told = json.loads(gsdm("explain", json.dumps(document()), "--json").output)
    assert next(one for one in told["plans"] if one["plan"] == "autosplit")["is"] == "exptree"


def test_shares_that_are_given_go_before_the_sample(gsdm):
    keep_profile(PROFILE)
    told = json.loads(gsdm("explain", json.dumps(document()), "--json", "-b", "0.5", "-o", "0", "-p", "3").output)
    assert told["shares"]["b"] == 0.5
    assert told["shares"]["o"] == 0
    assert told["plans"][-1]["p"] == 3
    unseen = json.loads(gsdm("explain", json.dumps(document()), "--json", "--sample", "0").output)
    assert unseen["sample"] is None
    assert unseen["shares"]["b"] == 0.01
    assert "the broadcast share is not known: taken as 1%" in unseen["notes"]


def test_explain_reads_a_file(gsdm, tmp_path):
    keep_profile(PROFILE)
    path = tmp_path / "query.yaml"
    path.write_text(yaml.safe_dump(document()))
    assert gsdm("explain", str(path)).exit_code == 0


def test_without_a_profile_explain_says_how_to_get_one(gsdm):
    shown = gsdm("explain", json.dumps(document()))
    assert shown.exit_code == 1
    assert "run 'gsdm profile split --placement threads' first" in shown.output


def test_costs_of_another_placement_are_used_but_said(gsdm):
    keep_profile(PROFILE)
    told = json.loads(gsdm("explain", json.dumps({**document(), "placement": "grid"}), "--json").output)
    assert "costs were measured on 'threads', but the query runs on 'grid'" in told["notes"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([1], "a query is a mapping"),
        ({**document(), "inputs": ["cars"]}, "'cars' is registered at a coordinator"),
    ],
)
def test_what_cannot_be_explained_is_refused(gsdm, given, reason):
    keep_profile(PROFILE)
    shown = gsdm("explain", json.dumps(given))
    assert shown.exit_code == 1
    assert reason in shown.output


def test_a_query_in_which_nothing_is_split_needs_no_profile_and_shows_its_flow(gsdm):
    radio = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64}}
    query = {
        "name": "spectra",
        "inputs": [radio],
        "flow": {"template": "PCC", "args": [2, "RRpart", "fft3", {}, "S-Merge"]},
    }
    shown = gsdm("explain", json.dumps(query))
    assert shown.exit_code == 0, shown.output
    assert "spectra: no stream is split" in shown.output
    assert "S-Merge" in shown.output
    assert json.loads(gsdm("explain", json.dumps(query), "--json").stdout)["split"] is None


def test_a_name_that_nobody_knows_is_said_to_be_unknown(gsdm):
    shown = gsdm("explain", "nobody")
    assert shown.exit_code != 0
    assert "there is no query 'nobody'" in str(shown.output) + str(shown.exception)

"""What splitting costs here is kept by placement, for this machine only, beside the choice of `gsdm tune`."""

import json
from dataclasses import replace

import pytest

from gsdm_grid.errors import QueryError
from gsdm_grid.splitting.split_cost import Coefficients
from gsdm_grid.tuning import window_size
from gsdm_grid.tuning.split_profile import (
    SplitProfile,
    keep_profile,
    kept_profile,
    needed_profile,
    profile_file,
)

MEASURED = SplitProfile(
    placement="threads",
    coefficients=Coefficients(cc=5e-9, cp=2e-8, ce=1e-9, crW=2e-5, ceW=1e-5, cr=1e-9, cm=2e-8),
    tuple_bytes=68.0,
    block_bytes=1 << 20,
    deciding_s=3e-9,
    channel_bytes_s=5e9,
    error=0.05,
    measured_at="2026-01-01T00:00:00+00:00",
)


def test_a_profile_is_kept_by_placement(tmp_path):
    path = tmp_path / "deep" / "split.json"
    assert kept_profile("threads", path) is None
    keep_profile(MEASURED, path)
    keep_profile(replace(MEASURED, placement="ray", error=0.1), path)
    assert kept_profile("threads", path) == MEASURED
    assert kept_profile("ray", path).error == 0.1
    keep_profile(replace(MEASURED, error=0.2), path)
    assert kept_profile("threads", path).error == 0.2
    assert kept_profile("ray", path) is not None


def test_a_profile_of_another_machine_or_version_is_not_used(tmp_path):
    path = keep_profile(MEASURED, tmp_path / "split.json")
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "hardware": "another machine"}))
    assert kept_profile("threads", path) is None
    del told["profiles"]["threads"]["error"]
    path.write_text(json.dumps(told))
    assert kept_profile("threads", path) is None
    path.write_text("no JSON")
    assert kept_profile("threads", path) is None


def test_it_does_not_touch_what_tune_has_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    window_size.remember(window_size.SizeChoice(1 << 19, {}))
    keep_profile(MEASURED)
    assert window_size.remembered_block_bytes() == 1 << 19
    assert profile_file() != window_size.memory_file()
    assert kept_profile("threads") == MEASURED


def test_a_missing_profile_says_how_to_get_one(tmp_path):
    path = keep_profile(MEASURED, tmp_path / "split.json")
    with pytest.raises(QueryError, match=r"on 'grid' \(known: threads\): run 'gsdm profile split --placement grid'"):
        needed_profile("grid", path)


def test_larger_tuples_cost_more_to_move_but_not_more_to_decide():
    same = MEASURED.coefficients_for(68.0)
    assert same == MEASURED.coefficients
    double = MEASURED.coefficients_for(136.0)
    assert double.cc == pytest.approx(2 * 2e-9 + 3e-9)
    assert double.cp == pytest.approx(4e-8)
    assert double.crW == same.crW
    slow_rfn = MEASURED.coefficients_for(68.0, deciding_s=1e-6)
    assert slow_rfn.cc == pytest.approx(2e-9 + 1e-6)

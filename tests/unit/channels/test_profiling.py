"""The size of physical windows is chosen by measurement and remembered per machine."""

from __future__ import annotations

import json

import pytest

from gsdm_grid.tuning.window_size import (
    SizeChoice,
    choose,
    remember,
    remembered_block_bytes,
)


@pytest.mark.parametrize("top", [1 << 17, 1 << 18, 1 << 20, 1 << 22])
def test_doubling_stops_where_throughput_no_longer_gains(top):
    measured = []

    def measure(size):
        measured.append(size)
        return 1e9 * min(size, top) / top

    assert choose(measure).block_bytes == top
    assert measured == [1 << k for k in range(16, top.bit_length() + 1)]


def test_a_gain_of_less_than_the_threshold_is_no_gain():
    assert choose(lambda size: min(size, 1 << 18) * (1.001 if size > 1 << 18 else 1)).block_bytes == 1 << 18


def test_a_choice_is_remembered_for_this_machine_only(tmp_path):
    path = tmp_path / "deep" / "machine.json"
    assert remembered_block_bytes(path) is None
    remember(SizeChoice(1 << 20, {1 << 20: 1e9}), path)
    assert remembered_block_bytes(path) == 1 << 20
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "hardware": "another machine"}))
    assert remembered_block_bytes(path) is None
    path.write_text("not json")
    assert remembered_block_bytes(path) is None

"""Channels between two processes are measured."""

from __future__ import annotations

import pytest

from gsdm_grid.errors import ChannelError
from gsdm_grid.tuning import window_size


def test_a_real_channel_between_two_processes_can_be_measured():
    assert window_size.measure_channel(1 << 18, total_bytes=1 << 24, rounds=1) > 0


def test_a_reader_that_does_not_start_is_reported_and_not_waited_for(monkeypatch):
    monkeypatch.setattr(window_size, "_consume", slice)  # a process that takes the same and ends at once
    with pytest.raises(ChannelError, match="could not be started"):
        window_size.measure_channel(1 << 16, 1 << 20, 1)

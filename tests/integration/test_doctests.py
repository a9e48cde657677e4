"""The examples in docstrings run that start a grid or wait; all others are in `tests/unit`."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["gsdm_grid", "gsdm_grid.testing"])
def test_examples_in_docstrings_run(name):
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted
    assert outcome.failed == 0

"""The examples in docstrings run; those that start a grid or wait, in `tests/integration`."""

import doctest
import importlib
import pkgutil

import pytest

import gsdm_grid

STARTS_RAY = {"gsdm_grid.apps.demo.run", "gsdm_grid.apps.demo.view"}
STARTS_OR_WAITS = {"gsdm_grid", "gsdm_grid.testing"}
MODULES = {"gsdm_grid", *(found.name for found in pkgutil.walk_packages(gsdm_grid.__path__, "gsdm_grid."))}


@pytest.mark.parametrize("name", sorted(MODULES - STARTS_RAY - STARTS_OR_WAITS))
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(name)
    outcome = doctest.testmod(module)
    assert outcome.failed == 0


def test_there_are_examples_to_run():
    finder = doctest.DocTestFinder(exclude_empty=True)
    assert any(test.examples for test in finder.find(gsdm_grid))

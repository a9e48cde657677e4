"""The examples in docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import gsdm_grid

STARTS_RAY = {"gsdm_grid.apps.demo.run", "gsdm_grid.apps.demo.view"}
MODULES = sorted(
    {"gsdm_grid", *(found.name for found in pkgutil.walk_packages(gsdm_grid.__path__, "gsdm_grid."))} - STARTS_RAY
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(name)
    outcome = doctest.testmod(module)
    assert outcome.failed == 0


def test_there_are_examples_to_run():
    finder = doctest.DocTestFinder(exclude_empty=True)
    assert any(test.examples for test in finder.find(gsdm_grid))

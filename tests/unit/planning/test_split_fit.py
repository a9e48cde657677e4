"""Coefficients of the cost models are found again from what sites spent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid.errors import QueryError
from gsdm_grid.splitting.split_cost import Coefficients
from gsdm_grid.splitting.split_fit import (
    Observed,
    explained_s,
    fit,
    median_error,
)

KNOWN = Coefficients(cc=5e-9, cp=2e-8, ce=1e-9, crW=2e-5, ceW=1e-5, cr=1e-9, cm=2e-8, cmW=3e-5, cpoll=1e-6, router=5e-5)


def splitter(given, w, b, n, tuples=1_000_000):
    emitted, windows = round(tuples * (1 - b + w * b)), tuples // n
    processing = given.cc * tuples + given.cp * emitted + windows * given.crW
    return Observed(
        "splitter", tuples, emitted, emitted, windows, w, 1, processing, given.ce * emitted + windows * w * given.ceW
    )


def others(given):
    for inputs in (1, 2, 8):
        for n in (100, 10_000):
            spent = explained_s(given, Observed("processor", 1_000_000, 0, 0, 1_000_000 // n, 0, inputs, 0, 0))
            yield Observed("processor", 1_000_000, 0, 0, 1_000_000 // n, 0, inputs, spent / 2, spent / 2)
    yield Observed("router", 1_000_000, 0, 0, 400, 4, 1, 0.01, 400 * given.router - 0.01)


SETTINGS = [(w, b, n) for w in (1, 8, 64) for b in (0.0, 0.05) for n in (500, 30_000)]


def test_the_coefficients_that_made_the_costs_are_found_again():
    observed = [*(splitter(KNOWN, *setting) for setting in SETTINGS), *others(KNOWN)]
    found = fit(observed)
    for name, value in KNOWN.to_json().items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-3), name
    assert median_error(found, observed) < 1e-3


@given(st.lists(st.floats(0.9, 1.1), min_size=len(SETTINGS), max_size=len(SETTINGS)))
def test_noise_of_a_tenth_leaves_an_error_of_about_a_tenth(noise):
    observed = [splitter(KNOWN, *setting) for setting in SETTINGS]
    disturbed = [
        Observed(**{**vars(one), "processing_s": one.processing_s * by, "communication_s": one.communication_s * by})
        for one, by in zip(observed, noise, strict=True)
    ]
    found = fit(disturbed)
    assert median_error(found, disturbed) < 0.15
    assert all(value >= 0 for value in found.to_json().values())


def test_sites_taken_together_have_the_coefficients_of_each():
    alike = [splitter(KNOWN, 8, 0.05, 500, tuples) for tuples in (100_000, 300_000)]
    together = Observed.together(alike)
    assert (together.tuples, together.windows, together.outputs, together.members) == (400_000, 800, 8, 2)
    assert explained_s(KNOWN, together) == pytest.approx(together.cost_s)


def test_without_routers_and_processors_their_terms_are_zero():
    found = fit([splitter(KNOWN, *setting) for setting in SETTINGS])
    assert (found.router, found.cr, found.cm, found.cmW, found.cpoll) == (0, 0, 0, 0, 0)


def test_costs_that_hang_on_windows_alone_can_still_be_compared():
    windows_only = Coefficients(cc=0.0, cp=0.0, ce=0.0, crW=1e-4)
    found = fit([splitter(windows_only, *setting) for setting in SETTINGS])
    assert found.crW == pytest.approx(1e-4)
    assert found.a < 1


def test_too_few_runs_are_refused():
    with pytest.raises(QueryError, match="at least 4 different splitters, got 1"):
        fit([splitter(KNOWN, 8, 0.0, 500)])

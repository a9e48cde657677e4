"""What people see: a browser logs in, looks at a run of the DAG and at the log of a trial, and takes their pictures.

Those of the documents are renewed by
``GSDM_SCREENSHOTS=docs/images ./gsdm test tests/integration/airflow/test_screenshots.py``.
"""

import io
import os
from pathlib import Path
from urllib.parse import quote

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
LEAST_COLORS = 16
"""An empty page has fewer."""


@pytest.fixture
def pictures(tmp_path):
    """Where pictures go."""
    return Path(os.environ.get("GSDM_SCREENSHOTS") or tmp_path).resolve()


@pytest.fixture
def logged_in(make_browser, airflow):
    """A browser in which a user has logged in, with the password that `gsdm airflow` printed."""
    with make_browser(1440, 720) as browser:
        browser.open(f"{airflow.url}/auth/login")
        browser.type_into("input[name=username]", airflow.told["user"])
        browser.type_into("input[name=password]", airflow.told["password"])
        browser.click("button[type=submit]")
        browser.wait_for("!location.pathname.startsWith('/auth')")
        yield browser


def taken(browser, path):
    """Take a picture, small enough for a repository; gives how many colors it has."""
    from PIL import Image

    picture = Image.open(io.BytesIO(browser.screenshot())).convert("RGB").quantize(64)
    picture.save(path, optimize=True)
    return len(picture.getcolors())


def test_the_grid_of_a_run_shows_its_rounds(logged_in, airflow, optimized, pictures):
    logged_in.open(f"{airflow.url}/dags/gsdm_optimize/runs/{quote(optimized)}")
    logged_in.wait_for_text("record_segment")
    logged_in.click("[data-testid='expand-all-button']")
    logged_in.wait_for('document.body.innerText.split("trial").length > 3')
    assert taken(logged_in, pictures / "airflow-grid.png") > LEAST_COLORS


def test_the_log_of_a_trial_shows_what_its_sites_spent(logged_in, airflow, optimized, pictures):
    trials = [one for one in airflow.tasks(optimized) if one["task_id"] == "round_0.trial"]
    split = next(one for one in trials if one["rendered_map_index"] == "window_split-2")
    place = f"runs/{quote(optimized)}/tasks/round_0.trial/mapped/{split['map_index']}"
    logged_in.open(f"{airflow.url}/dags/gsdm_optimize/{place}")
    logged_in.wait_for_text("compute.1")
    logged_in.wait_for_text("of the busiest site")
    assert taken(logged_in, pictures / "airflow-trial.png") > LEAST_COLORS

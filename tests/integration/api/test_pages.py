"""Pages as a browser shows them, over a running coordinator; and what anybody gets of them without a token.

The picture of the documents is renewed by
``GSDM_SCREENSHOTS=docs/images ./gsdm test tests/integration/api/test_pages.py -k screenshot``.
"""

import io
import json
import os
from http.client import HTTPConnection
from pathlib import Path

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from api.routes.pages import FOLDER, POLICY
from gsdm_grid.cli.commands import app
from gsdm_grid.client import Client

FFT3 = Path(__file__).resolve().parents[3] / "examples" / "fft3.yaml"
PAGES = ("/", "/queries/anything", "/trials/anything", "/optimizations/anything")
HTML = "<img src=x onerror='document.title=1'>"
LEAST_COLORS = 16
"""An empty page has fewer."""
FULL = """
    document.querySelector('.times')?.lastChild?.textContent.startsWith('−')
    && document.querySelectorAll('#live-values tbody tr').length === 8
"""
"""The waterfall is filled to the bottom."""
COUNTED = """
    window.asked = 0; window.fetched = window.fetch; window.timed = window.setTimeout;
    window.fetch = (...given) => (window.asked += 1, window.fetched(...given));
    window.setTimeout = (call) => window.timed(call, 0); 1
"""
"""What the page asks is counted from now on, and it does not pause between its turns."""
REASON = "document.querySelector('.reason').innerText"
"""Why a query failed; its events may say so a moment earlier."""
HIDDEN = """
    Object.defineProperty(document, 'hidden', {value: %s, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'))
"""
QUIET = """
    (async () => {
        do {
            window.before = window.asked;
            for (let turn = 0; turn < 20; turn += 1) await window.fetched('/healthz');
        } while (window.asked !== window.before);
    })()
"""
"""Waits until the page asks for nothing while others ask for a lot."""


@pytest.fixture(scope="module")
def grid(service):
    with Client(service.url, service.token) as client:
        yield client


@pytest.fixture(scope="module")
def running(grid):
    """A query that runs."""
    grid.submit(FFT3, "paged")
    grid.run("paged")
    yield "paged"
    grid.drop("paged")


@pytest.fixture(scope="module")
def broken(grid):
    """A query that failed, for a reason with HTML in it."""
    radio = {"type": "Radio", "interface": "player", "options": {"path": f"/nowhere/{HTML}.npy"}}
    grid.submit({"name": "broken-page", "inputs": [radio], "function": "fft3"})
    grid.run("broken-page", wait=False)
    yield "broken-page"
    grid.drop("broken-page")


@pytest.fixture(scope="module")
def optimized(grid):
    """A search that is over."""
    radio = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "seed": 71}}
    search = {"most": 2, "repeats": 1, "block_bytes": [None], "runs": [1]}
    specification = {"name": "tried-page", "inputs": [radio], "function": "fft3"}
    return grid.wait_for_optimization(grid.optimize(specification, count=64, search=search), 60)


@pytest.fixture(scope="module")
def window(make_browser):
    """One browser for all these tests: it takes seconds to start."""
    with make_browser(1280, 900) as browser:
        yield browser


@pytest.fixture
def browser(window, service):
    """A browser that knows no token."""
    window.open(f"{service.url}/")
    window.wait_for("document.readyState === 'complete'")
    window.evaluate("localStorage.clear()")
    window.open("about:blank")
    return window


@pytest.fixture
def look(browser, service):
    """Open a page with a token in its address."""

    def open_page(path):
        browser.open(f"{service.url}{path}#token={service.token}")
        browser.wait_for("!!document.querySelector('#shown h1')")
        return browser

    return open_page


def text_of(browser, selector):
    return browser.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")


# -- what a browser shows -------------------------------------------------------------------------------------------


def test_the_list_shows_a_query_and_leads_to_its_page(look, running):
    browser = look("/")
    row = text_of(browser, "tr[data-key=paged]")
    assert "active" in row
    assert "PCC 2" in row
    browser.wait_for("Number(document.querySelector('tr[data-key=paged]').cells[6].innerText) > 0")
    browser.click("tr[data-key=paged] a")
    browser.wait_for("location.pathname === '/queries/paged' && document.title.startsWith('paged')")


def test_the_page_of_a_query_shows_its_state_its_sites_and_a_picture(look, running):
    browser = look("/queries/paged")
    assert "active" in text_of(browser, "dl")
    for site in ("partition.0", "compute.0", "compute.1", "combine.0"):
        assert "thread" in text_of(browser, f"tr[data-key='{site}']")
    browser.wait_for("parseFloat(document.querySelector(\"tr[data-key='compute.0']\").cells[7].innerText) > 0")
    browser.wait_for("document.querySelector('img.picture')?.naturalWidth > 100")
    assert browser.evaluate("document.querySelector('img.picture').src").startswith("blob:")
    assert "specified" in text_of(browser, "#shown")
    assert '"synthetic_radio"' in browser.evaluate("document.querySelector('details').textContent")


def test_the_page_of_a_query_shows_what_it_read_and_delivered_in_all(look, running, grid):
    (read,), (delivered,) = (list(grid.query(running).totals[verb]) for verb in ("read", "delivered"))
    browser = look("/queries/paged")
    for row in (f"read {read}", f"delivered {delivered}"):
        cells = f"document.querySelector(\"tr[data-key='{row}']\").cells"
        browser.wait_for(f"parseFloat({cells}[2].innerText) > 0 && parseFloat({cells}[3].innerText) > 0")
        assert browser.evaluate(f"[{cells}[1].innerText, {cells}[0].innerText].join(' ')") == row
    assert "dropped" not in text_of(browser, "#shown")


def test_what_is_focused_selected_and_opened_stays_when_the_page_is_renewed(look, running):
    browser = look("/")
    browser.evaluate("document.querySelector('tr[data-key=paged] a').focus()")
    browser.evaluate("window.before = document.querySelector('#renewed').textContent")
    browser.wait_for("document.querySelector('#renewed').textContent !== window.before")
    assert browser.evaluate("document.activeElement.textContent") == "paged"
    browser = look("/queries/paged")
    browser.click("summary")
    browser.evaluate("window.before = document.querySelector('#renewed').textContent")
    browser.wait_for("document.querySelector('#renewed').textContent !== window.before")
    assert browser.evaluate("document.querySelector('details').open")


def test_a_reason_with_html_in_it_is_shown_as_text(look, broken):
    browser = look("/queries/broken-page")
    browser.wait_for(f"{REASON}.includes('cannot read')")
    assert HTML in text_of(browser, ".reason")
    assert browser.evaluate("document.querySelectorAll('img[src=x]').length") == 0
    assert browser.evaluate("document.title").startswith("broken-page")


def test_the_page_of_a_query_that_failed_shows_the_lines_of_its_function(look, grid, tmp_path):
    code = "from gsdm_grid import Radio, current_window, sqf\n\n\n@sqf(Radio)\ndef halting(s):\n    "
    (tmp_path / "code.py").write_text(f"{code}return [current_window(s)][1]\n")
    grid.upload_bundle("paged_bundle", tmp_path / "code.py")
    radio = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64}}
    grid.submit({"name": "halting-page", "inputs": [radio], "function": "paged_bundle.halting"})
    grid.run("halting-page", wait=False)
    browser = look("/queries/halting-page")
    browser.wait_for(f"{REASON}.includes('IndexError: list index out of range')")
    assert "in halting\n    return [current_window(s)][1]" in text_of(browser, ".reason pre")
    grid.drop("halting-page")
    grid.remove_bundle("paged_bundle")


def test_an_optimization_and_its_trials_show_what_was_measured(look, optimized):
    browser = look(f"/optimizations/{optimized.id}")
    browser.wait_for_text("Chosen: ")
    browser.wait_for("document.querySelector('img.picture')?.naturalWidth > 100")
    browser.evaluate("HTMLAnchorElement.prototype.click = function () { window.saved = this.download }; 1")
    browser.click("button[data-download]")
    browser.wait_for(f"window.saved === '{optimized.id}.html'")
    browser.evaluate("delete HTMLAnchorElement.prototype.click")
    browser.click("td a[href^='/trials/']")
    browser.wait_for("location.pathname.startsWith('/trials/') && !!document.querySelector('#shown tbody tr')")
    assert "succeeded" in text_of(browser, "dl")
    assert browser.evaluate("document.querySelector('tr[data-key] rect.processing').getBBox().width") > 0


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/queries/nothing-of-the-kind", "nothing-of-the-kind"),
        ("/trials/trial-none", "There is no trial 'trial-none'"),
        ("/optimizations/opt-none", "opt-none"),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence_and_looked_for_again(browser, service, path, said):
    browser.open(f"{service.url}{path}#token={service.token}")
    browser.wait_for_text("Looking for it again.")
    assert said in text_of(browser, "#notice")


def test_a_page_appears_as_soon_as_there_is_something(browser, service, grid):
    browser.open(f"{service.url}/queries/comes-later#token={service.token}")
    browser.wait_for_text("Looking for it again.")
    grid.submit(FFT3, "comes-later")
    browser.wait_for("document.querySelector('#shown h1')?.innerText === 'comes-later'")
    assert text_of(browser, "#notice") == ""
    grid.drop("comes-later")
    browser.wait_for_text("Looking for it again.")


def test_a_coordinator_that_does_not_answer_is_said_and_waited_for(browser, service, look, running):
    browser = look("/queries/paged")
    browser.evaluate("window.fetched = window.fetch; window.fetch = () => Promise.reject(new TypeError())")
    browser.wait_for_text("The coordinator does not answer; trying again.")
    assert "paged" in text_of(browser, "#shown")
    browser.evaluate("window.fetch = window.fetched; 1")
    browser.wait_for("document.querySelector('#notice').textContent === ''")


def test_the_token_in_the_address_is_taken_and_removed(look, service):
    browser = look("/")
    assert browser.evaluate("location.href") == f"{service.url}/"
    assert browser.evaluate("localStorage.getItem('gsdm.token')") == service.token
    browser.open(f"{service.url}/")
    browser.wait_for("!!document.querySelector('#shown h1')")


def test_a_page_without_a_token_asks_for_it_and_forgets_it_when_told(browser, service, running):
    browser.open(f"{service.url}/queries/paged")
    browser.wait_for("document.querySelector('#asking').checkVisibility()")
    assert browser.evaluate("document.activeElement.id") == "token"
    browser.type_into("#token", service.token)
    browser.click("#asking button")
    browser.wait_for("document.querySelector('#shown h1')?.innerText === 'paged'")
    assert not browser.evaluate("document.querySelector('#asking').checkVisibility()")
    browser.click("#forget")
    browser.wait_for("document.querySelector('#asking').checkVisibility()")
    assert text_of(browser, "#shown") == ""
    assert browser.evaluate("localStorage.getItem('gsdm.token')") is None


def test_a_wrong_token_leads_to_the_form(browser, service):
    browser.open(f"{service.url}/#token=gsdm_000000000000_{'a' * 43}")
    browser.wait_for_text("does not know this token")
    assert browser.evaluate("document.querySelector('#asking').checkVisibility()")
    assert browser.evaluate("localStorage.getItem('gsdm.token')") is None


def test_a_hidden_page_asks_for_nothing(look, running):
    browser = look("/queries/paged")
    browser.evaluate(COUNTED)
    browser.wait_for("window.asked > 0")
    browser.evaluate(HIDDEN % "true")
    browser.evaluate(QUIET)
    browser.evaluate(HIDDEN % "false")
    browser.wait_for("window.asked > window.before")


def test_the_documentation_shows_the_operations_without_complaints(browser, service, tmp_path):
    browser.complaints.clear()
    browser.open(f"{service.url}/docs")
    browser.wait_for("document.querySelectorAll('.opblock').length > 40")
    browser.wait_for_text("/v1/queries/{name}/results")
    browser.click(".opblock-summary-control[aria-expanded='false']")
    browser.wait_for("!!document.querySelector('.opblock.is-open .responses-table')")
    (tmp_path / "docs.png").write_bytes(browser.screenshot())
    assert browser.complaints == []


@pytest.mark.parametrize(("name", "seen"), [("live-view", "h1"), ("query-page", "figure")])
def test_the_screenshots_of_a_query(look, grid, tmp_path, name, seen):
    from PIL import Image

    grid.submit(FFT3)
    grid.run("fft3")
    try:
        browser = look("/queries/fft3")
        browser.wait_for("document.querySelector('img.picture')?.naturalWidth > 100")
        browser.wait_for(
            "parseFloat(document.querySelector(\"tr[data-key='compute.0']\").cells[6].innerText.replace(',', '')) > 500"
        )
        browser.wait_for(FULL)
        browser.evaluate(f"document.querySelector('{seen}').scrollIntoView({{block: 'center'}})")
        picture = Image.open(io.BytesIO(browser.screenshot())).convert("RGB").quantize(256)
    finally:
        grid.drop("fft3")
    folder = Path(os.environ.get("GSDM_SCREENSHOTS") or tmp_path).resolve()
    picture.save(folder / f"{name}.png", optimize=True)
    assert len(picture.getcolors()) > LEAST_COLORS


# -- the live view --------------------------------------------------------------------------------------------------

RESULTS_COUNTED = """
    window.results = 0; window.fetched = window.fetch;
    window.fetch = (path, ...more) => (window.results += path.includes('/results'), window.fetched(path, ...more)); 1
"""
LIT = """
    (() => {
        const pixels = document.querySelector('.waterfall > canvas').getContext('2d').getImageData(0, 0, 512, 8).data;
        return new Set(new Uint32Array(pixels.buffer)).size;
    })()
"""
"""How many colors the newest rows of the waterfall have."""
LABEL = "document.querySelector('.waterfall .label').innerText"
WATERFALL = "document.querySelector('.waterfall > canvas').toDataURL()"
SPECTRAL = """
from gsdm_grid import Radio, current_window, sqf
from gsdm_grid.functions import Traits


@sqf(Radio, returns=Radio, traits=Traits(spectra=True))
def lines(s):
    return current_window(s)
"""


@pytest.fixture(scope="module")
def two_streams(grid, tmp_path_factory):
    """A query with two result streams of numbers and vectors."""
    path, rows = tmp_path_factory.mktemp("recorded") / "mixed.npz", np.arange(100)
    trace = np.sin(rows[:, None] + np.arange(64)).astype(np.float32)
    np.savez(path, ts=rows * 10**9, heat=20 + rows / 100, hits=rows.astype(np.int32), trace=trace)
    attributes = {"heat": "float64", "hits": "int32", "trace": "vector[64] of float32"}
    options = {"path": str(path), "rate": 200, "repeat": "forever"}
    mixed = {"type": {"name": "Mixed", "attributes": attributes}, "interface": "player", "options": options}
    split = {"template": "fsplit", "w": 2, "rfn": "hits % 2"}
    outputs = [{"name": "even"}, {}]
    grid.submit({"name": "two-streams", "inputs": [mixed], "flow": split, "outputs": outputs})
    grid.run("two-streams")
    yield "two-streams"
    grid.drop("two-streams")


@pytest.fixture
def stopped(grid):
    """A query of a test's own, which it may run."""
    grid.submit(FFT3, "driven-page")
    yield "driven-page"
    grid.drop("driven-page")


def choose(browser, name, value):
    selector = json.dumps(f"#live-{name}")
    browser.wait_for(f"[...document.querySelector({selector}).options].some((one) => one.value === '{value}')")
    browser.evaluate(
        f"(() => {{ const one = document.querySelector({selector}); one.value = '{value}';"
        "one.dispatchEvent(new Event('change')) })()"
    )


def test_the_live_view_draws_spectra_and_goes_on_without_complaints(look, running):
    browser = look("/queries/paged")
    browser.complaints.clear()
    browser.wait_for(f"{LIT} > 32")
    browser.wait_for("document.querySelectorAll('.uplot canvas').length === 2")
    assert text_of(browser, ".waterfall .label") == "frequency [kHz]"
    assert "-500" in text_of(browser, ".places")
    assert "dB" in text_of(browser, ".legend")
    before = text_of(browser, "#live-said")
    browser.wait_for(f"document.querySelector('#live-said').innerText !== {json.dumps(before)}")
    browser.wait_for("document.querySelectorAll('#live-values tbody tr').length === 8")
    assert "x (1,024)" in text_of(browser, "#live-values")
    assert browser.complaints == []


def test_what_was_drawn_stays_when_the_page_is_renewed(look, running):
    browser = look("/queries/paged")
    browser.wait_for(f"{LIT} > 32")
    browser.evaluate("window.before = document.querySelector('#renewed').textContent")
    browser.evaluate("window.drawn = document.querySelector('.waterfall > canvas'); 1")
    browser.wait_for("document.querySelector('#renewed').textContent !== window.before")
    assert browser.evaluate("window.drawn === document.querySelector('.waterfall > canvas')")
    assert browser.evaluate(LIT) > 32


def test_each_kept_stream_and_each_attribute_can_be_looked_at(look, two_streams):
    browser = look("/queries/two-streams")
    browser.wait_for("document.querySelectorAll('#live-values tbody tr').length === 8")
    offered = "[...document.querySelector('#live-stream').options].map((one) => one.value)"
    assert browser.evaluate(offered) == ["even", "results1"]
    assert text_of(browser, ".waterfall .label") == "place in the vector"
    choose(browser, "stream", "results1")
    hits = "[...document.querySelectorAll('#live-values tbody tr')].map((row) => Number(row.cells[3].innerText))"
    browser.wait_for(f"(() => {{ const hits = {hits}; return hits.length && hits.every((one) => one % 2) }})()")
    choose(browser, "attribute", "heat")
    browser.wait_for("!document.querySelector('.waterfall').checkVisibility()")
    browser.wait_for("document.querySelector('.drawings .uplot').checkVisibility()")
    assert not browser.evaluate("document.querySelector('#live-axis').checkVisibility()")


def test_a_fast_query_is_asked_for_its_newest_windows_only(look, grid):
    radio = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 256, "rate": 4000}}
    grid.submit({"name": "fast-page", "inputs": [radio], "function": "fft3"})
    grid.run("fast-page")
    try:
        browser = look("/queries/fast-page")
        browser.wait_for_text("64 of the last")
    finally:
        grid.drop("fast-page")


def test_a_live_view_that_is_held_asks_for_no_results(look, running):
    browser = look("/queries/paged")
    browser.wait_for(f"{LIT} > 32")
    browser.evaluate(RESULTS_COUNTED)
    browser.wait_for("window.results > 0")
    browser.click("#live-hold")
    renewed = "document.querySelector('#renewed').textContent"
    for _ in range(2):  # what was asked before is over at the second renewal at the latest
        browser.evaluate(f"window.before = {renewed}; window.heard = window.results")
        browser.wait_for(f"{renewed} !== window.before")
    assert browser.evaluate("window.results === window.heard")
    browser.click("#live-hold")
    browser.wait_for("window.results > window.heard")


def hold(browser):
    """Hold still, and wait until the page has got what it holds."""
    browser.click("#live-hold")
    renewed = "document.querySelector('#renewed').textContent"
    for _ in range(2):
        browser.evaluate(f"window.before = {renewed}")
        browser.wait_for(f"{renewed} !== window.before")


def newest_in_table(browser):
    return browser.evaluate("document.querySelector('#live-values tbody td').innerText")


def test_another_attribute_and_scale_are_drawn_from_what_is_held(look, running):
    browser = look("/queries/paged")
    browser.wait_for(f"{LIT} > 32")
    hold(browser)
    said, drawn = text_of(browser, "#live-said"), browser.evaluate(WATERFALL)
    browser.evaluate(RESULTS_COUNTED)
    for name, value in (("attribute", "z"), ("scale", "plain"), ("attribute", "y")):
        choose(browser, name, value)
        assert browser.evaluate(LIT) > 32
        now = browser.evaluate(WATERFALL)
        assert now != drawn
        drawn = now
    assert text_of(browser, "#live-said") == said
    assert browser.evaluate("window.results") == 0
    assert said == f"Window {newest_in_table(browser)}."


def test_the_last_values_are_those_of_the_last_window_when_a_run_is_over(look, grid):
    radio = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "rate": 100}}
    grid.submit({"name": "over-page", "inputs": [radio], "function": "fft3"})
    browser = look("/queries/over-page")
    browser.wait_for("document.querySelector('#live-attribute').value === 'x'")
    grid.run("over-page", count=330)
    browser.wait_for("document.querySelector('#live-said').innerText.startsWith('Window 329')")
    browser.wait_for("document.querySelector('#live-values tbody td')?.innerText === '329'")
    grid.drop("over-page")


def test_scale_and_axis_that_a_person_chose_stay_when_another_attribute_is_chosen(look, running):
    browser = look("/queries/paged")
    choose(browser, "scale", "plain")
    choose(browser, "axis", "place")
    choose(browser, "attribute", "y")
    browser.wait_for(f"{LABEL}.startsWith('place')")
    assert browser.evaluate("[...document.querySelectorAll('.tools select')].map((one) => one.value)") == [
        *("results", "y", "both", "plain", "place")
    ]


def test_all_rows_of_a_waterfall_are_made_of_as_many_windows(look, running):
    """Each window of a look has a cell of its own, so a row tells of which windows it is made."""
    browser = look("/queries/paged")
    looks = browser.evaluate("""
        (async () => {
            const {Rows} = await import('/pages/vectors.js');
            const rows = new Rows(16), looks = [20, 40, 17, 3, 64, 15, 1, 33, 16];
            const windows = Array.from({length: 209}, (_, time) => {
                const cells = new Float64Array(209);
                cells[time] = 1;
                return {time, cells};
            });
            const inside = ({cells}) => [...cells].flatMap((cell, place) => cell ? [place] : []);
            return looks.map((count) => {
                const look = rows.take(windows.splice(0, count));
                return [look.anew, look.rows.map(inside)];
            });
        })()
    """)
    (_, first), (_, second), *_ = looks
    assert first == [[number] for number in range(20)]
    assert [anew for anew, _ in looks] == [False, True, *[False] * 7]
    assert second == [[number, number + 1, number + 2] for number in range(0, 60, 3)]
    assert [{len(row) for row in rows} for _, rows in looks] == [{1}, {3}, {3}, {3}, *[{4}] * 5]
    assert set().union(*(row for _, rows in looks for row in rows)) == set(range(209))
    assert all(row == list(range(row[0], row[-1] + 1)) for _, rows in looks for row in rows)


def test_an_axis_is_of_frequencies_where_a_function_declares_spectra_whatever_names_say(look, grid, tmp_path):
    (tmp_path / "code.py").write_text(SPECTRAL)
    grid.upload_bundle("spectral_bundle", tmp_path / "code.py")
    radio = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "rate": 100}}
    functions = {"undeclared-fft-page": "identity", "declared-page": "spectral_bundle.lines"}
    axes = {}
    for name, function in functions.items():
        grid.submit({"name": name, "inputs": [radio], "function": function})
        browser = look(f"/queries/{name}")
        browser.wait_for("document.querySelector('#live-attribute').value === 'x'")
        grid.run(name, count=100)
        browser.wait_for("document.querySelector('#live-said').innerText.startsWith('Window 99')")
        axes[name] = text_of(browser, ".waterfall .label")
        grid.drop(name)
    grid.remove_bundle("spectral_bundle")
    assert axes == {"undeclared-fft-page": "place in the vector", "declared-page": "frequency [kHz]"}


def test_buttons_run_scale_stop_and_resume_a_query(look, grid, stopped):
    browser = look("/queries/driven-page")
    browser.wait_for("document.querySelector('#drive-run').checkVisibility()")
    browser.click("#drive-run")
    browser.wait_for("!document.querySelector('#drive-deactivate').disabled")
    assert grid.query("driven-page").state == "active"
    browser.evaluate("document.querySelector('#degree').value = 3")
    browser.click("#scale")
    browser.wait_for("!!document.querySelector(\"tr[data-key='compute.2']\")")
    assert browser.evaluate("document.querySelector('#degree').value") == "3"
    browser.click("#drive-deactivate")
    browser.wait_for("document.querySelector('#drive-activate').checkVisibility()")
    assert grid.query("driven-page").state == "installed"
    browser.wait_for("!document.querySelector('#scale').disabled")
    browser.evaluate("document.querySelector('#degree').value = 1")
    browser.click("#scale")
    browser.wait_for("!document.querySelector(\"tr[data-key='compute.1']\")")
    browser.wait_for("document.querySelector('#drive-activate').checkVisibility()")
    assert grid.query("driven-page").specification["flow"]["args"][0] == 1
    browser.wait_for("!document.querySelector('#drive-activate').disabled")
    browser.click("#drive-activate")
    browser.wait_for("document.querySelector('#drive-deactivate').checkVisibility()")


def test_the_live_view_of_a_query_that_was_replaced_shows_its_new_results(look, grid, stopped):
    browser = look("/queries/driven-page")
    browser.wait_for("document.querySelector('#live-attribute').value === 'x'")
    radio = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 256, "rate": 200}}
    grid.replace("driven-page", {"name": "driven-page", "inputs": [radio], "function": "polar"})
    grid.run("driven-page")
    choose(browser, "attribute", "theta")
    browser.wait_for(f"{LIT} > 32")


def test_what_the_coordinator_refuses_is_said_beside_the_buttons(look, two_streams):
    browser = look("/queries/two-streams")
    browser.wait_for("!document.querySelector('#scale').disabled")
    browser.evaluate("document.querySelector('#degree').value = 2")
    browser.click("#scale")
    browser.wait_for("document.querySelector('#drive-said').innerText !== ''")


def test_a_viewer_sees_why_the_buttons_do_nothing(browser, service, grid, running):
    token = grid.create_token("looks-only", "viewer")
    assert grid.own_token().role == "admin"
    try:
        browser.open(f"{service.url}/queries/paged#token={token.token}")
        browser.wait_for_text("This token may look")
        assert browser.evaluate(
            "[...document.querySelectorAll('.driving button, #degree')].every((one) => one.disabled)"
        )
        browser.wait_for(f"{LIT} > 32")
    finally:
        grid.delete_token(token.id)


def test_a_query_that_keeps_nothing_has_no_live_view(look, grid):
    radio = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "rate": 100}}
    grid.submit({"name": "keeps-nothing", "inputs": [radio], "function": "fft3", "outputs": [{"interface": "null"}]})
    try:
        browser = look("/queries/keeps-nothing")
        browser.wait_for("document.querySelector('#drive-run').checkVisibility()")
        assert browser.evaluate("document.querySelector('.live')") is None
    finally:
        grid.drop("keeps-nothing")


def test_the_live_view_fits_a_phone(look, running):
    browser = look("/queries/paged")
    browser.call("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=False)
    try:
        browser.wait_for(f"{LIT} > 32")
        browser.wait_for("document.querySelector('.uplot').getBoundingClientRect().right <= innerWidth")
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    finally:
        browser.call("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)


# -- what anybody gets ----------------------------------------------------------------------------------------------


def test_pages_need_no_token_and_are_the_same_for_everybody(service):
    answers = [httpx.get(service.url + path) for path in PAGES]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    for answer in answers:
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.headers["Content-Security-Policy"] == POLICY
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere(service):
    assert "default-src 'none'" in POLICY
    assert "unsafe" not in POLICY
    html = httpx.get(f"{service.url}/").text
    assert "style=" not in html
    assert "://" not in html


def test_the_files_of_the_pages_are_served_with_their_types(service):
    types = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
    names = [path.name for path in FOLDER.iterdir() if path.suffix in types]
    assert len(names) > 4
    for name in names:
        answer = httpx.get(f"{service.url}/pages/{name}")
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].partition(";")[0] == types[Path(name).suffix]


@pytest.mark.parametrize("name", ["nothing.js", "page.html", "..%2fwiring.py", "%2e%2e%2froutes%2fpages.py", "..", ""])
def test_no_other_file_is_served(service, name):
    connection = HTTPConnection(httpx.URL(service.url).netloc.decode())  # sends an address as it is
    connection.request("GET", f"/pages/{name}")
    answer = connection.getresponse()
    assert answer.status == 404
    assert answer.headers["Content-Type"] == "application/problem+json"
    connection.close()


def test_pages_are_no_part_of_the_openapi_document(rest):
    paths = rest.get("/openapi.json").json()["paths"]
    assert not [path for path in paths if not path.startswith(("/v1", "/healthz", "/readyz", "/metrics"))]


# -- gsdm open ------------------------------------------------------------------------------------------------------


@pytest.fixture
def gsdm(service, monkeypatch):
    for name in ("GSDM_SERVER", "GSDM_TOKEN", "GSDM_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GSDM_HOME", str(service.home))
    return lambda *arguments: CliRunner().invoke(app, ["open", *arguments])


class FakeBrowser:
    def __init__(self, name="firefox"):
        self.name = name
        self.opened = []

    def open(self, address):
        self.opened.append(address)
        return True


def test_open_prints_the_address_with_the_token_and_opens_it(gsdm, service, running, monkeypatch):
    firefox = FakeBrowser()
    monkeypatch.setattr("webbrowser.get", lambda: firefox)
    address = f"{service.url}/queries/paged#token={service.token}"
    assert gsdm("paged").stdout == f"{address}\n"
    assert firefox.opened == [address]
    assert json.loads(gsdm("--json").stdout) == {"url": f"{service.url}/#token={service.token}", "opened": True}
    assert json.loads(gsdm("--no-browser", "--json").stdout)["opened"] is False
    assert len(firefox.opened) == 2


def test_open_says_so_where_there_is_no_browser(gsdm, running, monkeypatch):
    lynx = FakeBrowser("lynx")
    monkeypatch.setattr("webbrowser.get", lambda: lynx)
    done = gsdm("paged")
    assert "/queries/paged#token=" in done.stdout
    assert "no browser here" in done.stderr
    assert lynx.opened == []


def test_open_knows_which_queries_there_are(gsdm):
    done = gsdm("nothing-of-the-kind", "--no-browser")
    assert done.exit_code == 1
    assert "nothing-of-the-kind" in done.stderr

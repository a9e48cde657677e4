"""A bundle with a template and a stream interface of its own, through a coordinator on threads."""

import pytest
from typer.testing import CliRunner

from gsdm_grid.cli.commands import app
from gsdm_grid.client import ApiProblem, Client
from gsdm_grid.testing import eventually

BUNDLE = """
from gsdm_grid import PCC, create_stream_type, current_window, pipe, register_stream_interface, sqf, template

Depth = create_stream_type("LabDepth", ["ts", "metres"], ["timeval", "Real"])


def open_lines(stream):
    return open(stream.options["path"], stream.options.get("mode", "r"))


def next_line(file):
    "Depths, a line for each."
    ts, metres = next(file).split()
    return {"ts": int(ts), "metres": float(metres)}


def insert_line(file, window):
    file.write(f"{int(window.ts)} {float(window.metres)}\\n")


register_stream_interface(
    "LabDepth", "lines", open_lines, next_line, insert_line, lambda file: file.close(), options=["path", "mode"]
)


@sqf(Depth)
def feet(s, by=3.25):
    v = current_window(s)
    return v.replace(metres=v.metres * by)


@sqf
def same(s):
    return current_window(s)


@template
def spread(n: int, fun, params=None):
    "A function on n branches."
    return PCC(n, "RRpart", fun, params, "S-Merge")


@template
def converted(n: int, by: float = 3.25):
    "Depths in feet, twice over, on n branches."
    return pipe("spread", [n, feet, {"by": by}], spread, [n, "feet", {"by": 1.0}])
"""


@pytest.fixture
def lab(service):
    with Client(service.url, service.token) as client:
        client.upload_bundle("lab", BUNDLE.encode())
        yield client
        for query in list(client.queries()):
            client.drop(query.name)
        client.remove_bundle("lab")


def test_an_own_template_over_an_own_interface_gives_what_the_functions_say(lab, tmp_path):
    source, sink = tmp_path / "depths", tmp_path / "converted"
    source.write_text("".join(f"{k} {k / 2}\n" for k in range(100)))
    lab.submit(
        {
            "name": "sounding",
            "inputs": [{"type": "LabDepth", "interface": "lab.lines", "options": {"path": str(source)}}],
            "flow": {"template": "lab.converted", "args": [2], "by": 4.0},
            "outputs": [
                {"name": "kept"},
                {"name": "written", "interface": "lab.lines", "options": {"path": str(sink), "mode": "w"}},
            ],
        }
    )
    lab.run("sounding")
    kept = [float(value) for block in lab.result_blocks("sounding", stream="kept") for value in block.metres]
    assert kept == [2.0 * k for k in range(100)]
    expected = [f"{k} {2.0 * k}" for k in range(100)]
    eventually(lambda: sink.read_text().splitlines(), lambda lines: lines == expected, 60)  # once its file is closed


def test_templates_and_interfaces_of_bundles_are_listed(lab):
    assert lab.bundle("lab").templates == ("lab.converted", "lab.spread")
    assert lab.bundle("lab").interfaces == ("lab.lines",)
    shown = {one["name"]: one for one in lab.templates()}
    assert {"PCC", "splitstream", "lab.converted", "lab@1.converted"} <= set(shown)
    assert [one["name"] for one in shown["lab.converted"]["parameters"]] == ["n", "by"]
    assert lab.template("lab.spread")["bundle"] == "lab"
    [lines] = [one for one in lab.interfaces() if one["name"] == "lab.lines"]
    assert (lines["type"], lines["options"], lines["source"], lines["sink"]) == (
        "LabDepth", ["mode", "path"], True, True,
    )  # fmt: skip
    with pytest.raises(ApiProblem, match=r"there is no template 'lab.nothing'") as caught:
        lab.template("lab.nothing")
    assert caught.value.status == 404


def test_commands_list_templates_of_bundles(lab, service):
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
    ask = ["--server", service.url, "--token", service.token]
    listed = runner.invoke(app, ["templates", *ask]).output
    assert "lab.converted(n, by=3.25)\n" in listed
    assert "PCC(n, partfun, fun, params, combfun, combparams=None)\n" in listed
    assert (
        "Depths in feet, twice over, on n branches." in runner.invoke(app, ["templates", "lab.converted", *ask]).output
    )
    brought = runner.invoke(app, ["bundle", "ls", *ask]).output
    assert all(name in brought for name in ("lab.feet", "lab.spread", "lab.lines"))


def test_a_specification_with_wrong_arguments_is_refused_with_the_template_and_the_argument(lab):
    source = {"type": "Radio", "interface": "synthetic_radio"}
    query = {"name": "q", "inputs": [source], "flow": {"template": "lab.spread", "args": [2]}}
    with pytest.raises(ApiProblem, match=r"template 'lab.spread': needs a value for parameter 'fun'"):
        lab.submit(query)
    query["flow"] = {"template": "lab.spreat", "args": [2]}
    with pytest.raises(ApiProblem, match=r"flow.template: unknown template 'lab.spreat'; did you mean 'lab.spread'"):
        lab.submit(query)
    query = {**query, "inputs": [{"type": "Radio", "interface": "lab.lines"}], "flow": "fft3"}
    with pytest.raises(ApiProblem, match=r"'LabDepth' or a subtype, as interface 'lab.lines' takes"):
        lab.submit(query)


def test_a_bundle_whose_template_a_query_uses_is_not_removed(lab):
    source = {"type": "Radio", "interface": "synthetic_radio"}
    flow = {"template": "pipe", "args": ["polarize", {"template": "lab.spread", "args": [2, "identity"]}]}
    lab.submit({"name": "q", "inputs": [source], "flow": flow})
    with pytest.raises(ApiProblem, match=r"query 'q' uses 'lab.spread'"):
        lab.remove_bundle("lab")


def test_a_query_of_an_own_template_is_scaled_while_it_runs_and_loses_nothing(lab):
    source = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "rate": 500}}
    flow = {"template": "lab.spread", "args": [1, "lab.same"]}
    lab.submit({"name": "q", "inputs": [source], "flow": flow, "placement": "threads"})
    lab.run("q")
    eventually(lambda: lab.window_count("q"), lambda count: count > 50, 60)
    lab.upload_bundle("lab", BUNDLE.replace('"A function on n branches."', "raise RuntimeError").encode())
    lab.scale("q", 3)  # by the version of the template that it was compiled with
    assert sum(site["role"] == "compute" for site in lab.plan("q")["sites"]) == 3
    before = lab.window_count("q")
    eventually(lambda: lab.window_count("q"), lambda count: count > before + 50, 60)
    lab.deactivate("q")
    ordinals = [int(ts) for block in lab.result_blocks("q") for ts in block.ordinals]
    assert ordinals == list(range(len(ordinals)))

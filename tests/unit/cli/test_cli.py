import json
import re
import sys

import pytest
from typer.testing import CliRunner

from gsdm_grid import __version__, cli
from gsdm_grid.flow import DataFlow

COMMANDS = ["demo", "functions", "graph", "bench", "tune", "version", "doctor", "serve", "submit", "ls", "show", "run"]
COMMANDS += ["stop", "rm", "operations", "sites", "resources", "results", "stats", "explain", "open"]
FAMILIES = {
    "token": ("create", "ls", "rm"),
    "bundle": ("upload", "ls", "rm"),
    "trial": ("run", "ls", "show", "rm"),
    "profile": ("split",),
}
PCC_JSON = '{"template": "PCC", "args": [2, "fft3part", "fft3", {}, "OS-Join", ["fft3combine"]]}'


@pytest.fixture
def gsdm(monkeypatch, tmp_path):
    for name in ("GSDM_DEBUG", "GSDM_SERVER", "GSDM_TOKEN", "GSDM_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GSDM_HOME", str(tmp_path / "home"))
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments, **more: runner.invoke(cli.app, list(arguments), **more)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """An imitated repository with two benchmarks and something that is none."""
    (tmp_path / "pyproject.toml").write_text("")
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "gsdm_test_quick.py").write_text(
        '"""Measures nothing.\n\nMore."""\nimport sys\n\n\ndef main():\n    print("ran with", sys.argv[1:])\n'
    )
    (folder / "gsdm_test_failing.py").write_text("def main():\n    return 3\n")
    (folder / "notes.py").write_text("x = 1\n")
    monkeypatch.setattr(cli.commands, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    yield tmp_path
    for name in ("gsdm_test_quick", "gsdm_test_failing"):
        sys.modules.pop(name, None)


def test_help_shows_every_command(gsdm):
    shown = gsdm("--help")
    assert shown.exit_code == 0
    for command in (*COMMANDS, *FAMILIES, "test"):
        assert re.search(rf"\b{command}\b", shown.output)


@pytest.mark.parametrize(
    "command", [*COMMANDS, *(f"{family} {one}" for family, several in FAMILIES.items() for one in several)]
)
def test_every_command_has_help_and_json(gsdm, command):
    shown = gsdm(*command.split(), "--help")
    assert shown.exit_code == 0
    assert "--json" in shown.output


def test_version_is_printed(gsdm):
    assert gsdm("version").output.strip() == f"gsdm-grid {__version__}"
    assert json.loads(gsdm("version", "--json").stdout)["gsdm-grid"] == __version__


def test_functions_as_json_tell_signature_and_strategies(gsdm):
    listed = {one["name"]: one for one in json.loads(gsdm("functions", "--json").stdout)}
    assert listed["fft3"]["input"] == "Radio"
    assert [s["name"] for s in listed["fft3"]["strategies"]] == ["window_distribute", "window_split"]
    assert [p["name"] for p in listed["fft3part"]["parameters"]] == ["n", "i"]


def test_functions_are_listed_one_per_line(gsdm):
    line = next(line for line in gsdm("functions").output.splitlines() if "fft3(Radio)" in line)
    assert "window distribute, window split" in line


def test_one_function_is_described(gsdm):
    shown = gsdm("functions", "polarize")
    assert "polarize(Radio) → Polar" in shown.output
    assert "Stokes" in shown.output
    assert json.loads(gsdm("functions", "polarize", "--json").stdout)["name"] == "polarize"


@pytest.mark.parametrize(("form", "expected"), [("text", "5 sites"), ("dot", "digraph"), ("mermaid", "flowchart")])
def test_graph_prints_a_specification_in_every_form(gsdm, form, expected):
    spec = "{template: pipe, args: [" + PCC_JSON + ", polarize]}"
    shown = gsdm("graph", spec, "--format", form)
    assert shown.exit_code == 0, shown.output
    assert expected in shown.output
    assert "fft3part" in shown.output


@pytest.mark.parametrize("name", ["flow.json", "flow.yaml"])
def test_graph_reads_files(gsdm, tmp_path, name):
    (tmp_path / name).write_text(PCC_JSON)
    assert "OS-Join" in gsdm("graph", str(tmp_path / name)).output


def test_graph_reads_standard_input(gsdm):
    assert "fft3.0" in gsdm("graph", "-", input="fft3").output


def test_graph_as_json_is_a_flow_again(gsdm):
    flow = DataFlow.from_json(json.loads(gsdm("graph", PCC_JSON, "--json").stdout))
    assert flow.width == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["graph", "nothing_like_it"], "unknown function 'nothing_like_it'"),
        (["graph", "{template: PCCC}"], "unknown template 'PCCC'"),
        (["graph", "{template: PCC"], "neither JSON nor YAML"),
        (["graph", "no/such/file.json"], "no/such/file.json"),
        (["graph", "[1, 2]"], "expected a function name or a mapping"),
        (["functions", "nothing_like_it"], "unknown function 'nothing_like_it'"),
        (["demo", "--window", "33"], "even number of samples"),
    ],
)
def test_an_error_is_one_clear_line(gsdm, arguments, expected):
    shown = gsdm(*arguments)
    assert shown.exit_code == 1
    assert expected in shown.stderr
    assert shown.stderr.startswith("error: ")
    assert shown.stderr.count("\n") == 1
    assert "Traceback" not in shown.output


def test_debug_shows_where_an_error_came_from(gsdm):
    shown = gsdm("--debug", "graph", "nothing_like_it")
    assert type(shown.exception).__name__ == "UnknownName"


def test_an_interrupt_ends_with_its_own_exit_code(gsdm, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.local, "_benchmarks", interrupted)
    assert gsdm("bench").exit_code == 130


def test_benchmarks_are_listed(gsdm, checkout):
    listed = json.loads(gsdm("bench", "--json").stdout)
    assert listed == [
        {"name": "gsdm_test_failing", "doc": ""},
        {"name": "gsdm_test_quick", "doc": "Measures nothing."},
    ]
    assert "Measures nothing." in gsdm("bench").output


def test_a_benchmark_gets_what_follows_its_name(gsdm, checkout):
    shown = gsdm("bench", "gsdm_test_quick", "--rounds", "3", "--json")
    assert shown.exit_code == 0, shown.output
    assert "ran with ['--rounds', '3', '--json']" in shown.output


def test_a_benchmark_decides_the_exit_code(gsdm, checkout):
    assert gsdm("bench", "gsdm_test_failing").exit_code == 3


def test_an_unknown_benchmark_is_refused_with_those_that_there_are(gsdm, checkout):
    shown = gsdm("bench", "nothing_like_it")
    assert shown.exit_code == 1
    assert "unknown benchmark 'nothing_like_it'; known: gsdm_test_failing, gsdm_test_quick" in shown.stderr


@pytest.mark.parametrize("command", ["bench", "test"])
def test_outside_of_a_checkout_one_sentence_says_so(gsdm, tmp_path, monkeypatch, command):
    monkeypatch.setattr(cli.commands, "ROOT", tmp_path)
    shown = gsdm(command)
    assert shown.exit_code == 1
    assert "are in the source repository" in shown.stderr


def test_the_tests_run_in_the_repository_with_what_follows(gsdm, checkout, monkeypatch):
    (checkout / "tests").mkdir()
    calls = []

    def run(command, cwd, check):
        calls.append((command[1:], cwd))
        return type("Done", (), {"returncode": 5})

    monkeypatch.setattr(cli.local.subprocess, "run", run)
    assert gsdm("test", "-q", "--help").exit_code == 5
    assert calls == [(["-m", "pytest", "-q", "--help"], checkout)]

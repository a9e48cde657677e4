"""Commands that do without a coordinator."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from gsdm_grid.cli.commands import ROOT, app

EXAMPLE = ROOT / "examples" / "fft3.yaml"


@pytest.fixture
def gsdm(tmp_path, monkeypatch):
    """The command line, as somebody who has named a coordinator by its home; it is not asked."""
    for name in ("GSDM_DEBUG", "GSDM_SERVER", "GSDM_TOKEN", "GSDM_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:9", "pid": 1}))
    monkeypatch.setenv("GSDM_HOME", str(tmp_path))
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments, **more: runner.invoke(app, [str(argument) for argument in arguments], **more)


def test_a_wrong_address_is_one_clear_line(gsdm):
    done = gsdm("ls", "--server", "ftp://somewhere")
    assert done.exit_code == 1
    assert "is no address" in done.stderr


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("submit no/such.yaml", "specification 'no/such.yaml'"),
        ("trial run no/such.yaml", "specification 'no/such.yaml'"),
        ("bundle upload b no/such.py", "function code 'no/such.py'"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_line(gsdm, command, what):
    done = gsdm(*command.split())
    assert done.exit_code == 1
    assert f"{what} cannot be read" in done.stderr


def test_the_graph_of_a_whole_specification_is_drawn(gsdm):
    assert "S-Merge" in gsdm("graph", EXAMPLE).output


def test_a_specification_that_names_a_registered_source_says_where_to_ask(gsdm):
    done = gsdm("graph", "-", input="{name: q, inputs: [{source: s1}], flow: fft3}")
    assert done.exit_code == 1
    assert "'s1' is registered at a coordinator" in done.stderr


def test_the_example_is_a_query_that_runs_until_stopped():
    spec = yaml.safe_load(EXAMPLE.read_text())
    assert spec["name"] == "fft3"
    assert "stop" not in spec


def test_tls_needs_both_files(gsdm, tmp_path):
    (tmp_path / "cert.pem").write_text("")
    done = gsdm("serve", "--port", "0", "--tls-certificate", tmp_path / "cert.pem")
    assert done.exit_code == 1
    assert "TLS needs both" in done.stderr

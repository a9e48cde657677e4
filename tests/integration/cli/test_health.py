"""What `gsdm doctor` finds out by starting Java, and by asking ports."""

import socket
import stat

import pytest

from gsdm_grid.cli.health import check_coordinator, check_java, check_port


@pytest.fixture
def java(tmp_path):
    """An imitated Java that tells a version."""

    def make(told):
        executable = tmp_path / "bin" / "java"
        executable.parent.mkdir(exist_ok=True)
        executable.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
        executable.chmod(executable.stat().st_mode | stat.S_IXUSR)
        return tmp_path

    return make


def test_java_is_found_by_its_variable_or_on_the_path(java):
    home = java('openjdk version "21.0.1" 2023-10-17')
    assert check_java({"JAVA_HOME": str(home)}).verdict == "ok"
    assert check_java({"PATH": str(home / "bin")}).found.startswith("21 ")


@pytest.mark.parametrize("told", ['java version "1.8.0_392"', "nonsense"])
def test_an_old_java_is_not_enough(java, told):
    finding = check_java({"JAVA_HOME": str(java(told))})
    assert finding.verdict == "missing"
    assert "openjdk-17-jre-headless" in finding.advice


def test_without_java_it_says_how_to_get_it(tmp_path):
    assert check_java({"PATH": str(tmp_path)}).found == "there is none"
    assert "does not run" in check_java({"JAVA_HOME": str(tmp_path / "nowhere")}).found


def test_a_taken_port_is_a_warning_unless_a_coordinator_has_it():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert check_port(port, serving=False).verdict == "warning"
        assert check_port(port, serving=True).verdict == "ok"
    assert check_port(port, serving=False).verdict == "ok"


def test_no_coordinator_is_a_warning_with_the_way_to_start_one(tmp_path):
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        finding = check_coordinator(f"http://127.0.0.1:{kept.getsockname()[1]}", None, tmp_path)
    assert finding.verdict == "warning"
    assert finding.advice == "start one: gsdm serve"

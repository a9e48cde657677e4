from functools import partial

import pytest

from api.errors import Problem
from api.registry import allowed_code
from api.registry.data_folders import check_files
from gsdm_grid.errors import FlowError
from gsdm_grid.interfaces import interfaces

check_specification = partial(allowed_code.check_specification, allowed=("gsdm_grid.interfaces",))
check_stream = partial(allowed_code.check_stream, allowed=("gsdm_grid.interfaces",))
FILES = ["player", "recorder", "raw_iq", "sigmf", "gsdm_grid.interfaces.player:PlayerSource"]


@pytest.fixture
def data(tmp_path):
    for name in ("data", "scratch", "secret", "data-of-others"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "inner").mkdir()
    return tmp_path / "data"


def stream(interface, path):
    return {"interface": interface, "options": {"path": str(path)}}


@pytest.mark.parametrize("interface", FILES)
def test_files_in_a_data_folder_are_allowed(interface, data):
    folders = (data, data.parent / "scratch")
    for path in (data / "a.npy", data / "inner" / "a", data / "inner" / ".." / "a.npz", data.parent / "scratch" / "a"):
        check_stream(stream(interface, path), "source", "operator", folders)


@pytest.mark.parametrize("interface", FILES)
@pytest.mark.parametrize("path", ["secret/a.npy", "data/../secret/a.npy", "data-of-others/a.npy", "data", ""])
def test_files_elsewhere_are_not(interface, path, data):
    with pytest.raises(Problem, match="outside of the data folders") as caught:
        check_stream(stream(interface, data.parent / path), "source", "operator", (data,))
    assert caught.value.kind == "forbidden"
    assert str(data) in str(caught.value)


@pytest.mark.parametrize("interface", FILES)
def test_a_link_does_not_lead_out(interface, data):
    (data / "link").symlink_to(data.parent / "secret")
    (data / "loop").symlink_to(data / "loop")
    with pytest.raises(Problem, match="outside of the data folders"):
        check_stream(stream(interface, data / "link" / "a.npy"), "source", "operator", (data,))
    with pytest.raises((Problem, FlowError)):
        check_stream(stream(interface, data / "loop" / "a.npy"), "source", "operator", (data,))


def test_a_data_folder_may_itself_be_a_link(data):
    (data.parent / "short").symlink_to(data)
    for path in (data / "a.npy", data.parent / "short" / "a.npy"):
        check_stream(stream("player", path), "source", "operator", (data.parent / "short",))


def test_both_files_of_a_recording_are_looked_at(data):
    (data / "a.sigmf-data").symlink_to(data.parent / "secret" / "samples")
    for path in ("a", "a.sigmf-meta", "a.sigmf-data"):
        with pytest.raises(Problem, match="outside of the data folders"):
            check_stream(stream("sigmf", data / path), "source", "operator", (data,))


@pytest.mark.parametrize("path", ["a.npy", "./a.npy", "../data/a.npy", "~/a.npy"])
def test_a_path_must_be_absolute(path, data, monkeypatch):
    monkeypatch.chdir(data)
    with pytest.raises(FlowError, match=r"source.options: .* must be an absolute path"):
        check_stream(stream("player", path), "source", "operator", (data,))


def test_a_path_that_cannot_be_one_is_refused(data):
    with pytest.raises(FlowError, match="cannot be looked up"):
        check_files(interfaces.get("player"), {"path": f"{data}/a\0.npy"}, "source", (data,))


@pytest.mark.parametrize("options", [None, {}, {"path": 3}, {"path": None}])
def test_what_else_is_wrong_is_not_its_business(options, data):
    for interface in FILES:
        check_stream({"interface": interface, "options": options}, "source", "operator", (data,))


def test_admins_and_coordinators_without_data_folders_are_not_limited(data):
    elsewhere = {"inputs": [stream("player", data.parent / "secret" / "a.npy")]}
    check_specification(elsewhere, "admin", (data,))
    check_specification(elsewhere, "operator", ())
    with pytest.raises(Problem, match=r"inputs\[0\].options"):
        check_specification(elsewhere, "operator", (data,))
    with pytest.raises(Problem, match=r"outputs\[1\].options"):
        check_specification({"outputs": [{}, stream("recorder", "/a.npy")]}, "operator", (data,))


def test_every_interface_with_a_path_says_which_files_it_touches():
    for name in interfaces.names():
        found = interfaces.get(name)
        if "path" in (found.known_options or ()):
            assert found.files({"path": "/a"}), name

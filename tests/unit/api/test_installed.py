import sys

import pytest

from api.errors import Problem
from api.registry.allowed_code import calls_code, check_paths, check_specification
from gsdm_grid.errors import FlowError
from gsdm_grid.interfaces import interfaces

GENERATOR_PATH = "gsdm_grid.interfaces.generator:GeneratorSource"
PATHS = [
    "numpy.f2py.__main__:x",
    "numpy.f2py.__main__:1",
    "numpy.f2py.__main__ :x",
    "numpy.f2py.__main__:",
    "yaml:load",
    "json.tool:main",
    "os:abort",
    "gsdm_grid.cli.__main__:x",
    "nowhere:f",
    "gsdm_bundles.lib_v1:f",
    "__main__:x",
]
DATA = ["S-Merge", "127.0.0.1:5555", "nolocalhost:80", "http://10.0.0.1", ":", ".x:y", "a b:c d", 3, None]


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "document",
    [
        lambda path: {"inputs": [{"interface": path}]},
        lambda path: {"outputs": [{}, {"interface": path}]},
        lambda path: {"function": path},
        lambda path: {"flow": {"template": "PCC", "args": [2, "RRpart", path, {}, "OS-Join"]}},
        lambda path: {"function": "OS-Join", "params": {"combine": path}},
    ],
    ids=["input", "output", "function", "flow", "params"],
)
def test_no_document_names_code_by_its_path(document, path, role):
    interfaces.names()  # our own are imported when they are first asked for
    before = set(sys.modules)
    with pytest.raises(FlowError, match=r"--allow-module\): none"):
        check_specification(document(path), role)
    assert set(sys.modules) == before, "nothing is imported to find out"


def test_any_other_text_is_data():
    check_paths({"a": [*DATA, {"b": DATA}]}, "params")


def test_a_refusal_says_where_the_path_is():
    with pytest.raises(FlowError, match=r"flow.a\[1\].b: 'os.path:join'"):
        check_paths({"a": [1, {"b": "os.path:join"}]}, "flow")


@pytest.mark.parametrize("path", ["lab.streams:Antenna", "lab.streams.near:Antenna", "one:f"])
def test_the_settings_allow_modules_and_what_is_in_them(path):
    check_specification({"function": path}, "operator", allowed=("lab.streams", "one"))


@pytest.mark.parametrize("path", ["lab:Antenna", "lab.streams_of_others:Antenna", "ones:f"])
def test_the_settings_allow_no_other_modules(path):
    with pytest.raises(FlowError, match=r"lab.streams, one"):
        check_specification({"function": path}, "admin", allowed=("lab.streams", "one"))


def test_pickled_code_is_refused():
    with pytest.raises(FlowError, match="only for plans"):
        check_specification({"params": {"combine": {"$function": {"name": "f", "code": "gASVAA=="}}}}, "admin")


def test_calling_code_by_name_needs_an_admin():
    document = {"inputs": [{"interface": "generator", "options": {"function": "subprocess:check_output"}}]}
    assert calls_code("generator")
    with pytest.raises(Problem, match="needs an admin") as caught:
        check_specification(document, "operator")
    assert caught.value.kind == "forbidden"
    with pytest.raises(FlowError, match="--allow-module"):
        check_specification(document, "admin")
    check_specification(document, "admin", allowed=("subprocess",))


def test_a_generator_by_its_path_needs_an_admin_too():
    document = {"inputs": [{"interface": GENERATOR_PATH, "options": {"function": "subprocess:check_output"}}]}
    with pytest.raises(Problem, match="needs an admin"):
        check_specification(document, "operator", allowed=("gsdm_grid",))


@pytest.mark.parametrize("document", [{}, {"inputs": 3, "outputs": [None, 4]}, {"inputs": [{"interface": 4}]}])
def test_what_else_is_wrong_is_not_its_business(document):
    check_specification(document, "viewer")

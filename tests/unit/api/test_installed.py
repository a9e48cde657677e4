import pytest

from api.errors import Problem
from api.installed import calls_code, check_paths, check_specification, is_installed
from gsdm_grid.errors import FlowError

GENERATOR_PATH = "gsdm_grid.channels.generator:GeneratorSource"


@pytest.mark.parametrize("package", ["gsdm_grid", "numpy", "yaml"])
def test_installed_packages_may_be_named(package):
    assert is_installed(package)


@pytest.mark.parametrize("package", ["os", "subprocess", "antigravity", "nowhere", "evil", "gsdm_bundles", "__main__"])
def test_other_packages_may_not(package, tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("raise SystemExit")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not is_installed(package)


def test_paths_are_found_anywhere_in_a_document():
    check_paths({"a": ["S-Merge", "127.0.0.1:5555", "localhost:80", "gsdm_grid.apps.radio:x", 3, None]}, "flow")
    with pytest.raises(FlowError, match=r"flow.a\[1\].b: 'os.path:join'"):
        check_paths({"a": [1, {"b": "os.path:join"}]}, "flow")


@pytest.mark.parametrize("interface", ["generator", GENERATOR_PATH])
def test_calling_code_by_name_needs_an_admin(interface):
    document = {"inputs": [{"interface": interface, "options": {"function": "subprocess:check_output"}}]}
    assert calls_code(interface)
    with pytest.raises(Problem, match="needs an admin") as caught:
        check_specification(document, "operator")
    assert caught.value.kind == "forbidden"
    with pytest.raises(FlowError, match="does not lie in an installed package"):
        check_specification(document, "admin")


@pytest.mark.parametrize("document", [{}, {"inputs": 3, "outputs": [None, 4]}, {"inputs": [{"interface": 4}]}])
def test_what_else_is_wrong_is_not_its_business(document):
    check_specification(document, "viewer")

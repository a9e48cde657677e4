import base64
import importlib
import pickle
import sys
import textwrap
from importlib import metadata

import cloudpickle
import pytest

from gsdm_grid.errors import QueryError, UnknownName
from gsdm_grid.functions import FunctionRegistry, functions, reference, resolve, sqf


def made(name="made", code=None):
    return sqf(name=name, register=False)(code or (lambda s, a=1: (s, a)))


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Import a module with the given source, from a folder that other processes do not know."""
    loaded = []

    def load(name, source):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        monkeypatch.syspath_prepend(str(tmp_path))
        importlib.invalidate_caches()
        loaded.append(name)
        return importlib.import_module(name)

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


def test_registered_function_is_found_by_name():
    registry = FunctionRegistry()
    function = registry.add(made())
    assert registry.get("made") is function
    assert registry.get(function) is function
    assert registry.has("made")
    assert "made" in registry.names()


def test_registering_a_name_again_replaces_it():
    registry = FunctionRegistry()
    registry.add(made())
    second = registry.add(made())
    assert registry.get("made") is second


def test_unknown_function_says_what_is_known():
    with pytest.raises(
        UnknownName, match=r"unknown function 'ff3'; did you mean 'fft3'.* known: .*OS-Join, RRpart, S-Merge"
    ):
        functions.get("ff3")
    assert not functions.has("ff3")


def test_names_of_the_library_are_taken():
    for name in ("fft3", "S-Merge"):
        with pytest.raises(QueryError, match=f"function '{name}' is part of the built-in library"):
            functions.add(made(name))


def test_function_is_found_by_path():
    path = "gsdm_grid.functions.library.radio:fft3"
    assert functions.get(path) is functions.get("fft3")
    assert functions.has(path)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("gsdm_grid.nowhere:fft3", "cannot be loaded"),
        ("gsdm_grid.functions.library.radio:fft4", "cannot be loaded"),
        ("gsdm_grid.functions.library.radio:", "cannot be loaded"),
        (":fft3", "cannot be loaded"),
        (".relative:fft3", "cannot be loaded"),
        ("gsdm_grid.functions.library.radio:polarization", "is a function, not an @sqf function"),
        ("gsdm_grid.functions.library.radio:CHANNELS", "is a tuple, not an @sqf function"),
    ],
)
def test_path_that_leads_nowhere_is_a_query_error(path, message):
    with pytest.raises(QueryError, match=message):
        functions.get(path)
    assert not functions.has(path)


def test_module_that_fails_to_import_is_a_query_error_with_its_cause(module):
    with pytest.raises(ZeroDivisionError):
        module("gsdm_test_broken", "1 / 0")
    with pytest.raises(QueryError, match="division by zero") as caught:
        functions.get("gsdm_test_broken:f")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_functions_of_installed_packages_are_found_by_entry_point(monkeypatch, tmp_path):
    package = tmp_path / "plug-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[gsdm.functions]\nplugged = gsdm_test_plug:plugged\nwrong = gsdm_test_plug:wrong\n"
    )
    (tmp_path / "gsdm_test_plug.py").write_text(
        "from gsdm_grid.functions import sqf\nplugged = sqf(name='plugged', register=False)(lambda s: s)\nwrong = 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "plug" in {distribution.name for distribution in metadata.distributions()}
    registry = FunctionRegistry()
    assert {"plugged", "wrong"} <= set(registry.names())
    assert registry.get("plugged").name == "plugged"
    with pytest.raises(QueryError, match="is a int, not an @sqf function"):
        registry.get("wrong")


def test_function_of_an_installed_module_is_referred_to_by_path(module, tmp_path, monkeypatch):
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "gsdm_test_installed.py").write_text(
        "from gsdm_grid.functions import sqf\n@sqf(name='other name', register=False)\ndef f(s):\n    return s\n"
    )
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    installed = importlib.import_module("gsdm_test_installed")
    try:
        given = reference(installed.f)
        assert given == {"name": "other name", "path": "gsdm_test_installed:f"}
        assert resolve(given) is installed.f
    finally:
        sys.modules.pop("gsdm_test_installed")


def test_module_that_the_user_registered_for_pickling_stays_registered(module):
    loaded = module(
        "gsdm_test_kept",
        "from gsdm_grid.functions import sqf\nf = sqf(name='f', register=False)(lambda s: s)",
    )
    cloudpickle.register_pickle_by_value(loaded)
    try:
        reference(loaded.f)
        assert "gsdm_test_kept" in cloudpickle.list_registry_pickle_by_value()
    finally:
        cloudpickle.unregister_pickle_by_value(loaded)


def test_function_that_cannot_be_pickled_is_a_query_error():
    generator = (number for number in range(3))
    with pytest.raises(QueryError, match="function 'held' cannot be sent to other processes"):
        reference(sqf(name="held", register=False)(lambda s: next(generator)))


@pytest.mark.parametrize(
    "code",
    [
        "not base64!",
        "",
        "AAAA",
        base64.b64encode(pickle.dumps(3)).decode(),
        base64.b64encode(b"cnowhere\nx\n.").decode(),
    ],
)
def test_code_that_is_no_function_is_a_query_error(code):
    with pytest.raises(QueryError, match="'f'"):
        resolve({"name": "f", "code": code})


def test_reference_to_what_is_not_there_is_an_error():
    with pytest.raises(UnknownName):
        resolve({"name": "nowhere"})
    with pytest.raises(QueryError):
        resolve({"name": "f", "path": "nowhere:f"})

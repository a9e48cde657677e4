import io
import sys
import textwrap
import zipfile

import pytest

from api.errors import Problem
from api.registry.bundle_contents import forget
from api.registry.bundles import Bundles
from api.registry.packages import Packages
from api.registry.registered_streams import delete_stream, post_stream
from api.store import Store
from gsdm_grid.errors import QueryError
from gsdm_grid.flow import TEMPLATES, build
from gsdm_grid.functions import FunctionRegistry, functions
from gsdm_grid.interfaces import interfaces
from gsdm_grid.model import stream_types

PYTHON, ZIP = "text/x-python", "application/zip"
TWICE = "from gsdm_grid.functions import sqf\n@sqf\ndef twice(s, by={by}):\n    return s * by\n"
PACKAGE = {
    "__init__.py": """
        from gsdm_grid.functions import sqf
        from . import constants
        from .inner.helpers import scaled

        @sqf
        def gain(s):
            return scaled(s) + constants.OFFSET

        @sqf(name="other", register=False)
        def not_registered(s):
            return gain(s) + 1
    """,
    "constants.py": "OFFSET = 100\nFACTOR = 3\n",
    "inner/__init__.py": "from gsdm_grid.functions import sqf\n@sqf\ndef deep(s):\n    return s\n",
    "inner/helpers.py": """
        from ..constants import FACTOR
        from .. import constants

        class Scale:
            def __init__(self, factor):
                self.factor = factor
            def __call__(self, value):
                return value * self.factor * (constants.FACTOR // FACTOR)

        def scaled(value):
            return Scale(FACTOR)(value)
    """,
}


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, source in files.items():
            archive.writestr(name, textwrap.dedent(source))
    return buffer.getvalue()


@pytest.fixture
def store(tmp_path):
    made = Store(f"sqlite:///{tmp_path / 'gsdm.sqlite'}")
    yield made
    made.close()


@pytest.fixture
def registry():
    return FunctionRegistry()


@pytest.fixture
def users():
    """Queries by the name of the function that they use."""
    return {}


@pytest.fixture
def made(store, tmp_path, registry, users):
    others = set(sys.modules)
    bundles = Bundles(
        store, tmp_path / "bundles", lambda kind, name: users.get(name), Packages(tmp_path / "packages"), registry
    )
    yield bundles
    users.clear()
    for bundle in bundles.list():
        bundles.remove(bundle["name"])
    assert not [name for name in set(sys.modules) - others if name.startswith("gsdm_bundles.")]


def refusal(bundles, source, media_type=PYTHON):
    content = source if isinstance(source, bytes) else textwrap.dedent(source).encode()
    with pytest.raises(Problem) as caught:
        bundles.upload("b", media_type, content, "t")
    assert bundles.list() == []
    assert not [name for name in sys.modules if name.startswith("gsdm_bundles.b_")]
    return caught.value


def test_functions_are_registered_under_the_bundle_and_its_version(made, registry):
    shown, new = made.upload("b", PYTHON, TWICE.format(by=2).encode(), "t")
    assert new
    assert (shown["version"], shown["functions"]) == (1, ["b.twice"])
    assert registry.get("b.twice")(3) == registry.get("b@1.twice")(3) == 6
    assert registry.get("b.twice").name == "b.twice"
    assert dict(registry.get("b.twice").metadata) == {"bundle": "b", "version": 1, "pinned": "b@1.twice"}
    assert "twice" not in functions.names()


def test_the_same_content_again_is_the_same_version(made):
    first, _ = made.upload("b", PYTHON, TWICE.format(by=2).encode(), "t")
    assert made.upload("b", PYTHON, TWICE.format(by=2).encode(), "other") == (first, False)
    made.upload("b", PYTHON, TWICE.format(by=3).encode(), "t")
    assert made.upload("b", PYTHON, TWICE.format(by=2).encode(), "t")[0]["version"] == 3


def test_names_of_the_library_are_free_inside_a_bundle(made, registry):
    source = b"from gsdm_grid.functions import sqf\n@sqf\ndef fft3(s):\n    return 'mine'\n"
    made.upload("b", PYTHON, source, "t")
    assert registry.get("b.fft3")(1) == "mine"
    assert functions.get("fft3").code.__module__.startswith("gsdm_grid.")


def test_bundles_are_found_again_after_a_restart(made, store, tmp_path):
    made.upload("b", PYTHON, TWICE.format(by=2).encode(), "t")
    made.upload("b", PYTHON, TWICE.format(by=3).encode(), "t")
    made.upload("c", ZIP, zipped(PACKAGE), "t")
    registry = FunctionRegistry()
    Bundles(
        store, tmp_path / "elsewhere", lambda kind, name: None, Packages(tmp_path / "packages"), registry
    ).load_all()
    assert registry.get("b.twice")(1) == 3
    assert registry.get("b@1.twice")(1) == 2
    assert registry.get("c.gain")(2) == 106


def test_a_bundle_that_does_not_load_any_more_is_shown_and_can_be_uploaded_again(made, store, tmp_path, monkeypatch):
    source = f"import gsdm_test_gone\n{TWICE.format(by=2)}".encode()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "gsdm_test_gone", sys)
        made.upload("b", PYTHON, source, "t")
    made.upload("c", PYTHON, TWICE.format(by=2).encode(), "t")
    registry = FunctionRegistry()
    again = Bundles(store, tmp_path / "bundles", lambda kind, name: None, Packages(tmp_path / "packages"), registry)
    again.load_all()
    assert "No module named 'gsdm_test_gone'" in again.get("b")["error"]
    assert not registry.has("b.twice")
    assert registry.has("c.twice")
    monkeypatch.setitem(sys.modules, "gsdm_test_gone", sys)
    assert again.upload("b", PYTHON, source, "t")[1]
    assert again.get("b")["error"] is None


@pytest.mark.parametrize(
    ("source", "kind", "reason"),
    [
        ("x = 1", "invalid-request", "no @sqf functions, templates or stream interfaces"),
        (
            "from gsdm_grid.functions.library.radio import fft3",
            "invalid-request",
            "no @sqf functions, templates or stream interfaces",
        ),
        ("def f(:", "function-failed", "SyntaxError"),
        ("\n1 / 0", "function-failed", "ZeroDivisionError: division by zero (__init__.py, line 2)"),
        ("import gsdm_nowhere", "function-failed", "No module named 'gsdm_nowhere'"),
        ("raise SystemExit(3)", "function-failed", "SystemExit: 3"),
        ("import sys\ndef f(): f()\nf()", "function-failed", "RecursionError"),
        (
            "from gsdm_grid.functions import sqf\nimport threading\nL = threading.Lock()\n@sqf\ndef f(s):\n  return L",
            "function-failed",
            "cannot be sent to other processes",
        ),
        (
            "from gsdm_grid.functions import sqf\nf = sqf(name='a b')(lambda s: s)",
            "invalid-request",
            "needs a plain name",
        ),
        (
            "from gsdm_grid.functions import sqf\nf = sqf(name='f')(lambda s: s)\ng = sqf(name='f')(lambda s: 1)",
            "invalid-request",
            "two functions named 'f'",
        ),
        ("from gsdm_grid.functions import sqf\n@sqf\ndef f(): pass", "function-failed", "takes no stream"),
    ],
)
def test_code_that_is_no_bundle_is_refused_with_the_cause(made, source, kind, reason):
    problem = refusal(made, source)
    assert problem.kind == kind
    assert reason in problem.detail
    assert "Traceback" not in problem.detail


@pytest.mark.parametrize("name", ["", "1a", "a.b", "a-b", "a/b", "é", "a" * 49, "a\n"])
def test_names_of_bundles_are_plain(made, name):
    with pytest.raises(Problem, match="name"):
        made.upload(name, PYTHON, TWICE.format(by=2).encode(), "t")


def test_a_bundle_in_use_is_not_removed(made, users, registry):
    made.upload("b", PYTHON, TWICE.format(by=2).encode(), "t")
    users["b@1.twice"] = "q"
    with pytest.raises(Problem, match=r"query 'q' uses 'b@1\.twice'") as caught:
        made.remove("b")
    assert caught.value.kind == "in-use"
    users.clear()
    made.remove("b")
    assert not registry.has("b.twice")
    assert not registry.has("b@1.twice")
    for call in (made.remove, made.get):
        with pytest.raises(Problem, match="there is no bundle"):
            call("b")


TYPED = """
from gsdm_grid import create_stream_type, sqf
Level = create_stream_type("BundledLevel", {{"value": "{kind}"}})
{more}
@sqf(Level, returns=Level)
def level(s):
    return s
"""


def test_a_later_version_may_change_the_types_that_the_bundle_brought(made, registry):
    made.upload("b", PYTHON, TYPED.format(kind="float32", more="").encode(), "t")
    made.upload("b", PYTHON, TYPED.format(kind="float64", more="").encode(), "t")
    assert str(stream_types.get("BundledLevel").attributes["value"]) == "float64"
    assert str(registry.get("b@1.level").input.attributes["value"]) == "float32"
    made.remove("b")
    assert "BundledLevel" not in stream_types.names()


def test_a_bundle_that_fails_leaves_the_types_as_they_were(made):
    refusal(made, TYPED.format(kind="float32", more="1 / 0"))
    assert "BundledLevel" not in stream_types.names()
    made.upload("b", PYTHON, TYPED.format(kind="float64", more="").encode(), "t")
    with pytest.raises(Problem):
        made.upload("b", PYTHON, TYPED.format(kind="float32", more="1 / 0").encode(), "t")
    assert str(stream_types.get("BundledLevel").attributes["value"]) == "float64"


FLOWS = """
from gsdm_grid import PCC, Radio, create_stream_type, pipe, register_stream_interface, sqf, template

Depth = create_stream_type("BundleDepth", {"metres": "float64"})


@sqf(Radio)
def own(s):
    return s


@template
def inner(n: int):
    return PCC(n, "RRpart", own, {}, "S-Merge")


@template
def outer(n: int):
    "Twice the same, by name and by the template itself."
    return pipe("own", inner, [n], "inner", [n])


register_stream_interface(Depth, "sonar", next=lambda _: None)
"""


@pytest.fixture
def registered_for_all(store, tmp_path):
    """Bundles of the process's own registry, as a coordinator has them."""
    bundles = Bundles(store, tmp_path / "bundles", lambda kind, name: None, Packages(tmp_path / "packages"))
    yield bundles
    for bundle in bundles.list():
        bundles.remove(bundle["name"])


def test_templates_and_interfaces_are_registered_under_the_bundle_and_its_version(registered_for_all):
    shown, _ = registered_for_all.upload("lab", PYTHON, FLOWS.encode(), "t")
    assert shown["functions"] == ["lab.own"]
    assert shown["templates"] == ["lab.inner", "lab.outer"]
    assert shown["interfaces"] == ["lab.sonar"]
    assert {"lab.outer", "lab@1.outer"} <= set(TEMPLATES.names())
    assert {"lab.sonar", "lab@1.sonar"} <= set(interfaces.names())
    assert not {"outer", "inner"} & set(TEMPLATES.names())
    assert "sonar" not in interfaces.names()
    assert interfaces.get("lab.sonar").accepts.name == "BundleDepth"


@pytest.mark.parametrize("version", ["lab.", "lab@1."])
def test_a_template_of_a_bundle_means_the_functions_and_templates_of_its_version(registered_for_all, version):
    registered_for_all.upload("lab", PYTHON, FLOWS.encode(), "t")
    flow = build({"template": f"{version}outer", "args": [2]})
    own = [vertex for vertex in flow.vertices if vertex.function_name not in ("RRpart", "S-Merge")]
    assert [vertex.function_name for vertex in own] == [f"{version}own"] * 5
    assert {vertex.function["pinned"] for vertex in own} == {"lab@1.own"}
    with pytest.raises(QueryError, match=f"template '{version}outer': parameter 'n': expected int, got 'two'"):
        build({"template": f"{version}outer", "args": ["two"]})


def test_a_query_keeps_the_version_of_a_template_that_it_was_compiled_with(registered_for_all):
    registered_for_all.upload("lab", PYTHON, FLOWS.encode(), "t")
    before = build({"template": "lab.outer", "args": [2]})
    changed = FLOWS.replace('return pipe("own", inner', "return pipe(own, inner, [n], inner")
    registered_for_all.upload("lab", PYTHON, changed.encode(), "t")
    assert len(build({"template": "lab.outer", "args": [2]}).vertices) > len(before.vertices)
    pins = TEMPLATES.pins({vertex.function_name: vertex.function["pinned"] for vertex in before.vertices[:1]})
    with functions.pinned(pins):
        again = build({"template": "lab.outer", "args": [2]})
    assert [(v.id, v.function.get("pinned")) for v in again.vertices] == [
        (v.id, v.function.get("pinned")) for v in before.vertices
    ]


def test_a_removed_bundle_takes_its_templates_and_interfaces_along(registered_for_all):
    registered_for_all.upload("lab", PYTHON, FLOWS.encode(), "t")
    registered_for_all.remove("lab")
    assert not [name for name in (*TEMPLATES.names(), *interfaces.names()) if name.startswith("lab")]


def test_a_bundle_whose_interface_a_query_or_source_uses_is_not_removed(made, users, store):
    made.upload("lab", PYTHON, FLOWS.encode(), "t")
    users["lab.sonar"] = "q"
    with pytest.raises(Problem, match=r"query 'q' uses 'lab\.sonar'"):
        made.remove("lab")
    users.clear()
    document = {"name": "deep", "type": "BundleDepth", "interface": "lab.sonar", "options": {}}
    post_stream(store, "source", document, "admin")
    with pytest.raises(Problem, match=r"source 'deep' uses its stream interface 'lab\.sonar'"):
        made.remove("lab")
    delete_stream(store, "source", "deep", lambda kind, name: None)


def test_templates_and_interfaces_are_there_again_after_a_restart(registered_for_all, store, tmp_path):
    registered_for_all.upload("lab", PYTHON, FLOWS.encode(), "t")
    forget(["lab.outer", "lab.sonar"], functions)
    Bundles(store, tmp_path / "bundles", lambda kind, name: None, Packages(tmp_path / "packages")).load_all()
    assert "lab.outer" in TEMPLATES
    assert "lab.sonar" in interfaces.names()


def test_a_bundle_may_bring_nothing_but_a_template(made):
    source = "from gsdm_grid import central, template\n@template\ndef one():\n    return central('fft3')\n"
    shown, _ = made.upload("b", PYTHON, source.encode(), "t")
    assert (shown["functions"], shown["templates"], shown["interfaces"]) == ([], ["b.one"], [])


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("t = template(name='a b')(lambda: central('fft3'))", "template 'a b' needs a plain name"),
        ("register_stream_interface('Radio', 'a b', next=id)", "stream interface 'a b' needs a plain name"),
        ("t = template(name='f')(lambda: 1)\nf = sqf(name='f')(lambda s: s)", "a function and a template named 'f'"),
        ("t = template(name='f')(lambda: 1)\nu = template(name='f')(lambda: 2)", "two templates named 'f'"),
    ],
)
def test_templates_and_interfaces_that_could_not_be_named_are_refused(made, source, text):
    problem = refusal(made, f"from gsdm_grid import central, register_stream_interface, sqf, template\n{source}\n")
    assert problem.kind == "invalid-request"
    assert text in problem.detail

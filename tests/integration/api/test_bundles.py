"""Code of bundles in other processes, where there are no bundles, and beside other threads that import."""

import io
import json
import subprocess
import sys
import textwrap
import threading
import zipfile

import pytest

from api.registry.bundles import Bundles
from api.registry.packages import Packages
from api.store import Store
from gsdm_grid.flow import build
from gsdm_grid.functions import FunctionRegistry, reference

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


def in_another_process(given, expression):
    """Value of an expression about ``f``, a resolved reference, where there are no bundles."""
    program = (
        "import json, sys\nfrom gsdm_grid.functions import resolve\n"
        f"f = resolve(json.loads(sys.argv[1]))\nprint(json.dumps({expression}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(given)], capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def store(tmp_path):
    made = Store(f"sqlite:///{tmp_path / 'gsdm.sqlite'}")
    yield made
    made.close()


@pytest.fixture
def registry():
    return FunctionRegistry()


@pytest.fixture
def made(store, tmp_path, registry):
    others = set(sys.modules)
    bundles = Bundles(store, tmp_path / "bundles", lambda kind, name: None, Packages(tmp_path / "packages"), registry)
    yield bundles
    for bundle in bundles.list():
        bundles.remove(bundle["name"])
    assert not [name for name in set(sys.modules) - others if name.startswith("gsdm_bundles.")]


def test_another_version_is_the_latest_and_the_one_before_stays(made, registry):
    made.upload("b", PYTHON, TWICE.format(by=2).encode(), "t")
    before = reference(registry.get("b.twice"))
    shown, new = made.upload("b", PYTHON, TWICE.format(by=5).encode(), "t")
    assert (shown["version"], new) == (2, True)
    assert registry.get("b.twice")(1) == registry.get("b@2.twice")(1) == 5
    assert registry.get("b@1.twice")(1) == 2
    assert in_another_process(before, "f(1)") == 2
    assert [one["version"] for one in made.get("b")["versions"]] == [2, 1]


def test_other_threads_may_import_meanwhile(made):
    over = threading.Event()

    def importing():
        while not over.is_set():
            for number in range(50):
                sys.modules[f"imported_meanwhile_{number}"] = sys
            for number in range(50):
                del sys.modules[f"imported_meanwhile_{number}"]

    every_s = sys.getswitchinterval()
    other = threading.Thread(target=importing)
    sys.setswitchinterval(1e-6)
    other.start()
    try:
        for by in range(20):
            made.upload("b", PYTHON, TWICE.format(by=by).encode(), "t")
    finally:
        sys.setswitchinterval(every_s)
        over.set()
        other.join()


@pytest.mark.parametrize("folder", ["", "anything/"])
def test_a_package_of_several_modules_works_where_it_is_not_installed(made, registry, folder):
    shown, _ = made.upload("b", ZIP, zipped({folder + path: source for path, source in PACKAGE.items()}), "t")
    assert shown["functions"] == ["b.deep", "b.gain", "b.other"]
    assert registry.get("b.gain")(2) == 106
    assert in_another_process(reference(registry.get("b.gain")), "[f(2), f.name]") == [106, "b.gain"]
    assert in_another_process(reference(registry.get("b.other")), "f(2)") == 107


TEMPLATE = b"""
from gsdm_grid import PCC, Radio, sqf, template

@sqf(Radio)
def own(s):
    return s

@template
def spread(n: int):
    return PCC(n, "RRpart", own, {}, "S-Merge")
"""


@pytest.fixture
def registered_for_all(store, tmp_path):
    """Bundles of the process's own registry, as a coordinator has them."""
    bundles = Bundles(store, tmp_path / "bundles", lambda kind, name: None, Packages(tmp_path / "packages"))
    yield bundles
    for bundle in bundles.list():
        bundles.remove(bundle["name"])


@pytest.mark.parametrize("version", ["lab.", "lab@1."])
def test_a_template_of_a_bundle_means_functions_that_work_where_there_are_no_bundles(registered_for_all, version):
    registered_for_all.upload("lab", PYTHON, TEMPLATE, "t")
    flow = build({"template": f"{version}spread", "args": [2]})
    own = next(vertex for vertex in flow.vertices if vertex.function_name == f"{version}own")
    assert in_another_process(own.function, "f(7)") == 7
